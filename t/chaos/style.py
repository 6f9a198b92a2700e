"""The queues of the adversary's world, and the ways in which a schedule is played."""

from __future__ import annotations

import random

import attrs

QUEUES = ["q", "q:w1-1", "other name"]
"""One looks like the list of owner w1-1 of queue q."""

SHARED = frozenset({b"q", b"other name"})
"""Queues that a home-made consumer moves entries of to a list without an owner."""


@attrs.frozen
class Style:
    """How a schedule is played: each seed draws its own, so that rare mixes come up."""

    losing: float
    """Share of requests without an answer."""
    perl: float
    operators: float
    fate: float
    dying: float
    filling: bool
    jumping: bool
    deleting: bool
    diligent: bool
    """Whether hearts beat in time, so that owners live long and may recover others."""
    max_attempts: int

    @classmethod
    def drawn(cls, rng: random.Random) -> Style:
        """Draw one."""
        return cls(
            losing=rng.choice((0, 0.1, 0.3)),
            perl=rng.choice((0, 0.05, 0.2)),
            operators=rng.choice((0.15, 0.3)),
            fate=rng.choice((0.03, 0.1)),
            dying=rng.choice((0.05, 0.2)),
            filling=rng.random() < 0.3,
            jumping=rng.random() < 0.2,
            deleting=rng.random() < 0.5,
            diligent=rng.random() < 0.5,
            max_attempts=rng.choice((0, 0, 2)),
        )
