"""Steering: pause, concurrency, cancel, clear, and adding many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from redis_jobqueue.errors import JobQueueError, NetworkError
from redis_jobqueue.job import Job
from redis_jobqueue.keys import Entry, Keys, read_whole
from redis_jobqueue.operations.jobs import new_pairs
from redis_jobqueue.operations.request import Command, Operation, Script
from redis_jobqueue.record import check_expire

SLICE_JOBS = 100
SLICE_BYTES = 1_000_000
"""Jobs and bytes that one script adds at most, so that Redis is never held for long."""


def set_paused(queue: bytes, paused: bool, expected: bool | None, keys: Keys) -> Operation[bool]:
    """Pause or resume a queue; False if its state was not the expected one."""
    seen = () if expected is None else (b"%d" % expected,)
    done = yield Script("set_paused", (keys.paused,), (queue, b"%d" % paused, *seen))
    return bool(done)


def is_paused(queue: bytes, keys: Keys) -> Operation[bool]:
    """Tell whether claims skip a queue."""
    return bool((yield Command((b"SISMEMBER", keys.paused, queue))))


@attrs.frozen(slots=True)
class Concurrency:
    """How many workers a queue should have.

    Attributes:
        count: the number.
        set_at: when it was set, seconds since 1970 on the server's clock.
    """

    count: int
    set_at: float


def set_concurrency(queue: bytes, count: int, keys: Keys) -> Operation[Concurrency]:
    """Say how many workers a queue should have."""
    moment = yield Script("set_concurrency", (keys.concurrency,), (queue, b"%d" % count))
    return Concurrency(count, int(moment) / 1000)


def desired_concurrency(queue: bytes, keys: Keys) -> Operation[Concurrency | None]:
    """Give what was set; None if nothing was."""
    return read_concurrency((yield Command((b"HGET", keys.concurrency, queue))))


def all_concurrency(keys: Keys) -> Operation[dict[bytes, Concurrency]]:
    """Give what was set, for every queue."""
    raw = yield Command((b"HGETALL", keys.concurrency))
    read = {name: read_concurrency(value) for name, value in zip(raw[::2], raw[1::2])}
    return {name: each for name, each in read.items() if each is not None}


def read_concurrency(raw: bytes | None) -> Concurrency | None:
    """Read the value of a queue; None if it is not there or is damaged."""
    count, _, moment = (raw or b"").partition(b" ")
    if not count.isdigit() or not moment.isdigit():
        return None
    return Concurrency(read_whole(count), read_whole(moment) / 1000)


def cancel(job_id: bytes, keys: Keys) -> Operation[str | None]:
    """Delete a job that waits, or mark one that is held; see `JobQueue.cancel`."""
    done = yield Script(
        "cancel",
        (
            keys.job(job_id), keys.delayed, keys.retry, keys.cancelled, keys.attempts, keys.lists,
        ),  # fmt: skip
        (keys.prefix, job_id),
        job_id,
    )
    return {2: "deleted", 1: "told"}.get(done)


def clear_queue(queue: bytes, keys: Keys) -> Operation[int]:
    """Delete the jobs that wait in a queue; returns how many."""
    deleted, more = 0, 1
    while more:
        count, more = yield Script(
            "clear_queue", (keys.queue(queue), keys.attempts), (keys.prefix,)
        )
        deleted += count
    return deleted


@attrs.define(slots=True)
class Slice:
    """Jobs that one script adds: all of them or none."""

    jobs: list[Job]
    keys: list[bytes]
    args: list[bytes]
    ids: list[str]


def slices(
    jobs: Sequence[Job],
    keys: Keys,
    *,
    new_id: Callable[[], str],
    now: float,
    batch_size: int,
    max_size: int,
) -> Iterator[Slice]:
    """Freeze jobs and put them into slices of bounded size."""
    current, size = Slice([], [], [], []), 0
    for job in jobs:
        expire = check_expire(job.expire, now)
        job_id = new_id()
        name = job_id.encode()
        pairs = new_pairs(job, name, max_size)
        entry = Entry(name, int(now) + expire if expire else None).encode()
        args = [entry, b"%d" % expire, b"%d" % len(pairs), *pairs]
        weight = sum(map(len, args))
        full = len(current.jobs) >= min(batch_size, SLICE_JOBS)
        if current.jobs and (full or size + weight > SLICE_BYTES):
            yield current
            current, size = Slice([], [], [], []), 0
        current.jobs.append(job)
        current.keys += (keys.job(name), keys.queue(pairs[3]))
        current.args += args
        current.ids.append(job_id)
        size += weight
    if current.jobs:
        yield current


def add_slice(one: Slice, front: bool) -> Operation[bool]:
    """Add a slice; False if one of its ids is taken (nothing is added)."""
    taken = yield Script(
        "add_jobs", one.keys, (b"LPUSH" if front else b"RPUSH", *one.args)
    )
    if taken:
        return False
    for job, job_id in zip(one.jobs, one.ids):
        job._values["id"] = job_id
        job.clear_modified()
    return True


def add_jobs(
    jobs: Sequence[Job],
    keys: Keys,
    *,
    new_id: Callable[[], str],
    now: float,
    batch_size: int,
    front: bool,
    max_size: int,
) -> Operation[list[Job]]:
    """Add many jobs, slice by slice; see `JobQueue.add_jobs`.

    An error carries ``added``, ids that are there, and ``unknown``, ids of the
    slice whose answer did not come.
    """
    # Everything is frozen before anything is sent, so that bad data adds nothing.
    todo = list(slices(jobs, keys, new_id=new_id, now=now, batch_size=batch_size,
                       max_size=max_size))  # fmt: skip
    added: list[str] = []
    for one in todo:
        try:
            while not (yield from add_slice(one, front)):
                (one,) = slices(one.jobs, keys, new_id=new_id, now=now, batch_size=batch_size,
                                max_size=max_size)  # fmt: skip
        except JobQueueError as error:
            unknown = one.ids if isinstance(error, NetworkError) else []
            error.added, error.unknown = tuple(added), tuple(unknown)
            raise
        added += one.ids
    return list(jobs)
