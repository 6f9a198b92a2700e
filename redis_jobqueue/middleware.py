"""What may be told of each job that a worker runs: one small protocol, and our own two."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Protocol

from redis_jobqueue.errors import ClaimLostError, JobDeletedError
from redis_jobqueue.job import Job

log = logging.getLogger("redis_jobqueue.worker")

NOT_OURS = (ClaimLostError, JobDeletedError)
"""The job was taken away or deleted while it ran."""


class Middleware(Protocol):
    """Is told of each job; called in the thread that holds it, in processes by the parent.

    After `before` comes either `after` or `on_error`, once.  An exception in
    `before` counts as the job's own; one in the others is logged and changes
    nothing.  Any object with these three methods will do; what is made from
    this class needs only those that it has a use for.

    What a handler raised in a child process comes as an error of another
    class, with the same name and text.
    """

    def before(self, job: Job) -> None:
        """Called before the handler is looked up."""

    def after(self, job: Job, result: Any) -> None:
        """Called when the job was completed, and that is stored."""

    def on_error(self, job: Job, error: BaseException) -> None:
        """Called when the job failed, before it is put where it goes next.

        `ClaimLostError` and `JobDeletedError` say that nothing of it is stored.
        """


class Counting:
    """Counts jobs; a worker's own record shows it.

    Attributes:
        done, failed: how many, since the worker started.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.done = 0
        self.failed = 0

    def before(self, job: Job) -> None:
        """Count nothing yet."""

    def after(self, job: Job, result: Any) -> None:
        """Count a completed job."""
        with self._lock:
            self.done += 1

    def on_error(self, job: Job, error: BaseException) -> None:
        """Count a failed attempt; one whose claim was lost is another's."""
        if isinstance(error, NOT_OURS):
            return
        with self._lock:
            self.failed += 1


class Logging:
    """Logs each job: ids in ``extra``, never what is in them."""

    def __init__(self) -> None:
        self._started: dict[int, float] = {}

    def before(self, job: Job) -> None:
        """Log the start."""
        self._started[id(job)] = time.monotonic()
        log.info("job started", extra=_facts(job))

    def after(self, job: Job, result: Any) -> None:
        """Log the end."""
        log.info("job completed", extra={**_facts(job), "seconds": self._seconds(job)})

    def on_error(self, job: Job, error: BaseException) -> None:
        """Log the kind of error; its text may hold what the job holds."""
        if isinstance(error, NOT_OURS):  # the worker has told of that
            self._seconds(job)
            return
        log.warning(
            "job failed: %s",
            type(error).__name__,
            extra={**_facts(job), "seconds": self._seconds(job)},
        )

    def _seconds(self, job: Job) -> float:
        started = self._started.pop(id(job), None)
        return 0.0 if started is None else round(time.monotonic() - started, 6)


def _facts(job: Job) -> dict[str, Any]:
    return {"job_id": job.id, "queue": job.queue, "job": job.job, "attempt": job.attempt}
