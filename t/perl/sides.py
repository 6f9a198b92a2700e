"""The same calls on both sides: `PerlSide` over the real module, `PythonSide` over ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from perl.peer import PerlJob, PerlQueue
from redis_jobqueue import Job, JobQueue, JobQueueError
from redis_jobqueue.errors import ERROR

PLAIN = frozenset({"queue", "job", "status", "message", "expire", "progress"})


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

    def change(self, job: Any, name: str, value: Any) -> None: ...

    def change_meta(self, job: Any, name: str, value: Any) -> None: ...

    def replace_meta(self, job: Any, values: dict[str, Any]) -> None: ...

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

    def change(self, job: PerlJob, name: str, value: Any) -> None:
        job.set(name, value)

    def change_meta(self, job: PerlJob, name: str, value: Any) -> None:
        job.set("meta_data", name, value)

    def replace_meta(self, job: PerlJob, values: dict[str, Any]) -> None:
        job.set("meta_data", values)

    def clear_modified(self, job: PerlJob, *names: str) -> None:
        job.set("clear_modified", *names)

    def update(self, job: PerlJob) -> int | None:
        return self.queue.update_job(job)

    def load(self, job: PerlJob) -> PerlJob | None:
        return self.queue.load_job(job)

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
        return job.refresh().id

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

    def change(self, job: Job, name: str, value: Any) -> None:
        setattr(job, name, value)

    def change_meta(self, job: Job, name: str, value: Any) -> None:
        job.meta_data(name, value)

    def replace_meta(self, job: Job, values: Mapping[Any, Any]) -> None:
        job.meta_data(values)

    def clear_modified(self, job: Job, *names: str) -> None:
        job.clear_modified(*names)

    def update(self, job: Job) -> int | None:
        return self.queue.update_job(job)

    def load(self, job: Job) -> Job | None:
        return self.queue.load_job(job)

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
