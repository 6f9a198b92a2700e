"""`JobQueue`: the Perl API, one line a method; the work is in `operations`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from redis_jobqueue.arguments import (
    Name,
    field_of,
    filter_of,
    id_of,
    ms_of,
    names_of,
    new_id,
    queue_of,
)
from redis_jobqueue.checks import Text
from redis_jobqueue.errors import ArgumentError, JobQueueError
from redis_jobqueue.handle import DEFAULT_TIMEOUT, MAX_DATASIZE, reports
from redis_jobqueue.job import Job
from redis_jobqueue.keys import text
from redis_jobqueue.management import Management
from redis_jobqueue.operations import jobs, schedule, survey
from redis_jobqueue.operations.request import Command
from redis_jobqueue.settings import address_from_env


class JobQueue(Management):
    """A job queue on a Redis server, shared with Perl's Redis::JobQueue.

    One object serves any number of threads and forked children.

    Args:
        redis: the server: ``"host[:port]"``, a ``redis://``, ``rediss://``,
            ``unix://`` or ``embedded://`` URL, a dict of the options of Perl's
            ``Redis->new``, a ready ``redis.Redis`` client (its address is
            used, its connections are not), another JobQueue (its connections
            are shared), or None for ``localhost:6379``.
        timeout: seconds that a blocking `get_next_job` waits; 0 without end.
        check_maxmemory: whether to ask the server for its ``maxmemory``;
            False where ``CONFIG`` is not allowed.
        reconnect_on_error: whether calls work again after a connection was
            lost: the call that meets it raises, the next one works.
        connection_timeout, operation_timeout: seconds to connect, and to read
            or write; None and 0 are no limit.  The default is none, and 0.1
            and 1 for a queue made from a dict, as in Perl.
        pool_size: connections at most, None for no limit; a call beyond it
            waits ``pool_timeout`` seconds (2) for a free one, then raises
            `NetworkError`.
        max_datasize: bytes that a frozen field may have at most; the smaller
            of it and the server's ``maxmemory`` counts.
        strings: how octet strings written by Perl are read: ``auto`` (``str``
            if ASCII, else ``bytes``), ``bytes``, ``utf-8`` or ``latin-1``.
        namespace: the first segment of all keys.

    Raises:
        ArgumentError: code 0, as Perl leaves it.
        NetworkError, RedisError: the server cannot be reached, or refuses.
    """

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> JobQueue:
        """Make a queue for the server that the environment names.

        ``REDIS_URL`` (with ``REDIS_TLS_VERIFY`` and ``REDIS_CA_FILE``) if it
        is set, else ``REDIS_HOST``, ``REDIS_PORT`` and ``REDIS_PASS``; a URL
        that cannot be used raises and never falls back.  Besides:
        ``REDIS_POOL_SIZE`` (500 connections), ``REDIS_POOL_TIMEOUT`` (2 s),
        ``REDIS_CONNECT_TIMEOUT``, ``REDIS_COMMAND_TIMEOUT`` and
        ``REDIS_OPERATION_TIMEOUT`` (5 s; the last one wins).  The rule is the
        recovery model's.

        Args:
            environ: where to look; by default the environment of the process.
            options: the other arguments of `JobQueue`.

        Raises:
            ArgumentError: code 0; a setting cannot be used.
        """
        try:
            address = address_from_env(os.environ if environ is None else environ)
        finally:
            del environ  # it may hold a password, and tracebacks can show what a frame holds
        return cls(address, **options)

    @classmethod
    def default(cls) -> JobQueue:
        """Give the one queue of this process, made from the environment when first asked for."""
        # No lock, which a fork could leave locked: of two made at once one is dropped.
        return _default.get("queue") or _default.setdefault("queue", cls.from_env())

    def __enter__(self) -> JobQueue:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.quit()

    # The methods of Perl.

    @reports
    def add_job(
        self,
        job: Job | Mapping[str, Any] | None = None,
        *,
        LPUSH: Any = False,
        delay: float | None = None,
        at: float | None = None,
    ) -> Job:
        """Store a job under a new id and put it into its queue.

        Args:
            job: a Job, which is changed, or a mapping to make one from.
            LPUSH: put it in front, to be taken next.
            delay: seconds until it is due: only then does it join its queue,
                and its time to live begins (ours: some Python process has to
                call `promote_due`, as a Worker does).
            at: the moment at which it is due, seconds since 1970.

        Returns:
            The Job with its new id and nothing modified.

        Raises:
            ArgumentError: code 1: not a job, no queue, text beyond ASCII in a
                plain field, an ``expire`` that Redis refuses; code 0: a value
                does not fit its attribute.
            DataTooLargeError, MaxMemoryError, RedisError: nothing was stored.
            NetworkError: with ``job_id``; the job keeps that id and may have
                been stored, now or a little later: look before adding again.
            StorableError: code 1: data that Perl has no form for.
        """
        if isinstance(job, Mapping):
            job = Job(job)
        if not isinstance(job, Job):
            raise ArgumentError("Invalid argument (a job is a Job or a mapping)")
        if delay is not None or at is not None:
            when = _when(delay, at, LPUSH)
            return self._run(
                schedule.add_delayed(
                    job, self._keys, new_id=new_id, now=time.time(), when=when,
                    max_size=self._max_datasize,
                )  # fmt: skip
            )
        return self._run(
            jobs.add_job(
                job,
                self._keys,
                new_id=new_id,
                now=time.time(),
                front=bool(LPUSH),
                max_size=self._max_datasize,
            )
        )

    @reports
    def get_job_data(self, job: Job | Name | None = None, *names: Name) -> Any:
        """Read fields of a job from Redis.

        Args:
            job: an id or a Job.
            names: fields or metadata fields; ``elapsed`` is one too.  What can
                be no name (None, a list, "") is an unknown field, as in Perl.

        Returns:
            No name: a dict of the 14 fields and ``elapsed``.  One name: its
            value.  Several: a list of their values.  None, or None for each
            of several names, if there is no such job; None for an unknown
            field.

        Raises:
            ArgumentError: code 1; a bad id, or text beyond ASCII.
            StorableError: code 6; a field cannot be read.
        """
        wanted = [field_of(name) for name in names]
        known = [name for name in wanted if name is not None]
        data: Any = []
        if known or not names:
            data = self._run(jobs.get_job_data(id_of(job), known, self._keys, self._strings))
        if not names:
            return data
        found = iter(data)
        values = [None if name is None else next(found) for name in wanted]
        return values[0] if len(values) == 1 else values

    @reports
    def get_job_meta_fields(self, job: Job | Name | None = None) -> list[Text]:
        """Name the metadata fields of a job, in no order; none if there is no job.

        Raises:
            ArgumentError: code 1; a bad id.
        """
        return self._run(jobs.get_job_meta_fields(id_of(job), self._keys))

    @reports
    def load_job(self, job: Job | Name | None = None) -> Job | None:
        """Load a job by its id or a Job; None if there is none.

        Unlike Perl, the times are those that are stored.

        Raises:
            ArgumentError: code 1; a bad id.
        """
        return self._run(jobs.load_job(id_of(job), self._keys, self._strings))

    @reports
    def get_next_job(self, queue: Any = None, blocking: Any = False) -> Job | None:
        """Take the next job off a queue, at most once, as Perl does.

        The entry is gone with this call: a process that dies afterwards
        loses its job.  `Owner.claim` is the call that loses nothing.

        Args:
            queue: a name or a list of names, looked at in random order.
            blocking: whether to wait up to `timeout` for a job.

        Returns:
            The Job, whose time to live starts anew; None if there is none,
            or if no queue is given.

        Raises:
            ArgumentError: code 1: a bad name; code 0: neither a name nor a list.
            JobDeletedError: with ``job_id``: the job was deleted, or its time
                ran out on this server earlier than its entry says.
            NetworkError: the answer did not come; a job may have been taken.
                A wait, also one without end, notices a dead connection within
                5 s and ``operation_timeout`` (1 s at least, 5 s where it is not set).
        """
        return self._next(queue, blocking, load=True)  # type: ignore[return-value]

    @reports
    def get_next_job_id(self, queue: Any = None, blocking: Any = False) -> Text | None:
        """Like `get_next_job`, but give the id and leave the time to live alone."""
        return self._next(queue, blocking, load=False)  # type: ignore[return-value]

    @reports
    def update_job(self, job: Job | None = None) -> int | None:
        """Write what was changed in a Job, and start its time to live anew.

        ``id`` and ``expire`` are never written, as in Perl.

        Returns:
            How many fields were written, 0 if nothing was changed, None if
            the job is gone (then the changes stay marked).

        Raises:
            ArgumentError: code 1; not a Job, or text beyond ASCII in a plain field.
            DataTooLargeError, MaxMemoryError: nothing was written.
        """
        if not isinstance(job, Job):
            raise ArgumentError("Invalid argument (update_job takes a Job)")
        return self._run(
            jobs.update_job(job, self._keys, now=time.time(), max_size=self._max_datasize)
        )

    @reports
    def delete_job(self, job: Job | Name | None = None) -> bool:
        """Delete a job and take it out of its queue; False if there was none.

        Takes time in proportion to the length of the queue, as in Perl.

        Raises:
            ArgumentError: code 1; a bad id.
        """
        return self._run(jobs.delete_job(id_of(job), self._keys))

    @reports
    def get_job_ids(
        self, *, queue: Any = None, status: Any = None, queued: Any = False
    ) -> list[Text]:
        """Give the ids of all jobs, or of those that fit, in no order.

        Args:
            queue: a name or several: jobs of these queues.
            status: a status or several: jobs with one of these.
            queued: only jobs that still wait in a queue; their ids come from
                the entries, so jobs that are gone are listed too, as in Perl.

        Raises:
            ArgumentError: code 1; a bad name in a filter (Perl drops it).
        """
        ids = self._run(
            survey.get_job_ids(
                filter_of(queue, "queue"), filter_of(status, "status"), bool(queued), self._keys
            )
        )
        return [text(job_id) for job_id in ids]

    @reports
    def queue_status(self, queue: Job | Name | None = None) -> dict[str, int | float]:
        """Describe a queue, given by its name or a Job.

        Returns:
            ``length`` (jobs waiting) and ``all_jobs`` (jobs with this queue,
            waiting or not); and where a waiting job still exists
            ``max_job_age``, ``min_job_age`` and ``lifetime``, their
            difference, in seconds.

        Raises:
            ArgumentError: code 1; a bad name.
        """
        return self._run(survey.queue_status(queue_of(queue), self._keys, now=time.time()))

    @reports
    def queue_length(self, queue: Job | Name | None = None) -> int:
        """Give how many jobs wait in a queue, given by its name or a Job.

        Raises:
            ArgumentError: code 1; a bad name.
        """
        return int(self._driver.send(Command((b"LLEN", self._keys.queue(queue_of(queue))))))

    @reports
    def ping(self) -> bool:
        """Tell whether the server answers; never raises."""
        try:
            return bool(self._driver.send(Command((b"PING",))) == b"PONG")
        except JobQueueError:
            return False

    @reports
    def quit(self) -> None:
        """Close the connections that this queue opened; a later call connects again.

        A queue made from another JobQueue closes nothing.
        """
        if self._owned:
            self._driver.close()

    close = quit

    @reports
    def clear(self) -> int:
        """Delete every key of the namespace, and nothing else; returns how many.  For tests."""
        return self._run(survey.clear(self._keys))

    def _next(self, queue: Any, blocking: Any, *, load: bool) -> Job | Text | None:
        if queue is None:
            return None
        queues = names_of(queue, "queue")
        if not queues:
            return None
        random.shuffle(queues)
        return self._run(
            jobs.get_next_job(
                queues,
                self._keys,
                clock=time.time,
                ticks=time.monotonic,
                timeout=self._timeout if blocking else None,
                strings=self._strings,
                load=load,
            )
        )


def _when(delay: float | None, at: float | None, front: Any) -> bytes:
    if front:
        raise ArgumentError("Invalid argument (LPUSH cannot be combined with delay or at)")
    if delay is not None and at is not None:
        raise ArgumentError("Invalid argument (delay and at exclude each other)")
    if delay is not None:
        return b"D%d" % ms_of(delay, "delay")
    return b"A%d" % ms_of(at, "at")


_default: dict[str, JobQueue] = {}

__all__ = ["DEFAULT_TIMEOUT", "MAX_DATASIZE", "JobQueue"]
