"""What an operator looks at and does by hand: rows without data, who holds a job, tallies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from redis_jobqueue.checks import Text
from redis_jobqueue.keys import Keys, read_whole, text
from redis_jobqueue.operations.request import Operation, Script
from redis_jobqueue.operations.survey import STEP
from redis_jobqueue.record import read_plain

ROWS = 100
"""Jobs that one step describes."""
LONGEST = 200
"""Octets of a text that a row shows."""
FIELDS = ("queue", "job", "status", "message", "progress", "created", "updated", "started",
          "completed", "failed", "expire")  # fmt: skip


@attrs.frozen(slots=True)
class JobRow:
    """A job as a list shows it: everything but its data and its metadata.

    Attributes:
        id: its id.
        queue, job, status, message: their first `LONGEST` octets.
        progress: from 0 to 1.
        created, updated, started, completed, failed: seconds since 1970, 0 if never.
        expire: seconds, 0 for ever.
        attempts: deliveries that failed so far.
        data_bytes: octets of workload and result, frozen.
    """

    id: Text
    queue: Text
    job: Text
    status: Text
    message: Text
    progress: float
    created: float
    updated: float
    started: float
    completed: float
    failed: float
    expire: int
    attempts: int
    data_bytes: int


def rows(ids: Sequence[bytes], keys: Keys) -> Operation[list[JobRow | None]]:
    """Describe jobs by their ids; None for those that are gone."""
    found: list[JobRow | None] = []
    fields = [name.encode() for name in FIELDS]
    for first in range(0, len(ids), ROWS):
        part = ids[first : first + ROWS]
        replies = yield Script(
            "job_rows",
            (keys.attempts, *(keys.job(each) for each in part)),
            (b"%d" % LONGEST, *fields),
        )
        found += [_row(job_id, reply) for job_id, reply in zip(part, replies)]
    return found


def _row(job_id: bytes, reply: Sequence[Any]) -> JobRow | None:
    if not reply:
        return None
    attempts, size, *values = reply
    values += [None] * (len(FIELDS) - len(values))  # a reply ends at its last value
    plain = {name: read_plain(name, value or b"") for name, value in zip(FIELDS, values)}
    return JobRow(text(job_id), **plain, attempts=read_whole(attempts), data_bytes=size)


@attrs.define(slots=True)
class Found:
    """Jobs that a search let through so far.

    Attributes:
        ids: id -> when it was created, seconds since 1970.
        looked: how many jobs were looked at.
    """

    ids: dict[bytes, float] = attrs.field(factory=dict)
    looked: int = 0


def search(
    cursor: bytes, found: Found, fits: Callable[[bytes, bytes, float, float], bool], keys: Keys
) -> Operation[bytes]:
    """Do one step of a search over all jobs; gives the next cursor, ``0`` at the end.

    ``fits`` is told queue, status, and when the job was created and last changed.
    """
    cursor, jobs = yield Script(
        "scan_jobs",
        (),
        (cursor, keys.pattern, b"%d" % len(keys.prefix), b"%d" % STEP,
         b"queue", b"status", b"created", b"updated"),
    )  # fmt: skip
    for job_id, *values in jobs:
        queue, status, created, updated = values + [None] * (4 - len(values))
        found.looked += 1
        times = read_plain("created", created or b""), read_plain("updated", updated or b"")
        if fits(queue or b"", status or b"", *times):
            found.ids[job_id] = times[0]
    return bytes(cursor)


def tally(key: bytes, keys: Keys) -> Operation[dict[bytes, int]]:
    """Count the jobs of a set by their queues; those without one count to the empty name."""
    counts: Counter[bytes] = Counter()
    first, size = 0, STEP
    while size == STEP:
        size, flat = yield Script(
            "tally_set", (key,), (keys.prefix, b"%d" % first, b"%d" % (first + STEP - 1))
        )
        counts.update(dict(zip(flat[::2], flat[1::2])))
        first += STEP
    return dict(counts)


def holder(job_id: bytes, keys: Keys) -> Operation[str | None]:
    """Give the owner that holds a job, ``""`` for a list without one; None if nobody does."""
    owner = yield Script("holder", (keys.job(job_id), keys.lists), (keys.prefix,))
    return None if owner is None else owner.decode("latin-1")


@attrs.frozen(slots=True)
class Requeued:
    """What came of putting a job back into its queue.

    Attributes:
        refusal: empty if it waits now; else ``gone``, ``waits`` (already),
            ``held``, ``queue`` (it has none that can take it), ``status`` (it
            did not fail) or ``changed``.
        detail: the owner for ``held``, the status for ``status``.
    """

    refusal: str
    detail: str = ""

    def __bool__(self) -> bool:
        return not self.refusal


def requeue(
    job_id: bytes,
    keys: Keys,
    *,
    front: bool = False,
    failed_only: bool = False,
    seen: tuple[bytes, bytes] | None = None,
) -> Operation[Requeued]:
    """Put a job that nobody holds into its queue, its attempts forgotten.

    ``seen`` is the status and the ``updated`` that the caller saw: a job that
    changed since is left alone.
    """
    refusal, *detail = yield Script(
        "requeue_job",
        (keys.job(job_id), keys.delayed, keys.retry, keys.dead, keys.lists, keys.attempts),
        (keys.prefix, job_id, b"LPUSH" if front else b"RPUSH", b"%d" % failed_only,
         *(seen or ())),
        job_id,
    )  # fmt: skip
    return Requeued(refusal.decode(), detail[0].decode("latin-1") if detail else "")
