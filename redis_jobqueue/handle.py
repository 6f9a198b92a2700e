"""What stands behind every queue object: its connection, its settings, its error state."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import attrs
import redis as redis_py

from redis_jobqueue.address import Address, refused
from redis_jobqueue.connection import Driver
from redis_jobqueue.errors import E_NO_ERROR, ERROR, JobQueueError, RedisError
from redis_jobqueue.keys import NAMESPACE, Keys, text
from redis_jobqueue.checks import Text
from redis_jobqueue.operations.request import Command, Operation
from redis_jobqueue.options import address_of

DEFAULT_TIMEOUT = 0
MAX_DATASIZE = 512 * 1024 * 1024
"""Bytes that a frozen workload, result or metadata field may have at most."""

STRINGS = ("auto", "bytes", "utf-8", "latin-1")

P = ParamSpec("P")
T = TypeVar("T")


class _Stateful(Protocol):
    _state: Any


H = TypeVar("H", bound=_Stateful)
_UNSET: Any = object()
_MOST = 1 << 1000  # more seconds do not fit a float


def reports(
    method: Callable[Concatenate[H, P], T],
) -> Callable[Concatenate[H, P], T]:
    """Reset the error state before a call, and keep the code of what it raises."""

    @functools.wraps(method)
    def call(self: H, /, *args: P.args, **kwargs: P.kwargs) -> T:
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
            number = int(value) if value.strip().isdecimal() else float(value)
        except ValueError:
            number = -1
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < _MOST:
        raise refused(
            f"Attribute ({name}) must be a number of seconds, 0 or more"
            + (", or None" if none else "")
        )
    return number


def _limited(address: Address, pool_size: Any, pool_timeout: Any) -> Address:
    if pool_size is not _UNSET:
        whole = isinstance(pool_size, int) and not isinstance(pool_size, bool) and pool_size > 0
        if not whole and pool_size is not None:
            raise refused("Attribute (pool_size) must be a whole number, 1 or more, or None")
        address = attrs.evolve(address, pool_size=pool_size)
    if pool_timeout is not _UNSET:
        address = attrs.evolve(address, pool_timeout=_seconds(pool_timeout, "pool_timeout"))
    return address


def _flag(value: Any, name: str) -> bool:
    if value in (None, False, 0, "", "0"):
        return False
    if value in (True, 1, "1"):
        return True
    raise refused(f"Attribute ({name}) must be true or false")


def _size(value: Any, name: str) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise refused(f"Attribute ({name}) must be a whole number of bytes, 0 or more")
    return value


class Handle:
    """A namespace on a server; see `JobQueue` for the arguments."""

    _strings: str
    _keys: Keys
    _driver: Driver
    _max_datasize: int
    _timeout: float

    def __init__(
        self,
        redis: Any = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        check_maxmemory: bool = True,
        reconnect_on_error: bool = _UNSET,
        connection_timeout: float | None = _UNSET,
        operation_timeout: float | None = _UNSET,
        pool_size: int | None = _UNSET,
        pool_timeout: float = _UNSET,
        max_datasize: int = MAX_DATASIZE,
        strings: str = _UNSET,
        namespace: Text = _UNSET,
    ) -> None:
        shared = redis if isinstance(redis, Handle) else None
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
            if pool_size is not _UNSET or pool_timeout is not _UNSET:
                raise refused("Attribute (pool_size, pool_timeout) is that of the queue shared")
            self._driver = shared._driver
            for name, value in (("reconnect_on_error", reconnect_on_error),
                                ("connection_timeout", connection_timeout),
                                ("operation_timeout", operation_timeout)):  # fmt: skip
                if value is not _UNSET:
                    setattr(self, name, value)
        else:
            try:
                address = redis if isinstance(redis, Address) else address_of(redis)
            finally:
                del redis  # it may hold a password, and tracebacks can show what a frame holds
            address = _limited(address, pool_size, pool_timeout)
            if connection_timeout is _UNSET:
                connection_timeout = address.connection_timeout
            if operation_timeout is _UNSET:
                operation_timeout = address.operation_timeout
            self._driver = Driver(
                address,
                reconnect_on_error=reconnect_on_error is _UNSET
                or _flag(reconnect_on_error, "reconnect_on_error"),
                connection_timeout=_seconds(connection_timeout, "connection_timeout", none=True),
                operation_timeout=_seconds(operation_timeout, "operation_timeout", none=True),
            )
        if not _flag(check_maxmemory, "check_maxmemory"):
            self._driver.connect()
        elif most := self._maxmemory():  # which is the first to connect, as in Perl
            self._max_datasize = min(self._max_datasize, most)

    def __repr__(self) -> str:
        if not hasattr(self, "_driver"):
            return "JobQueue(of no server)"  # a traceback can show one that was never made
        address = self._driver.address
        return (
            f"JobQueue(server={self.server!r}, db={address.db}, "
            f"namespace={text(self._keys.namespace)!r}, pool_size={address.pool_size})"
        )

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
    def db(self) -> int:
        """The number of the database."""
        return self._driver.address.db

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
        return self._client or redis_py.Redis(connection_pool=self._driver.pool)

    def _run(self, operation: Operation[T]) -> T:
        return self._driver.run(operation)

    def _maxmemory(self) -> int:
        try:
            reply = self._driver.send(Command((b"CONFIG", b"GET", b"maxmemory")))
        except RedisError as error:
            if re.search("NOPERM|unknown command", str(error)) is None:
                raise
            raise RedisError(f"{error} (check_maxmemory=False does without)") from error
        return int(reply[1]) if reply else 0
