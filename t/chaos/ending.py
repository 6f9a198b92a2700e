"""How a schedule ends: everybody dies, and one last owner must find every job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.style import QUEUES, SHARED
from chaos.world import Actor, Client, World
from redis_jobqueue import JobDeletedError


def tidy_up(world: World) -> None:
    """Kill all, let what was sent arrive, and let one owner recover and finish every job."""
    for client in list(world.clients):
        world.kill(client)
    while world.late:
        world.execute(*world.late.pop(world.rng.randrange(len(world.late))))
    if world.full and world.rng.random() < 0.5:
        world.fill(False)
    world.move_clock(50)
    while any(moment > world.now for moment in world.state.beats.values()):
        world.move_clock(50)  # the server's clock went back
    last = Client(world, "last", skew=0, max_attempts=0)
    world.clients.append(last)
    actor = last.workers[0]
    for queue in QUEUES:
        let(world, actor, lambda name=queue: last.jq.resume(name))
        let(world, actor, lambda name=queue: last.jq.recover(name))
    let(world, actor, last.jq.recover)
    assert not world.state.held, "a dead owner's job was left behind"
    assert not {*world.state.shared} - {*SHARED}
    let(world, actor, last.owner.start)
    for _ in range(3):
        world.move_clock(40)
        let(world, actor, last.owner.beat)
        let(world, actor, lambda: last.jq.promote_due(limit=1000))
        finish_all(world, last, actor)
    for _ in range(2):
        let(world, actor, last.owner.upkeep)
    let(world, actor, last.owner.stop)
    judge(world)


def let(world: World, actor: Actor, call: Callable[[], Any]) -> Any:
    """Let an actor make a call that nothing disturbs."""
    answer = []
    actor.begin(lambda: answer.append(call()))
    while actor.call is not None:
        world.deliver(actor)
    return answer[0]


def finish_all(world: World, last: Client, actor: Actor) -> None:
    """Complete every job that waits."""

    def claim() -> Any:
        while True:
            try:
                return last.owner.claim(QUEUES, order="listed")
            except JobDeletedError:
                continue

    while (job := let(world, actor, claim)) is not None:
        let(world, actor, lambda: last.owner.complete(job))


def judge(world: World) -> None:
    """Nothing is stranded: every job has ended, is dead, or was taken; nothing else is left."""
    state, truth = world.state, world.truth
    left = {j for j in state.jobs if truth.jobs[j].status == "live" and state.where(j) != "dead"}
    assert not left, f"{left} were never done"
    dead = state.sets.get("dead", {}).keys()
    taken = {j for j in state.jobs if truth.jobs[j].status == "taken"}
    left_over = {
        "entries": state.places.keys() - dead,
        "claims": state.claims.keys(),
        "lists": state.lists,
        "beats": state.beats.keys(),
        "owners": state.about,
        "attempts": state.attempts.keys() - dead - taken,
        "cancelled": state.cancelled - taken,
    }
    assert not {name: what for name, what in left_over.items() if what}
