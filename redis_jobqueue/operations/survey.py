"""What looks over many jobs: in bounded steps, so that Redis is never held for long."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence, Set

from redis_jobqueue.keys import Entry, Keys
from redis_jobqueue.operations.request import Command, Operation, Pipeline, Script
from redis_jobqueue.record import read_plain

STEP = 500
"""Keys or entries that one step looks at: about 3 ms of Redis's time at most."""


def pages() -> Iterator[tuple[bytes, bytes]]:
    """Give the first and the last place of each page of a list, from its tail to its head.

    Consumers take from the head.  So whoever reads in this order misses none of what
    stays in the list; what is added meanwhile lets him see some entries twice.
    """
    for last in itertools.count(-1, -STEP):
        yield b"%d" % (last - STEP + 1), b"%d" % last


def scan_jobs(keys: Keys, fields: Sequence[bytes]) -> Operation[dict[bytes, list[bytes | None]]]:
    """Give every job's id and the values of these fields."""
    jobs: dict[bytes, list[bytes | None]] = {}
    cursor = b"0"
    while True:
        cursor, found = yield Script(
            "scan_jobs",
            (),
            (cursor, keys.pattern, b"%d" % len(keys.prefix), b"%d" % STEP, *fields),
        )
        for job_id, *values in found:
            jobs[job_id] = values  # a scan may give a key twice
        if cursor == b"0":
            return jobs


def queue_status(queue: bytes, keys: Keys, *, now: float) -> Operation[dict[str, int | float]]:
    """Describe a queue; see `JobQueue.queue_status`."""
    jobs = yield from scan_jobs(keys, (b"queue",))
    length = 0
    created: list[float] = []
    for first, last in pages():
        there, counted, *times = yield Script(
            "waiting_ages", (keys.queue(queue),), (keys.prefix, first, last)
        )
        length = length or there  # with the first page, whatever happens meanwhile
        created += (read_plain("created", time) for time in times)
        if counted < STEP:
            break
    status: dict[str, int | float] = {
        "length": length,
        "all_jobs": sum(name == queue for (name,) in jobs.values()),
    }
    if created:
        status["max_job_age"] = now - min(created)
        status["min_job_age"] = now - max(created)
        status["lifetime"] = max(created) - min(created)
    return status


def get_job_ids(
    queues: Set[bytes] | None, statuses: Set[bytes] | None, queued: bool, keys: Keys
) -> Operation[list[bytes]]:
    """Give the ids of the jobs that fit; None as a filter lets all through."""
    if queued:
        return (yield from _queued_ids(queues, statuses, keys))
    filters = [
        (field, wanted)
        for field, wanted in ((b"queue", queues), (b"status", statuses))
        if wanted is not None
    ]
    jobs = yield from scan_jobs(keys, [field for field, _ in filters])
    return [
        job_id
        for job_id, values in jobs.items()
        if all(value in wanted for value, (_, wanted) in zip(values, filters))
    ]


def _queued_ids(
    queues: Set[bytes] | None, statuses: Set[bytes] | None, keys: Keys
) -> Operation[list[bytes]]:
    if queues is None:
        lists = yield from scan_lists(keys)
    else:
        lists = [keys.queue(name) for name in sorted(queues)]
    found: dict[bytes, None] = {}
    for key in lists:
        read: list[list[bytes]] = []
        for first, last in pages():
            page = yield Command((b"LRANGE", key, first, last))
            read.append([Entry.parse(raw).id for raw in page])
            if len(page) < STEP:
                break
        found |= dict.fromkeys(job_id for ids in reversed(read) for job_id in ids)
    for no_job in (b"", b"0"):
        found.pop(no_job, None)
    if statuses is None:
        return list(found)
    return (yield from _with_status(list(found), statuses, keys))


def scan_lists(keys: Keys) -> Operation[list[bytes]]:
    """Give the key of every queue that has a waiting entry; keys of other types are left out."""
    found: dict[bytes, None] = {}
    cursor = b"0"
    pattern = keys.pattern[:-1] + b"queue:*"
    while True:
        cursor, page = yield Command((b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"%d" % STEP))
        if page:
            types = yield Pipeline([Command((b"TYPE", key)) for key in page])
            found.update(dict.fromkeys(key for key, kind in zip(page, types) if kind == b"list"))
        if cursor == b"0":
            return list(found)


def _with_status(
    ids: Sequence[bytes], statuses: Set[bytes], keys: Keys
) -> Operation[list[bytes]]:
    found = []
    for first in range(0, len(ids), STEP):
        page = ids[first : first + STEP]
        part = [keys.job(job_id) for job_id in page]
        values = yield Script("field_of_jobs", part, (b"status",))
        found += [job_id for job_id, status in zip(page, values) if status in statuses]
    return found


def clear(keys: Keys) -> Operation[int]:
    """Delete every key of the namespace; returns how many."""
    deleted = 0
    cursor = b"0"
    while True:
        cursor, page = yield Command(
            (b"SCAN", cursor, b"MATCH", keys.pattern, b"COUNT", b"%d" % STEP)
        )
        if page:
            deleted += yield Command((b"DEL", *page))
        if cursor == b"0":
            return deleted
