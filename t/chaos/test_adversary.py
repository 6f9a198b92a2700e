"""An adversary plays against the real scripts and the real owner; each seed is one schedule.

A seed that fails is told, with the last that happened; to play it alone::

    ADVERSARY_SEED=123 pytest t/chaos/test_adversary.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from sizes import Size
from support.server import Server

from chaos.ending import tidy_up
from chaos.players import Play
from chaos.style import SHARED
from chaos.wire import Wire
from chaos.world import Stage, World
from redis_jobqueue import JobQueue

BATCHES = 6
STEPS = 120
TOLD = 80
"""Lines of the trace that a failure shows."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Return a stage; the modules are as before when the test ends."""
    with pytest.MonkeyPatch.context() as patch:
        yield Stage(patch)


def play(stage: Stage, wire: Wire, base: JobQueue, seed: int) -> int:
    """Play one schedule to its end; returns how many requests the server executed."""
    world = stage.world = World(wire, base, seed, SHARED)
    try:
        Play(world).run(STEPS)
        tidy_up(world)
    except BaseException as error:
        told = "\n".join(world.trace[-TOLD:])
        error.add_note(f"ADVERSARY_SEED={seed} plays this again:\n{told}") if hasattr(
            error, "add_note"
        ) else print(f"ADVERSARY_SEED={seed}\n{told}")
        raise
    finally:
        world.close()
    return world.steps


def seeds_of(batch: int, size: Size) -> list[int]:
    """Give the seeds of one batch."""
    alone = os.environ.get("ADVERSARY_SEED")
    if alone is not None:
        return [int(alone)] if batch == 0 else []
    first = int(os.environ.get("ADVERSARY_FIRST", "1"))
    return list(range(first + batch, first + size.schedules, BATCHES))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_lost(batch: int, server: Server, stage: Stage, size: Size) -> None:
    """Whatever is delayed, lost, killed, frozen or full: the rules hold after every request."""
    wire = Wire(server)
    with JobQueue(server.url, check_maxmemory=False) as base:
        for seed in seeds_of(batch, size):
            play(stage, wire, base, seed)
    wire.close()
