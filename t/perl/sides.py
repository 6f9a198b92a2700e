"""The same calls on both sides, and a state of Redis that can be compared.

`PerlSide` and `PythonSide` offer one vocabulary over the real module and over
ours.  `state_of` reads every key and puts names in the place of what must
differ: ids become ``<1>``, ``<2>`` in the order of their making, times of now
become ``<now>``, an end of life is counted from now.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
import redis

from perl.peer import PerlJob, PerlQueue
from redis_jobqueue import Job, JobQueue, JobQueueError
from redis_jobqueue.errors import ERROR

TIMES = frozenset({"created", "updated", "started", "completed", "failed"})
PLAIN = frozenset({"queue", "job", "status", "message", "expire", "progress"})
GRAIN = 100
"""Seconds: times to live are whole multiples of it, and rounded to it."""


@attrs.frozen
class Outcome:
    """How a call ended: whether it raised, and the error state it left."""

    raised: bool
    code: int
    error: str


class Side(Protocol):
    """One way to reach the queue; a job is whatever `add` or `take` gave."""

    def add(self, attributes: Mapping[str, Any], *, front: bool = False) -> Any: ...

    def add_again(self, job: Any) -> Any: ...

    def make(self, attributes: Mapping[str, Any]) -> Any: ...

    def set(self, job: Any, name: str, value: Any) -> None: ...

    def set_meta(self, job: Any, name: str, value: Any) -> None: ...

    def replace_meta(self, job: Any, values: Mapping[str, Any]) -> None: ...

    def clear_modified(self, job: Any, *names: str) -> None: ...

    def update(self, job: Any) -> int | None: ...

    def load(self, job: Any) -> Any: ...

    def take(self, *queues: str, blocking: bool = False) -> Any: ...

    def take_id(self, *queues: str) -> str | None: ...

    def delete(self, job: Any) -> bool: ...

    def ids(self, **filters: Any) -> set[str]: ...

    def counts(self, queue: str) -> dict[str, int]: ...

    def meta_fields(self, job: Any) -> set[str]: ...

    def id(self, job: Any) -> str: ...

    def modified(self, job: Any) -> set[str]: ...

    def plain(self, job: Any) -> dict[str, str]: ...

    def attempt(self, method: str, *args: Any, **options: Any) -> Outcome: ...


@attrs.frozen
class PerlSide:
    """The real module."""

    queue: PerlQueue

    def add(self, attributes: Mapping[str, Any], *, front: bool = False) -> PerlJob:
        return self.queue.add_job(dict(attributes), **({"LPUSH": 1} if front else {}))

    def add_again(self, job: PerlJob) -> PerlJob:
        return self.queue.add_job(job)

    def make(self, attributes: Mapping[str, Any]) -> PerlJob:
        return self.queue.peer.job(**attributes)

    def set(self, job: PerlJob, name: str, value: Any) -> None:
        job.set(name, value)

    def set_meta(self, job: PerlJob, name: str, value: Any) -> None:
        job.set("meta_data", name, value)

    def replace_meta(self, job: PerlJob, values: Mapping[str, Any]) -> None:
        job.set("meta_data", dict(values))

    def clear_modified(self, job: PerlJob, *names: str) -> None:
        job.set("clear_modified", *names)

    def update(self, job: PerlJob) -> int | None:
        return self.queue.update_job(job)

    def load(self, job: PerlJob) -> PerlJob | None:
        return self.queue.load_job(job.id)

    def take(self, *queues: str, blocking: bool = False) -> PerlJob | None:
        return self.queue.get_next_job(queue=list(queues), blocking=int(blocking))

    def take_id(self, *queues: str) -> str | None:
        return self.queue.get_next_job_id(queue=list(queues))

    def delete(self, job: PerlJob) -> bool:
        return self.queue.delete_job(job)

    def ids(self, **filters: Any) -> set[str]:
        return self.queue.get_job_ids(**filters)

    def counts(self, queue: str) -> dict[str, int]:
        status = self.queue.queue_status(queue)
        return {name: int(status[name]) for name in ("length", "all_jobs")}

    def meta_fields(self, job: PerlJob) -> set[str]:
        return self.queue.get_job_meta_fields(job)

    def id(self, job: PerlJob) -> str:
        return job.id

    def modified(self, job: PerlJob) -> set[str]:
        return set(job.refresh().modified)

    def plain(self, job: PerlJob) -> dict[str, str]:
        return {name: job[name] for name in PLAIN}

    def attempt(self, method: str, *args: Any, **options: Any) -> Outcome:
        pairs = [part for pair in options.items() for part in pair]
        answer = self.queue.attempt(method, *args, *pairs)
        assert answer.last_errorcode is not None and answer.last_error is not None
        return Outcome(answer.died is not None, answer.last_errorcode, answer.last_error)


@attrs.frozen
class PythonSide:
    """Our package."""

    queue: JobQueue

    def add(self, attributes: Mapping[str, Any], *, front: bool = False) -> Job:
        return self.queue.add_job(attributes, LPUSH=front)

    def add_again(self, job: Job) -> Job:
        return self.queue.add_job(job)

    def make(self, attributes: Mapping[str, Any]) -> Job:
        return Job(attributes)

    def set(self, job: Job, name: str, value: Any) -> None:
        setattr(job, name, value)

    def set_meta(self, job: Job, name: str, value: Any) -> None:
        job.meta_data(name, value)

    def replace_meta(self, job: Job, values: Mapping[str, Any]) -> None:
        job.meta_data(values)

    def clear_modified(self, job: Job, *names: str) -> None:
        job.clear_modified(*names)

    def update(self, job: Job) -> int | None:
        return self.queue.update_job(job)

    def load(self, job: Job) -> Job | None:
        return self.queue.load_job(job.id)

    def take(self, *queues: str, blocking: bool = False) -> Job | None:
        return self.queue.get_next_job(queue=list(queues), blocking=blocking)

    def take_id(self, *queues: str) -> str | None:
        job_id = self.queue.get_next_job_id(queue=list(queues))
        return None if job_id is None else str(job_id)

    def delete(self, job: Job) -> bool:
        return self.queue.delete_job(job)

    def ids(self, **filters: Any) -> set[str]:
        return set(map(str, self.queue.get_job_ids(**filters)))

    def counts(self, queue: str) -> dict[str, int]:
        status = self.queue.queue_status(queue)
        return {name: int(status[name]) for name in ("length", "all_jobs")}

    def meta_fields(self, job: Job) -> set[str]:
        return set(map(str, self.queue.get_job_meta_fields(job)))

    def id(self, job: Job) -> str:
        return str(job.id)

    def modified(self, job: Job) -> set[str]:
        return set(map(str, job.modified_attributes()))

    def plain(self, job: Job) -> dict[str, str]:
        return {name: _perl_text(getattr(job, name)) for name in PLAIN}

    def attempt(self, method: str, *args: Any, **options: Any) -> Outcome:
        raised = False
        try:
            getattr(self.queue, method)(*args, **options)
        except JobQueueError as error:
            raised = True
            assert error.code == self.queue.last_errorcode
        code = self.queue.last_errorcode
        assert ERROR[code] == self.queue.last_error
        return Outcome(raised, code, self.queue.last_error)


def _perl_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def state_of(client: redis.Redis, ids: list[str]) -> dict[str, Any]:
    """Every key with its type, time to live and content; `ids` in the order of their making."""
    now = time.time()
    name = _namer(ids)
    state = {}
    for key in client.keys():
        kind = client.type(key).decode()
        ttl = client.ttl(key)
        state[name(key)] = {
            "type": kind,
            "ttl": _rounded(ttl) if ttl > 0 else ttl,
            "content": _hash(client.hgetall(key), name, now)
            if kind == "hash"
            else [_entry(entry, name, now) for entry in client.lrange(key, 0, -1)],
        }
    return state


def _namer(ids: list[str]) -> Callable[[bytes], str]:
    names = {job_id: f"<{number}>" for number, job_id in enumerate(ids, 1)}

    def name(octets: bytes) -> str:
        text = octets.decode("latin-1")
        for job_id, short in names.items():
            text = text.replace(job_id, short)
        return text

    return name


def _rounded(seconds: float) -> int:
    return round(seconds / GRAIN) * GRAIN


def _hash(
    fields: Mapping[bytes, bytes], name: Callable[[bytes], str], now: float
) -> dict[str, str]:
    content = {}
    for octets, value in fields.items():
        field = octets.decode("latin-1")
        if field == "__id_in_queue__":
            content[field] = _entry(value, name, now)
        elif field in TIMES:
            content[field] = _time(value.decode(), now)
        else:
            content[field] = name(value)
    return content


def _time(text: str, now: float) -> str:
    """A time of now, as Perl writes one: five decimals at most."""
    recent = re.fullmatch(r"\d{10}(\.\d{0,4}[1-9])?", text) and abs(float(text) - now) < 1000
    return "<now>" if recent else text


def _entry(entry: bytes, name: Callable[[bytes], str], now: float) -> str:
    job_id, space, epoch = name(entry).partition(" ")
    return f"{job_id} now+{_rounded(int(epoch) - now)}" if space else job_id
