"""How big the tests are: one table, two columns.

``small`` is for every day and for CI, ``full`` (``pytest t --size full``) for
the run before a release.  A test takes the fixture ``size`` and names what it
needs; nothing else decides how often or how long a test runs.
"""

from __future__ import annotations

import attrs
from hypothesis import HealthCheck, settings

TABLE = {
    # name: (small, full)
    "hypothesis_examples": (200, 5_000),
    "jobs": (200, 10_000),
    "survey_jobs": (5_000, 100_000),
    "schedules": (300, 5_000),
    "pushes": (2_000, 10_000),
    "chaos_jobs": (300, 5_000),
    "chaos_workers": (4, 8),
    "workers": (4, 16),
    "processes": (3, 8),
    "threads": (4, 16),
    "operations": (60, 500),
    "rounds": (3, 20),
}


@attrs.frozen
class Size:
    """One column of the table."""

    name: str
    hypothesis_examples: int
    """How many examples Hypothesis tries for one property."""
    jobs: int
    """How many jobs a test with real jobs makes."""
    survey_jobs: int
    """How many jobs lie in the server when it is surveyed."""
    schedules: int
    """How many random orders of steps are tried."""
    pushes: int
    """How many pushes must each wake somebody who waits."""
    chaos_jobs: int
    """How many jobs a fleet of processes does that are killed and frozen."""
    chaos_workers: int
    """How many processes such a fleet has."""
    workers: int
    processes: int
    threads: int
    operations: int
    """What each of many threads or processes does at once on one queue."""
    rounds: int
    """How often a test with luck in it is repeated."""

    @classmethod
    def of(cls, name: str) -> Size:
        """Return the column with this name."""
        column = ("small", "full").index(name)
        return cls(name, **{row: numbers[column] for row, numbers in TABLE.items()})


def load_profile(size: Size) -> None:
    """Tell Hypothesis how many examples to try.

    No deadline, since timings never decide a test; and a test may use the
    server of the fixture in all its examples.
    """
    settings.register_profile(
        size.name,
        max_examples=size.hypothesis_examples,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    settings.load_profile(size.name)
