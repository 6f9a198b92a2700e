"""One snapshot for every view: what ``status`` prints, ``top`` draws and ``--json`` gives."""

from __future__ import annotations

import time
from collections.abc import Iterable

import attrs

from redis_jobqueue.arguments import names_of
from redis_jobqueue.checks import Text
from redis_jobqueue.handle import Handle
from redis_jobqueue.keys import text
from redis_jobqueue.operations import overview, views
from redis_jobqueue.operations.overview import OwnerInfo, QueueCounts
from redis_jobqueue.operations.views import JobRow

RUNNING = 50
"""Running jobs that a snapshot describes; the latest claims."""


@attrs.frozen(slots=True)
class QueueView:
    """One queue at one moment.

    Attributes:
        waiting, processing, delayed, retrying, dead: jobs in each place.
        paused: whether claims skip it.
        concurrency: how many workers it should have, None if nobody said.
        oldest_age: seconds since the first or the last job that waits was created,
            the older of the two; None if none waits.
        rate: jobs that ended in a second, since the last look; None at the first.
        counters: what was counted since the counting began.
    """

    waiting: int
    processing: int
    delayed: int
    retrying: int
    dead: int
    paused: bool
    concurrency: int | None
    oldest_age: float | None
    rate: float | None
    counters: dict[str, int]


@attrs.frozen(slots=True)
class Running:
    """A job that an owner holds.

    Attributes:
        owner: the owner's id.
        job: what is known of the job; None if it is gone.
        id, queue: of the job.
    """

    owner: str | None
    id: Text
    queue: Text | None
    job: JobRow | None


@attrs.frozen(slots=True)
class Snapshot:
    """A namespace at one moment.

    Attributes:
        now: the server's time, seconds since 1970.
        queues: name -> `QueueView`.
        owners: every owner that left a trace, dead ones too; empty if not asked for.
        running: up to `RUNNING` jobs that are held; empty if not asked for.
    """

    now: float
    queues: dict[Text, QueueView]
    owners: tuple[OwnerInfo, ...] = ()
    running: tuple[Running, ...] = ()


@attrs.define(slots=True)
class Watch:
    """Takes snapshots, and rates from one to the next.

    Every look is a few pipelined reads in bounded steps.

    Args:
        jq: the queue object.
        queues: the queues to look at; None for all.
    """

    _jq: Handle
    _queues: Iterable[Text] | None = None
    _before: dict[Text, int] = attrs.field(factory=dict)
    _at: float | None = None

    def look(self, *, details: bool = False) -> Snapshot:
        """Take a snapshot.

        Args:
            details: also read owners and running jobs.
        """
        keys, run = self._jq._keys, self._jq._run
        asked = None if self._queues is None else names_of(list(self._queues), "queue")
        counted = run(overview.counts(asked, keys))
        sets = [
            {text(name): count for name, count in run(views.tally(key, keys)).items()}
            for key in (keys.delayed, keys.retry, keys.dead)
        ]
        names = list(counted.queues)
        if asked is None:  # a queue may have nothing but delayed or dead jobs
            extra = {name for each in sets for name in each} - set(names)
            more = run(overview.counts([_raw(name) for name in extra - {""}], keys))
            counted.queues.update(more.queues)
            names = sorted(counted.queues, key=_raw)
        at = time.monotonic()
        passed = None if self._at is None else at - self._at
        views_of = {
            name: self._view(name, counted.queues[name], [each.get(name, 0) for each in sets],
                             passed)
            for name in names
        }  # fmt: skip
        self._before = {name: _ended(view.counters) for name, view in views_of.items()}
        self._at = at
        if not details:
            return Snapshot(counted.now, views_of)
        return Snapshot(
            counted.now, views_of, tuple(run(overview.owners(keys))), tuple(self._running())
        )

    def _view(
        self, name: Text, one: QueueCounts, sets: list[int], passed: float | None
    ) -> QueueView:
        delayed, retrying, dead = sets
        rate = None
        if passed and name in self._before:
            rate = max(_ended(one.counters) - self._before[name], 0) / passed
        return QueueView(
            one.waiting, one.processing, delayed, retrying, dead, one.paused,
            None if one.concurrency is None else one.concurrency.count,
            one.oldest_age, rate, one.counters,
        )  # fmt: skip

    def _running(self) -> list[Running]:
        keys, run = self._jq._keys, self._jq._run
        held = run(overview.processing(None, 1, RUNNING, keys))
        rows = run(views.rows([_raw(each.id) for each in held], keys))
        return [Running(each.owner, each.id, each.queue, row) for each, row in zip(held, rows)]


def _raw(name: Text) -> bytes:
    return name if isinstance(name, bytes) else name.encode()


def _ended(counters: dict[str, int]) -> int:
    return counters["completed"] + counters["failed"] + counters["dead"]
