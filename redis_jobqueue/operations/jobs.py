"""The Perl API on jobs: add, load, update, delete, take the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis_jobqueue.errors import (
    E_JOB_DELETED,
    ERROR,
    ArgumentError,
    JobDeletedError,
    NetworkError,
    RedisError,
)
from redis_jobqueue.checks import Text
from redis_jobqueue.job import Job, elapsed, unwrap
from redis_jobqueue.keys import Entry, Keys, octets, text
from redis_jobqueue.metadata import FIELDS, thawed
from redis_jobqueue.operations.request import Command, Operation, Script, Wait
from redis_jobqueue.record import (
    EMPTY_DATA,
    ENTRY_FIELD,
    FROZEN,
    changes_of,
    check_expire,
    fields_of,
    job_of,
    metadata_of,
    plain,
    read_plain,
)

WAIT_SLICE = 5.0
"""Seconds of one blocking command: how soon an unlimited wait sees a dead peer."""
LEAST_WAIT = 0.01
"""Seconds of one at least: Redis 6.2 takes less than 1 ms for endless."""

# What add_job.lua writes by itself.
_CONSTANT: dict[str, Any] = {
    "completed": 0,
    "failed": 0,
    "job": "",
    "message": "",
    "progress": 0,
    "started": 0,
    "status": "__created__",
}


def new_pairs(job: Job, job_id: bytes, max_size: int) -> list[bytes]:
    """Give ``field, value, ...`` of a new job as far as they differ from the defaults."""
    values = job._values
    queue = octets(values["queue"], "queue") if values["queue"] is not None else b""
    if not queue:
        raise ArgumentError("Invalid argument (queue is not set)")
    pairs = [b"id", job_id, b"queue", queue]
    for name in ("created", "updated"):
        pairs += (name.encode(), plain(name, values[name]))
    for name, constant in _CONSTANT.items():
        value = values[name]
        if value != constant and value is not None:
            pairs += (name.encode(), plain(name, value))
    for field, image in zip(*[iter(fields_of(job, ("result", "workload"), max_size))] * 2):
        if image is not EMPTY_DATA:
            pairs += (field, image)
    if job._meta:
        pairs += metadata_of(job, job._meta, max_size)
    return pairs


def add_job(
    job: Job, keys: Keys, *, new_id: Callable[[], str], now: float, front: bool, max_size: int
) -> Operation[Job]:
    """Store a job under a new id and put it into its queue; returns the same Job."""
    expire = check_expire(job.expire, now)
    command = b"LPUSH" if front else b"RPUSH"

    def request(name: bytes, pairs: Sequence[bytes]) -> Script:
        entry = Entry(name, int(now) + expire if expire else None).encode()
        return Script(
            "add_job",
            (keys.job(name), keys.queue(pairs[3])),
            (entry, b"%d" % expire, command, *pairs),
            name,
        )

    return (yield from store_new(job, request, new_id, max_size))


def store_new(
    job: Job,
    request: Callable[[bytes, Sequence[bytes]], Script],
    new_id: Callable[[], str],
    max_size: int,
) -> Operation[Job]:
    """Give a job a new id, and another one while it is taken; returns the same Job.

    ``request`` makes the script out of the id and of what `new_pairs` gives.
    """
    while True:
        job_id = new_id()
        name = job_id.encode()
        try:
            added = yield request(name, new_pairs(job, name, max_size))
        except NetworkError:
            # It may be there all the same: the caller can look under this id.
            job._values["id"] = job_id
            raise
        if added:
            job._values["id"] = job_id
            job.clear_modified()
            return job


def update_job(job: Job, keys: Keys, *, now: float, max_size: int) -> Operation[int | None]:
    """Write what was changed; returns how many fields, None if the job is gone."""
    if not job._modified and not job._meta._modified:
        return 0
    job_id = octets(job.id, "id")
    expire = check_expire(job.expire or 0, now)
    gone, pairs = changes_of(job, max_size)
    done = yield Script(
        "update_job",
        (keys.job(job_id),),
        (b"%d" % expire, b"%d" % len(gone), *gone, *pairs),
        job_id,
    )
    if not done:
        return None
    job.clear_modified()
    return len(gone) + len(pairs) // 2


def delete_job(job_id: bytes, keys: Keys) -> Operation[bool]:
    """Delete a job and its entry; returns whether there was one."""
    parked = (keys.lists, keys.attempts, keys.delayed, keys.retry, keys.dead)
    done = yield Script("delete_job", (keys.job(job_id), *parked), (keys.prefix, job_id), job_id)
    return bool(done)


def load_job(job_id: bytes, keys: Keys, strings: str) -> Operation[Job | None]:
    """Load a job; None if there is none."""
    reply = yield Command((b"HGETALL", keys.job(job_id)))
    return job_of(reply, strings) if reply else None


def get_job_data(
    job_id: bytes, names: Sequence[bytes], keys: Keys, strings: str
) -> Operation[dict[str, Any] | list[Any] | None]:
    """Read some fields, or the 14 standard ones and ``elapsed`` if none is named."""
    if not names:
        reply = yield Command((b"HGETALL", keys.job(job_id)))
        if not reply:
            return None
        stored = dict(zip(reply[::2], reply[1::2]))
        fields: Sequence[str] = FIELDS
        data = {name: _value(name, stored.get(name.encode()), strings) for name in fields}
        data["elapsed"] = elapsed(data["started"], data["completed"], data["failed"])
        return data
    wanted = dict.fromkeys(name for name in names if name != b"elapsed")
    if b"elapsed" in names:
        wanted.update(dict.fromkeys((b"started", b"completed", b"failed")))
    values = yield Command((b"HMGET", keys.job(job_id), *wanted))
    found: Mapping[bytes, bytes | None] = dict(zip(wanted, values))
    return [_named(name, found, strings) for name in names]


def _named(name: bytes, found: Mapping[bytes, bytes | None], strings: str) -> Any:
    if name != b"elapsed":
        return _value(name.decode("latin-1"), found[name], strings)
    times = [found[part] for part in (b"started", b"completed", b"failed")]
    if times[0] is None:
        return None
    return elapsed(*(read_plain("started", time or b"") for time in times))


def _value(name: str, stored: bytes | None, strings: str) -> Any:
    if stored is None:
        return None
    if name in FIELDS and name not in FROZEN:
        return read_plain(name, stored) if stored or name not in ("job", "message") else ""
    if name == ENTRY_FIELD.decode() or stored in (b"", b"0"):
        return text(stored)
    value = thawed(name, stored, strings)
    return unwrap(value) if name in FROZEN else value


def get_job_meta_fields(job_id: bytes, keys: Keys) -> Operation[list[Text]]:
    """Name the metadata fields of a job, in no order; none if there is no job."""
    names = yield Command((b"HKEYS", keys.job(job_id)))
    standard = {*(name.encode() for name in FIELDS), ENTRY_FIELD, b"meta_data"}
    return [text(name) for name in names if name not in standard]


def get_next_job(
    queues: Sequence[bytes],
    keys: Keys,
    *,
    clock: Callable[[], float],
    ticks: Callable[[], float],
    timeout: float | None,
    strings: str,
    load: bool,
) -> Operation[Job | Text | None]:
    """Take the next job off the first of the queues that has one.

    ``timeout`` is how long to wait for one, in seconds: None not at all, 0
    without end.  With ``load`` the result is a Job, else its id.  ``clock``
    tells the time, ``ticks`` seconds since anything.
    """
    lists = [keys.queue(name) for name in queues]
    ends = ticks() + timeout if timeout else None
    popped: bytes | None = None
    while True:
        try:
            reply = yield _next_job(lists, keys, clock(), load, popped)
        except RedisError as error:
            if popped is None:
                raise
            # It is off the list already: say at least which it was.
            raise RedisError(f"{_shown(text(Entry.parse(popped).id))}: {error}") from error
        popped = None
        if reply:
            if reply[0]:
                return _taken(reply, strings, load)
            continue
        while popped is None:
            seconds = WAIT_SLICE if ends is None else min(ends - ticks(), WAIT_SLICE)
            if timeout is None or seconds <= 0:
                return None
            woken = yield Wait((b"BLPOP", *lists, b"%.3f" % max(seconds, LEAST_WAIT)), seconds)
            popped = woken[1] if woken else None


def _next_job(
    lists: Sequence[bytes], keys: Keys, now: float, load: bool, popped: bytes | None
) -> Script:
    args = [keys.prefix, b"%d" % now, b"1" if load else b"0"]
    if popped is None:
        return Script("next_job", lists, args)
    return Script("next_job", lists, [*args, popped], Entry.parse(popped).id)


def _taken(reply: Sequence[Any], strings: str, load: bool) -> Job | Text:
    job_id = text(Entry.parse(reply[0]).id)
    if len(reply) == 1:
        raise JobDeletedError(f"{_shown(job_id)} {ERROR[E_JOB_DELETED]}", job_id=_shown(job_id))
    if len(reply) == 3:
        raise RedisError(f"{_shown(job_id)}: {reply[2].decode('latin-1')}")
    return job_of(reply[1], strings) if load else job_id


def _shown(job_id: Text) -> str:
    return job_id if isinstance(job_id, str) else job_id.decode("latin-1")
