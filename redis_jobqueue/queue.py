"""`JobQueue`: the Perl API, one line a method; the work is in `operations`."""

from __future__ import annotations

import functools
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import redis as redis_py

from redis_jobqueue.address import Address, address_from_env, address_of, refused
from redis_jobqueue.connection import Driver
from redis_jobqueue.errors import (
    E_NO_ERROR,
    ERROR,
    ArgumentError,
    JobQueueError,
    RedisError,
)
from redis_jobqueue.job import Job, Text
from redis_jobqueue.keys import NAMESPACE, Keys, octets, text
from redis_jobqueue.operations import jobs, survey
from redis_jobqueue.operations.request import Command, Operation

DEFAULT_TIMEOUT = 0
MAX_DATASIZE = 512 * 1024 * 1024
"""Bytes that a frozen workload, result or metadata field may have at most."""

STRINGS = ("auto", "bytes", "utf-8", "latin-1")

P = ParamSpec("P")
T = TypeVar("T")
Name = Text | int | float
_UNSET: Any = object()


def _reports(
    method: Callable[Concatenate[JobQueue, P], T],
) -> Callable[Concatenate[JobQueue, P], T]:
    """Reset the error state before a call, and keep the code of what it raises."""

    @functools.wraps(method)
    def call(self: JobQueue, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._state.code = E_NO_ERROR
        try:
            return method(self, *args, **kwargs)
        except JobQueueError as error:
            self._state.code = error.code
            raise

    return call


def _seconds(value: Any, name: str, *, none: bool = False) -> Any:
    if value is None and none:
        return None
    number = value
    if isinstance(value, str):
        try:
            number = int(value) if value.strip().isdigit() else float(value)
        except ValueError:
            number = -1
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number:
        raise refused(
            f"Attribute ({name}) must be a number of seconds, 0 or more"
            + (", or None" if none else "")
        )
    return number


def _flag(value: Any, name: str) -> bool:
    if value in (None, False, 0, "", "0"):
        return False
    if value in (True, 1, "1"):
        return True
    raise refused(f"Attribute ({name}) must be true or false")


def _size(value: Any, name: str) -> int:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise refused(f"Attribute ({name}) must be a whole number of bytes, 0 or more")
    return value


def _name(value: Any, what: str) -> bytes:
    name = octets(value, what)
    if not name:
        raise ArgumentError(f"Invalid argument ({what} is empty)")
    return name


def _id(job: Any) -> bytes:
    return octets(job.id, "id") if isinstance(job, Job) else _name(job, "id")


def _queue(queue: Any) -> bytes:
    return _name(queue.queue if isinstance(queue, Job) else queue, "queue")


def _filter(value: Any, what: str) -> set[bytes] | None:
    if value is None:
        return None
    if isinstance(value, (list, tuple, set, frozenset)):
        return {_name(each, what) for each in value} or None
    return {_name(value, what)}


class JobQueue:
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
        max_datasize: bytes that a frozen field may have at most; the smaller
            of it and the server's ``maxmemory`` counts.
        strings: how octet strings written by Perl are read: ``auto`` (``str``
            if ASCII, else ``bytes``), ``bytes``, ``utf-8`` or ``latin-1``.
        namespace: the first segment of all keys.

    Raises:
        ArgumentError: code 0, as Perl leaves it.
        NetworkError, RedisError: the server cannot be reached, or refuses.
    """

    def __init__(
        self,
        redis: Any = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        check_maxmemory: bool = True,
        reconnect_on_error: bool = True,
        connection_timeout: float | None = _UNSET,
        operation_timeout: float | None = _UNSET,
        max_datasize: int = MAX_DATASIZE,
        strings: str = _UNSET,
        namespace: Text = _UNSET,
    ) -> None:
        shared = redis if isinstance(redis, JobQueue) else None
        if strings is _UNSET:
            strings = shared._strings if shared else "auto"
        if namespace is _UNSET:
            namespace = shared._keys.namespace if shared else NAMESPACE
        if strings not in STRINGS:
            raise refused(f"strings must be one of {', '.join(STRINGS)}, not {strings!r}")
        self._strings = strings
        self._keys = Keys(namespace)
        self._state = threading.local()
        self.timeout = timeout
        self.max_datasize = max_datasize
        self._client = redis if isinstance(redis, redis_py.Redis) else None
        self._owned = shared is None
        if shared is not None:
            self._driver = shared._driver
            for name, value in (("connection_timeout", connection_timeout),
                                ("operation_timeout", operation_timeout)):  # fmt: skip
                if value is not _UNSET:
                    setattr(self, name, value)
        else:
            address = redis if isinstance(redis, Address) else address_of(redis)
            if connection_timeout is _UNSET:
                connection_timeout = address.connection_timeout
            if operation_timeout is _UNSET:
                operation_timeout = address.operation_timeout
            self._driver = Driver(
                address,
                reconnect_on_error=_flag(reconnect_on_error, "reconnect_on_error"),
                connection_timeout=_seconds(connection_timeout, "connection_timeout", none=True),
                operation_timeout=_seconds(operation_timeout, "operation_timeout", none=True),
            )
        self._driver.connect()
        if check_maxmemory:
            self._max_datasize = min(self._max_datasize, self._maxmemory() or MAX_DATASIZE)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ, **options: Any) -> JobQueue:
        """Make a queue for the server that the environment names.

        ``REDIS_URL`` (with ``REDIS_TLS_VERIFY`` and ``REDIS_CA_FILE``) if it
        is set, else ``REDIS_HOST``, ``REDIS_PORT`` and ``REDIS_PASS``; a URL
        that cannot be used raises and never falls back.  Besides:
        ``REDIS_POOL_SIZE`` (500 connections), ``REDIS_POOL_TIMEOUT`` (2 s),
        ``REDIS_CONNECT_TIMEOUT``, ``REDIS_COMMAND_TIMEOUT`` and
        ``REDIS_OPERATION_TIMEOUT`` (5 s; the last one wins).  The rule is the
        recovery model's.

        Args:
            environ: where to look.
            options: the other arguments of `JobQueue`.

        Raises:
            ArgumentError: code 0; a setting cannot be used.
        """
        return cls(address_from_env(environ), **options)

    @classmethod
    def default(cls) -> JobQueue:
        """Give the one queue of this process, made from the environment when first asked for."""
        global _default
        if _default is None:
            with _default_lock:
                if _default is None:
                    _default = cls.from_env()
        return _default

    def __repr__(self) -> str:
        address = self._driver.address
        return (
            f"JobQueue(server={self.server!r}, db={address.db}, "
            f"namespace={text(self._keys.namespace)!r}, pool_size={address.pool_size})"
        )

    def __enter__(self) -> JobQueue:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.quit()

    # What takes no argument and only reports or sets.

    @property
    def last_errorcode(self) -> int:
        """The ``E_*`` code of this thread's last call; 0 after a success."""
        return getattr(self._state, "code", E_NO_ERROR)

    @property
    def last_error(self) -> str:
        """What `last_errorcode` means, in Perl's words."""
        return ERROR[self.last_errorcode]

    @property
    def server(self) -> str:
        """``host:port``, or the path of the socket."""
        return self._driver.address.server

    @property
    def host(self) -> str | None:
        """The host; None for a socket, or where Sentinel finds it."""
        return self._driver.address.host

    @property
    def port(self) -> int | None:
        """The port; None as for `host`."""
        return self._driver.address.port

    @property
    def pool_size(self) -> int | None:
        """How many connections there may be, None for no limit."""
        return self._driver.address.pool_size

    @property
    def pool_timeout(self) -> float:
        """Seconds to wait for a free connection where there is a limit."""
        return self._driver.address.pool_timeout

    @property
    def namespace(self) -> Text:
        """The first segment of all keys."""
        return text(self._keys.namespace)

    @property
    def timeout(self) -> float:
        """Seconds that a blocking `get_next_job` waits; 0 without end."""
        return self._timeout

    @timeout.setter
    def timeout(self, value: float) -> None:
        self._timeout = _seconds(value, "timeout")

    @property
    def max_datasize(self) -> int:
        """Bytes that a frozen workload, result or metadata field may have."""
        return self._max_datasize

    @max_datasize.setter
    def max_datasize(self, value: int) -> None:
        self._max_datasize = _size(value, "max_datasize")

    @property
    def reconnect_on_error(self) -> bool:
        """Whether calls work again after one met a lost connection."""
        return self._driver.reconnect_on_error

    @reconnect_on_error.setter
    def reconnect_on_error(self, value: bool) -> None:
        self._driver.reconnect_on_error = _flag(value, "reconnect_on_error")

    @property
    def connection_timeout(self) -> float | None:
        """Seconds to connect; None and 0 are no limit."""
        return self._driver.connection_timeout

    @connection_timeout.setter
    def connection_timeout(self, value: float | None) -> None:
        seconds = _seconds(value, "connection_timeout", none=True)
        self._driver.set_timeouts(seconds, self._driver.operation_timeout)

    @property
    def operation_timeout(self) -> float | None:
        """Seconds to read or write; None and 0 are no limit."""
        return self._driver.operation_timeout

    @operation_timeout.setter
    def operation_timeout(self, value: float | None) -> None:
        seconds = _seconds(value, "operation_timeout", none=True)
        self._driver.set_timeouts(self._driver.connection_timeout, seconds)

    @property
    def redis(self) -> redis_py.Redis:
        """A plain redis-py client: the one handed in, else one on this queue's connections."""
        return self._client or redis_py.Redis(connection_pool=self._driver._pool_of_now())

    # The methods of Perl.

    @_reports
    def add_job(self, job: Job | Mapping[str, Any] | None = None, *, LPUSH: Any = False) -> Job:
        """Store a job under a new id and put it into its queue.

        Args:
            job: a Job, which is changed, or a mapping to make one from.
            LPUSH: put it in front, to be taken next.

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
        return self._run(
            jobs.add_job(
                job,
                self._keys,
                new_id=_new_id,
                now=time.time(),
                front=bool(LPUSH),
                max_size=self._max_datasize,
            )
        )

    @_reports
    def get_job_data(self, job: Job | Name | None = None, *names: Name) -> Any:
        """Read fields of a job from Redis.

        Args:
            job: an id or a Job.
            names: fields or metadata fields; ``elapsed`` is one too.

        Returns:
            No name: a dict of the 14 fields and ``elapsed``.  One name: its
            value.  Several: a list of their values.  None, or None for each
            of several names, if there is no such job; None for an unknown
            field.

        Raises:
            ArgumentError: code 1; a bad id or name.
            StorableError: code 6; a field cannot be read.
        """
        wanted = [_name(name, "name of a field") for name in names]
        data = self._run(jobs.get_job_data(_id(job), wanted, self._keys, self._strings))
        return data[0] if isinstance(data, list) and len(data) == 1 else data

    @_reports
    def get_job_meta_fields(self, job: Job | Name | None = None) -> list[Text]:
        """Name the metadata fields of a job, in no order; none if there is no job.

        Raises:
            ArgumentError: code 1; a bad id.
        """
        return self._run(jobs.get_job_meta_fields(_id(job), self._keys))

    @_reports
    def load_job(self, job: Job | Name | None = None) -> Job | None:
        """Load a job by its id or a Job; None if there is none.

        Unlike Perl, the times are those that are stored.

        Raises:
            ArgumentError: code 1; a bad id.
        """
        return self._run(jobs.load_job(_id(job), self._keys, self._strings))

    @_reports
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
        """
        return self._next(queue, blocking, load=True)  # type: ignore[return-value]

    @_reports
    def get_next_job_id(self, queue: Any = None, blocking: Any = False) -> Text | None:
        """Like `get_next_job`, but give the id and leave the time to live alone."""
        return self._next(queue, blocking, load=False)  # type: ignore[return-value]

    @_reports
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

    @_reports
    def delete_job(self, job: Job | Name | None = None) -> bool:
        """Delete a job and take it out of its queue; False if there was none.

        Takes time in proportion to the length of the queue, as in Perl.

        Raises:
            ArgumentError: code 1; a bad id.
        """
        return self._run(jobs.delete_job(_id(job), self._keys))

    @_reports
    def get_job_ids(self, *, queue: Any = None, status: Any = None, queued: Any = False) -> list[Text]:
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
                _filter(queue, "queue"), _filter(status, "status"), bool(queued), self._keys
            )
        )
        return [text(job_id) for job_id in ids]

    @_reports
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
        return self._run(survey.queue_status(_queue(queue), self._keys, now=time.time()))

    @_reports
    def queue_length(self, queue: Job | Name | None = None) -> int:
        """Give how many jobs wait in a queue, given by its name or a Job.

        Raises:
            ArgumentError: code 1; a bad name.
        """
        return int(self._driver.send(Command((b"LLEN", self._keys.queue(_queue(queue))))))

    @_reports
    def ping(self) -> bool:
        """Tell whether the server answers; never raises."""
        try:
            return bool(self._driver.send(Command((b"PING",))) == b"PONG")
        except JobQueueError:
            return False

    @_reports
    def quit(self) -> None:
        """Close the connections that this queue opened; a later call connects again.

        A queue made from another JobQueue closes nothing.
        """
        if self._owned:
            self._driver.close()

    close = quit

    @_reports
    def clear(self) -> int:
        """Delete every key of the namespace, and nothing else; returns how many.  For tests."""
        return self._run(survey.clear(self._keys))

    # Behind them.

    def _run(self, operation: Operation[T]) -> T:
        return self._driver.run(operation)

    def _next(self, queue: Any, blocking: Any, *, load: bool) -> Job | Text | None:
        if queue is None:
            return None
        if isinstance(queue, Mapping):
            raise refused("queue must be a name or a list of names")
        names: Iterable[Any] = queue if isinstance(queue, (list, tuple, set, frozenset)) else [queue]
        queues = [_name(name, "queue") for name in names]
        if not queues:
            return None
        random.shuffle(queues)
        return self._run(
            jobs.get_next_job(
                queues,
                self._keys,
                clock=time.time,
                timeout=self._timeout if blocking else None,
                strings=self._strings,
                load=load,
            )
        )

    def _maxmemory(self) -> int:
        try:
            reply = self._driver.send(Command((b"CONFIG", b"GET", b"maxmemory")))
        except RedisError as error:
            raise RedisError(f"{error} (check_maxmemory=False does without)") from error
        return int(reply[1]) if reply else 0


def _new_id() -> str:
    return str(uuid.uuid4()).upper()


_default: JobQueue | None = None
_default_lock = threading.Lock()
