"""Running one job: its handler, its time limit, and what comes of it.

What comes of a job is settled until the server has answered: a finishing call
that found no server is repeated, and the slot takes nothing new meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from redis_jobqueue.children import Ended, Failed, NoChild, Nursery
from redis_jobqueue.errors import (
    E_REDIS,
    JobDeletedError,
    JobQueueError,
    MaxMemoryError,
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
    words_of,
)
from redis_jobqueue.job import Job
from redis_jobqueue.keys import octets, text
from redis_jobqueue.middleware import NOT_OURS, Middleware
from redis_jobqueue.operations.jobs import delete_job
from redis_jobqueue.owner import Owner
from redis_jobqueue.queue import JobQueue

T = TypeVar("T")

log = logging.getLogger("redis_jobqueue.worker")

# Answers of a server that will serve us again: settle anew, do not give up.
_PASSING = (
    "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MISCONF",
    "NOREPLICAS", "NOAUTH", "WRONGPASS", "NOPERM", "max number of clients",
)  # fmt: skip
SERVERS = (NetworkError, MaxMemoryError, RedisError)
"""What the server, and not the job, is the reason of."""
TRIES = 6
"""How often another refusal is met before the job is let go, to be run once more."""

PAUSE = 1.0
"""Seconds before a slot takes a job again for which it could start no child."""


class Boss(Protocol):
    """What a runner needs of its worker."""

    jq: JobQueue
    table: Table

    retry_limit: int
    """Attempts at which a job is buried whatever retries it has, 0 for none."""

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

    def stop(self) -> None:
        """Claim nothing more, and end."""


class Runner:
    """Runs jobs for the slots of a worker, in threads or in child processes."""

    def __init__(
        self, boss: Boss, middleware: Sequence[Middleware], nursery: Nursery | None
    ) -> None:
        self._boss = boss
        self._middleware = middleware
        self._nursery = nursery

    def run(self, job: Job) -> None:
        """Run a held job to whatever end; raises nothing that the handler raised.

        Raises:
            NetworkError, RedisError: the worker ends, or gave up, before the
                server took what became of the job.
        """
        queue, told = text(job._claim.queue), False
        handler = self._boss.table.get(queue, job)
        try:
            self._settle(job.begun)
            try:
                for each in self._middleware:
                    each.before(job)
                result = self._execute(self._boss.table.find(queue, job), job)
            except BaseException as error:  # sys.exit() of a handler ends its job, not its slot
                told = True
                self._failed(job, handler, error)
            else:
                self._completed(job, handler, result)
        except NOT_OURS as error:
            if isinstance(error, JobDeletedError):
                log.info("a job was deleted while it ran", extra={"job_id": job.id})
            else:
                log.warning(
                    "the claim on a job was lost; what it did is not stored",
                    extra={"job_id": job.id},
                )
            if not told:
                self._tell_each("on_error", job, error)

    def _execute(self, handler: Handler, job: Job) -> Any:
        # What cannot be read will not be readable at the next attempt either.
        handler.retries_of(job)
        if self._nursery is not None:
            return self._nursery.run(handler, job, self._boss.jq.max_datasize)
        job.workload
        if handler.timeout is None:
            return call(handler.function, job)
        timer = threading.Timer(handler.timeout, _tell, (job,))
        timer.daemon = True
        timer.start()
        try:
            return call(handler.function, job)
        finally:
            timer.cancel()

    def _put_back(self, job: Job) -> None:
        # For want of a child, which is not the job's fault: no attempt is charged.
        self._settle(lambda: self._boss.owner.release(job))
        if self._nursery is not None and self._nursery.gone:
            self._boss.stop()
        else:
            time.sleep(PAUSE)

    def _completed(self, job: Job, handler: Handler | None, result: Any) -> None:
        try:
            self._settle(lambda: self._boss.owner.complete(job))
        except (*NOT_OURS, *SERVERS):
            raise
        except JobQueueError as error:
            # The result has no Perl form, or is too large: that is a failure of the job.
            self._failed(job, handler, error)
            return
        self._tell_each("after", job, result)

    def _failed(self, job: Job, handler: Handler | None, error: BaseException) -> None:
        self._tell_each("on_error", job, error)
        if isinstance(error, Ended):
            return
        if isinstance(error, NoChild):
            self._put_back(job)
            return
        line, trace = self._words(error)
        # What the handler left in the job may be what cannot be stored: then the
        # reason alone is, and without the traceback if even that is too much.
        for kept in (trace, trace, None):
            job.message = line
            if kept is not None:
                job.meta_data[ERROR_FIELD] = kept
            try:
                return self._end(job, handler, error)
            except (*NOT_OURS, *SERVERS):
                raise
            except Exception as unfit:
                log.warning(
                    "changes of a failed job cannot be stored: %s", type(unfit).__name__,
                    extra={"job_id": job.id},
                )  # fmt: skip
            job.clear_modified()
        # A back-off of the user's that raises, say: the job must not run for ever.
        self._settle(lambda: self._boss.owner.bury(job, line))

    def _words(self, error: BaseException) -> tuple[str, str | None]:
        # What the job's message says, and the traceback where there is one to keep.
        line, trace = (error.line, error.trace) if isinstance(error, Failed) else describe(error)
        if _unreadable(error):
            return ascii_line(f"its data cannot be read: {words_of(error)}"), trace
        if isinstance(error, Bury):
            reason = ascii_line(words_of(error)) or type(error).__name__
            return reason, trace if error.__cause__ else None
        return line, None if isinstance(error, (Retry, Drop)) else trace

    def _end(self, job: Job, handler: Handler | None, error: BaseException) -> None:
        owner = self._boss.owner
        if isinstance(error, Drop):
            self._settle(lambda: owner._run(delete_job(octets(job.id, "id"), owner._keys)))
            self._settle(lambda: owner.complete(job))  # which finds that it is gone
        elif (
            handler is None or isinstance(error, Bury) or _unreadable(error)
            or job.attempt > handler.retries_of(job)
        ):  # fmt: skip
            self._settle(lambda: owner.bury(job))
        else:
            delay = error.delay if isinstance(error, Retry) else None
            wait = handler.backoff.delay(job.attempt) if delay is None else delay
            self._settle(lambda: owner.retry(job, wait, limit=self._boss.retry_limit))

    def _settle(self, action: Callable[[], T]) -> T:
        tries = 0
        while True:
            try:
                done = action()
            except SERVERS as error:
                # Of other refusals nobody knows whether they pass: a few more tries.
                passes = not isinstance(error, RedisError) or any(
                    word in str(error) for word in _PASSING
                )
                tries += not passes
                if tries == TRIES or "WRONGTYPE" in str(error) or self._boss.forced:
                    raise
                self._boss.lost(error)
            else:
                self._boss.found()
                return done

    def _tell_each(self, what: str, job: Job, news: Any) -> None:
        for each in self._middleware:
            try:
                getattr(each, what)(job, news)
            except Exception as error:
                error.__context__ = None  # what the handler raised may show what the job holds
                log.exception("middleware failed", extra={"job_id": job.id})


def _unreadable(error: BaseException) -> bool:
    return isinstance(error, StorableError) and error.code == E_REDIS


def _tell(job: Job) -> None:
    claim = job._claim
    if claim is not None:
        log.warning("a job runs longer than its time limit", extra={"job_id": job.id})
        claim.cancelled = True
