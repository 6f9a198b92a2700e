"""The synchronous driver: runs an operation over redis-py connections.

It speaks through pooled `redis.Connection` objects, not through `redis.Redis`:
less work a call, and nothing is ever sent twice.  A request whose bytes may
have left is not repeated; the caller gets `NetworkError` and can look.

Lost connections: the call that meets one raises and the next one works
(``reconnect_on_error``, as Perl documents it).  A queue made from a dict
reconnects unseen, as in Perl, as long as nothing was sent.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
from redis import exceptions
from redis.connection import ConnectionPool

from redis_jobqueue.address import Address
from redis_jobqueue.errors import JobQueueError, NetworkError, RedisError
from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations.request import Command, Operation, Request, Script, Wait
from redis_jobqueue.sorting import (
    ANSWERS,
    FAILURES,
    MOVED,
    NOT_CONNECTED,
    cause_of,
    sorted_error,
)

T = TypeVar("T")

WAIT_MARGIN = 5.0
"""Seconds that a blocking command may answer late where no operation_timeout is set."""
LEAST_MARGIN = 1.0
"""Seconds that it may be late in any case: a job taken by an unread reply is lost."""


def drive(operation: Operation[T], send: Callable[[Request], Any]) -> T:
    """Run an operation to its end over any way to send a request; give its result."""
    try:
        request = next(operation)
        while True:
            try:
                reply = send(request)
            except JobQueueError as error:
                request = operation.throw(error)
            else:
                request = operation.send(reply)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


class Driver:
    """Runs operations, from any thread and in any forked child.

    Args:
        address: the server.
        reconnect_on_error: whether calls work again after one failed.
        connection_timeout, operation_timeout: seconds; None or 0 is no limit.
    """

    def __init__(
        self,
        address: Address,
        *,
        reconnect_on_error: bool,
        connection_timeout: float | None,
        operation_timeout: float | None,
    ) -> None:
        self.address = address
        self.reconnect_on_error = reconnect_on_error
        self.connection_timeout = connection_timeout
        self.operation_timeout = operation_timeout
        self._held: _Pool | None = None
        self._dead = False

    def __repr__(self) -> str:
        return f"Driver({self.address.server!r})"

    @property
    def pool(self) -> Any:
        """The redis-py pool that calls use now."""
        return self._pool_of_now().connections

    @property
    def in_use(self) -> int:
        """How many connections answer calls at this moment."""
        pool = self._held
        return len(pool.connections._in_use_connections) if pool is not None else 0

    def run(self, operation: Operation[T]) -> T:
        """Drive an operation to its end and give its result."""
        return drive(operation, self.send)

    def send(self, request: Request) -> Any:
        """Send one request and give its reply.

        Raises:
            NetworkError, MaxMemoryError, RedisError: see `sorted_error`.
        """
        pool = self._pool_of_now()
        connection = self._take(pool, request)
        answered = False
        try:
            reply = self.exchange(connection, request)
            answered = True
            return reply
        except exceptions.ResponseError as error:
            answered = True
            raise self._lost(pool, error, request) from error
        except FAILURES as error:
            raise self._lost(pool, error, request) from error
        finally:
            # Broken or interrupted half-way: an unread reply must not answer the next call.
            self._put_back(pool, connection, keep=answered)

    def connect(self) -> None:
        """Make sure that the server can be reached; sends nothing but a log-in."""
        pool = self._pool_of_now()
        self._put_back(pool, self._take(pool, None), keep=True)

    def set_timeouts(
        self, connection_timeout: float | None, operation_timeout: float | None
    ) -> None:
        """Use other timeouts from the next call on."""
        self.connection_timeout = connection_timeout
        self.operation_timeout = operation_timeout
        self._leave_pool()

    def close(self) -> None:
        """Close the idle connections; later calls connect again.

        A call of another thread ends first, and closes its connection then.
        """
        self._dead = False
        self._leave_pool()

    def failed(
        self, error: Exception, request: Request | None, *, connecting: bool = False
    ) -> JobQueueError:
        """Sort an error, and drop the idle connections where it tells that they are useless."""
        return self._lost(self._held, error, request, connecting=connecting)

    def _lost(
        self, pool: _Pool | None, error: Exception, request: Request | None, *,
        connecting: bool = False,
    ) -> JobQueueError:  # fmt: skip
        found = sorted_error(error, request, self.address, connecting)
        lost = isinstance(found, NetworkError) and not isinstance(error, _Crowded)
        if lost or (isinstance(found, RedisError) and MOVED.search(str(found))):
            # Whatever ended one connection has most likely ended them all.  A server
            # that became a replica is left, so that its name is looked up again.
            if pool is self._held:
                self._leave_pool()
            self._dead = lost and not self.reconnect_on_error
        return found

    def _pool_of_now(self) -> _Pool:
        # Without a lock, which a fork could leave locked: two threads may make a pool
        # each, and the one that is not kept closes with its last connection.
        pool = self._held
        if pool is None or pool.pid != os.getpid():
            # A forked child has no use for its parent's sockets, and leaves its locks alone.
            pool = self._held = _Pool.of(self)
        return pool

    def _leave_pool(self) -> None:
        pool, self._held = self._held, None
        if pool is not None and pool.pid == os.getpid():
            pool.connections.disconnect(inuse_connections=False)

    def _take(self, pool: _Pool, request: Request | None) -> Any:
        outer = sys.exc_info()[1]
        try:
            return self._checkout(pool)
        except FAILURES as error:
            # No name for it: in a circle with its traceback it would keep the callers' jobs alive.
            raise self._lost(pool, error, request, connecting=True) from cause_of(error, outer)

    def _checkout(self, pool: _Pool) -> Any:
        if self._dead:
            raise exceptions.ConnectionError(NOT_CONNECTED)
        if pool.free is not None and not pool.free.acquire(timeout=self.address.pool_timeout):
            raise _Crowded(
                f"none of the {self.address.pool_size} connections was free within "
                f"{self.address.pool_timeout} s"
            )
        try:
            connection = self._connected(pool.connections)
        except BaseException:
            if pool.free is not None:
                pool.free.release()
            raise
        expected = getattr(connection, "_jobqueue", None)
        if expected is not None and expected is not connection._sock and not self.address.reconnect:
            self._put_back(pool, connection, keep=True)
            raise exceptions.ConnectionError(NOT_CONNECTED)
        return connection

    def _connected(self, connections: Any) -> Any:
        until = time.monotonic() + self.address.reconnect
        while True:
            try:
                return get_connection(connections)
            except ANSWERS:
                raise
            except FAILURES:
                if time.monotonic() + self.address.every >= until:
                    raise
            time.sleep(self.address.every)

    def _put_back(self, pool: _Pool, connection: Any, *, keep: bool) -> None:
        if not keep or pool is not self._held:
            connection.disconnect()
        # Next time it must have this very socket, else it was lost; None: we closed it.
        connection._jobqueue = connection._sock
        pool.connections.release(connection)
        if pool.free is not None:
            pool.free.release()

    def exchange(self, connection: Any, request: Request) -> Any:
        """Send one request over a connection that the caller holds, and give its reply."""
        if isinstance(request, Script):
            body = SCRIPTS[request.name]
            count = b"%d" % len(request.keys)
            connection.send_command(b"EVALSHA", body.sha, count, *request.keys, *request.args)
            try:
                return connection.read_response(disable_decoding=True)
            except exceptions.NoScriptError:
                # Nothing was run: the one case in which sending again is safe.
                connection.send_command(b"EVAL", body.text, count, *request.keys, *request.args)
                return connection.read_response(disable_decoding=True)
        if isinstance(request, Command):
            connection.send_command(*request.args)
            return connection.read_response(disable_decoding=True)
        if isinstance(request, Wait):
            return self._wait(connection, request)
        return self._pipeline(connection, request.requests)

    def _wait(self, connection: Any, request: Wait) -> Any:
        connection.send_command(*request.args)
        # Of the socket, for no argument of redis-py says it in all versions.
        sock = connection._sock
        usual = sock.gettimeout()
        sock.settimeout(request.seconds + max(usual or WAIT_MARGIN, LEAST_MARGIN))
        try:
            return connection.read_response(disable_decoding=True)
        finally:
            if connection._sock is sock:
                sock.settimeout(usual)

    def _pipeline(self, connection: Any, requests: Sequence[Script | Command]) -> list[Any]:
        packed = b"".join(
            part for each in requests for part in connection.pack_command(*_words(each))
        )
        connection.send_packed_command([packed])
        replies: list[Any] = []
        for _ in requests:
            try:
                replies.append(connection.read_response(disable_decoding=True))
            except exceptions.ResponseError as error:
                replies.append(error)
        for place, reply in enumerate(replies):
            if isinstance(reply, exceptions.NoScriptError):
                replies[place] = self.exchange(connection, requests[place])
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies


@attrs.frozen(eq=False)
class _Pool:
    """Connections of one process, and how many of them may still be taken."""

    pid: int
    connections: Any = attrs.field(repr=False)  # that of redis-py 7 shows the password
    free: threading.Semaphore | None

    @classmethod
    def of(cls, driver: Driver) -> _Pool:
        address = driver.address
        return cls(
            os.getpid(),
            address.pool(driver.connection_timeout, driver.operation_timeout),
            threading.Semaphore(address.pool_size) if address.pool_size else None,
        )


class _Crowded(exceptions.ConnectionError):
    """All connections are in use: nothing is wrong with any of them."""


_NAMES = inspect.signature(ConnectionPool.get_connection).parameters
# redis-py before 5.3 wants the name of a command, later ones warn of it.
_WORDS = ("EVALSHA",) if _NAMES["command_name"].default is inspect.Parameter.empty else ()


def get_connection(pool: Any) -> Any:
    """Take a connected connection out of a redis-py pool of any version.

    A server that refuses a client may say so before it is asked.  redis-py then
    gives up on a connection that is "not ready"; the server's own words say more.
    """
    try:
        return pool.get_connection(*_WORDS)
    except exceptions.ConnectionError as error:
        if str(error) != "Connection not ready":
            raise
    refused = pool.make_connection()
    try:
        refused.connect()
        refused.send_command("PING")
        refused.read_response()
    finally:
        refused.disconnect()
    return pool.get_connection(*_WORDS)


def _words(request: Script | Command) -> Sequence[bytes | int]:
    if isinstance(request, Command):
        return request.args
    count = b"%d" % len(request.keys)
    return (b"EVALSHA", SCRIPTS[request.name].sha, count, *request.keys, *request.args)
