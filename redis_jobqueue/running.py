"""Running one job: its handler, its time limit, and what comes of it.

What comes of a job is settled until the server has answered: a finishing call
that found no server is repeated, and the slot takes nothing new meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from redis_jobqueue.children import Failed, Nursery
from redis_jobqueue.errors import (
    ClaimLostError,
    JobDeletedError,
    JobQueueError,
    NetworkError,
    RedisError,
    StorableError,
)
from redis_jobqueue.handlers import (
    ERROR_FIELD,
    Bury,
    Drop,
    Handler,
    Retry,
    Table,
    ascii_line,
    call,
    describe,
)
from redis_jobqueue.job import Job
from redis_jobqueue.keys import text
from redis_jobqueue.middleware import Middleware
from redis_jobqueue.owner import Owner
from redis_jobqueue.queue import JobQueue

T = TypeVar("T")

log = logging.getLogger("redis_jobqueue.worker")

# Answers of a server that will serve us again: settle anew, do not give up.
_PASSING = ("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY")


class Boss(Protocol):
    """What a runner needs of its worker."""

    jq: JobQueue
    table: Table

    @property
    def owner(self) -> Owner:
        """The owner that holds the job."""

    @property
    def forced(self) -> bool:
        """Whether it ends without waiting."""

    def lost(self, error: JobQueueError) -> None:
        """Wait after a failure of the server."""

    def found(self) -> None:
        """Note that the server answers."""


class Runner:
    """Runs jobs for the slots of a worker, in threads or in child processes."""

    def __init__(
        self, boss: Boss, middleware: Sequence[Middleware], nursery: Nursery | None
    ) -> None:
        self._boss = boss
        self._middleware = middleware
        self._nursery = nursery

    def run(self, job: Job) -> None:
        """Run a held job to whatever end; raises nothing that the handler raised."""
        try:
            self._settle(lambda: job.begun())
            try:
                result = self._execute(job)
            except Exception as error:
                self._failed(job, error)
            else:
                self._completed(job, result)
        except ClaimLostError:
            log.warning(
                "the claim on a job was lost; what it did is not stored",
                extra={"job_id": job.id},
            )
        except JobDeletedError:
            log.info("a job was deleted while it ran", extra={"job_id": job.id})

    def _execute(self, job: Job) -> Any:
        queue = text(job._claim.queue)
        handler = self._boss.table.find(queue, job)
        try:
            # What cannot be read will not be readable at the next attempt either.
            handler.retries_of(job)
            if self._nursery is None:
                job.workload
        except StorableError as error:
            raise Bury(f"its data cannot be read: {error}") from error
        for each in self._middleware:
            each.before(job)
        if self._nursery is not None:
            self._nursery.run(handler, job)
            return job.result
        if handler.timeout is None:
            return call(handler.function, job)
        timer = threading.Timer(handler.timeout, _tell, (job,))
        timer.daemon = True
        timer.start()
        try:
            return call(handler.function, job)
        finally:
            timer.cancel()

    def _completed(self, job: Job, result: Any) -> None:
        try:
            self._settle(lambda: self._boss.owner.complete(job))
        except (ClaimLostError, JobDeletedError):
            raise
        except (NetworkError, RedisError):
            raise
        except JobQueueError as error:
            # The result has no Perl form, or is too large: that is a failure of the job.
            job.result = ""
            self._failed(job, error)
            return
        self._tell_each("after", job, result)

    def _failed(self, job: Job, error: Exception) -> None:
        if isinstance(error, (ClaimLostError, JobDeletedError)):
            raise error
        self._tell_each("on_error", job, error)
        owner = self._boss.owner
        if isinstance(error, Drop):
            self._settle(lambda: self._boss.jq.delete_job(job))
            try:
                self._settle(lambda: owner.complete(job))
            except JobDeletedError:
                return
        line, trace = (error.line, error.trace) if isinstance(error, Failed) else describe(error)
        job.message = line
        if isinstance(error, Bury):
            reason = ascii_line(str(error)) or "Bury"
            if error.__cause__ is not None:
                _keep(job, trace)
            self._settle(lambda: owner.bury(job, reason))
            return
        if not isinstance(error, Retry):
            _keep(job, trace)
        handler = self._handler_of(job)
        if job.attempt > handler.retries_of(job):
            self._settle(lambda: owner.bury(job))
            return
        delay = error.delay if isinstance(error, Retry) else None
        wait = handler.backoff.delay(job.attempt) if delay is None else max(delay, 0.0)
        self._settle(lambda: owner.retry(job, wait))

    def _handler_of(self, job: Job) -> Handler:
        return self._boss.table.find(text(job._claim.queue), job)

    def _settle(self, action: Callable[[], T]) -> T:
        while True:
            try:
                done = action()
            except (NetworkError, RedisError) as error:
                passing = isinstance(error, NetworkError) or any(
                    word in str(error) for word in _PASSING
                )
                if not passing or self._boss.forced:
                    raise
                self._boss.lost(error)
            else:
                self._boss.found()
                return done

    def _tell_each(self, what: str, job: Job, news: Any) -> None:
        for each in self._middleware:
            try:
                getattr(each, what)(job, news)
            except Exception:
                log.exception("middleware failed", extra={"job_id": job.id})


def _tell(job: Job) -> None:
    claim = job._claim
    if claim is not None:
        log.warning("a job runs longer than its time limit", extra={"job_id": job.id})
        claim.cancelled = True


def _keep(job: Job, trace: str) -> None:
    job.meta_data[ERROR_FIELD] = trace
