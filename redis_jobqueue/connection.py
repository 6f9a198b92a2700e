"""The synchronous driver: runs an operation over redis-py connections, and sorts the errors.

It speaks through pooled `redis.Connection` objects, not through `redis.Redis`:
less work a call, and nothing is ever sent twice.  A request whose bytes may
have left is not repeated; the caller gets `NetworkError` and can look.

Lost connections: the call that meets one raises and the next one works
(``reconnect_on_error``, as Perl documents it).  A queue made from a dict
reconnects unseen, as in Perl, as long as nothing was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from redis import exceptions

from redis_jobqueue.address import Address
from redis_jobqueue.errors import (
    JobQueueError,
    MaxMemoryError,
    NetworkError,
    RedisError,
)
from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations.request import (
    Command,
    Operation,
    Pipeline,
    Request,
    Script,
    Wait,
)

T = TypeVar("T")

WAIT_MARGIN = 5.0
"""Seconds that a blocking command may answer late where no operation_timeout is set."""

# redis-py takes the first word off these replies; last words of Perl's messages have it.
_CODES: dict[type[Exception], str] = {
    exceptions.BusyLoadingError: "LOADING",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.ExecAbortError: "EXECABORT",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
}
_FULL = "command not allowed when used memory > 'maxmemory'"
# Errors that redis-py calls a lost connection and that are an answer of the server.
_ANSWERS = (exceptions.BusyLoadingError, exceptions.AuthenticationError,
            exceptions.AuthorizationError)  # fmt: skip


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
        self._pool: Any = None
        self._dead = False
        # Counts the times at which all idle connections were dropped on purpose:
        # one of the present generation that is closed was lost.
        self._generation = 0

    def __repr__(self) -> str:
        return f"Driver({self.address.server!r})"

    def run(self, operation: Operation[T]) -> T:
        """Drive an operation to its end and give its result."""
        return drive(operation, self.send)

    def send(self, request: Request) -> Any:
        """Send one request and give its reply.

        Raises:
            NetworkError, MaxMemoryError, RedisError: see `sorted_error`.
        """
        pool = self._pool_of_now()
        try:
            connection = self._checkout(pool)
        except (exceptions.RedisError, OSError) as error:
            raise self.failed(error, request, connecting=True) from error
        try:
            return self.exchange(connection, request)
        except exceptions.ResponseError as error:
            raise self.failed(error, request) from error
        except (exceptions.RedisError, OSError) as error:
            connection.disconnect()
            raise self.failed(error, request) from error
        except BaseException:
            # Interrupted half-way: an unread reply must not answer the next call.
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def connect(self) -> None:
        """Make sure that the server can be reached; sends nothing but a log-in."""
        pool = self._pool_of_now()
        try:
            pool.release(self._checkout(pool))
        except (exceptions.RedisError, OSError) as error:
            raise self.failed(error, None, connecting=True) from error

    def set_timeouts(
        self, connection_timeout: float | None, operation_timeout: float | None
    ) -> None:
        """Use other timeouts from the next call on."""
        self.connection_timeout = connection_timeout
        self.operation_timeout = operation_timeout
        self.close()

    def close(self) -> None:
        """Close the idle connections; later calls connect again."""
        pool, self._pool = self._pool, None
        self._generation += 1
        self._dead = False
        if pool is not None:
            pool.disconnect()

    def _pool_of_now(self) -> Any:
        # Without a lock, which a fork could leave locked: two threads may make a pool
        # each, and the one that is not kept closes with its last connection.
        if (pool := self._pool) is None:
            pool = self.address.pool(self.connection_timeout, self.operation_timeout)
            self._pool = pool
        return pool

    def _checkout(self, pool: Any) -> Any:
        if self._dead:
            raise exceptions.ConnectionError("Not connected to any server")
        try:
            connection = pool.get_connection()
        except TypeError:  # redis-py before 5.3 wants the name of a command
            connection = pool.get_connection("EVALSHA")
        socket_now = connection._sock
        seen = getattr(connection, "_jobqueue", None)
        connection._jobqueue = (self._generation, socket_now)
        if seen is not None and seen[1] is not socket_now and not self.address.unseen:
            if seen[0] == self._generation:
                pool.release(connection)
                raise exceptions.ConnectionError("Not connected to any server")
        return connection

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
        late = self.operation_timeout or WAIT_MARGIN
        if not connection.can_read(timeout=request.seconds + late):
            raise exceptions.TimeoutError("Timeout reading from socket")
        return connection.read_response(disable_decoding=True)

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

    def failed(
        self, error: Exception, request: Request | None, *, connecting: bool = False
    ) -> JobQueueError:
        """Sort an error, and drop the idle connections where it tells that they are useless."""
        found = sorted_error(error, request, self.address, connecting)
        moved = isinstance(error, (exceptions.ReadOnlyError, exceptions.MasterDownError))
        if isinstance(found, NetworkError) or moved:
            self._drop_idle()
            self._dead = isinstance(found, NetworkError) and not self.reconnect_on_error
        return found

    def _drop_idle(self) -> None:
        # Whatever ended one connection has most likely ended them all.  A server
        # that became a replica is left, so that its name is looked up again.
        self._generation += 1
        if (pool := self._pool) is not None:
            pool.disconnect(inuse_connections=False)


def _words(request: Script | Command) -> Sequence[bytes | int]:
    if isinstance(request, Command):
        return request.args
    count = b"%d" % len(request.keys)
    return (b"EVALSHA", SCRIPTS[request.name].sha, count, *request.keys, *request.args)


def sorted_error(
    error: Exception, request: Request | None, address: Address, connecting: bool = False
) -> JobQueueError:
    """Turn an error of redis-py or the system into ours, by Perl's rules.

    Returns:
        `NetworkError` where no answer came, `MaxMemoryError` where the server
        is full, `RedisError` for every other answer.
    """
    text = str(error)
    if isinstance(error, exceptions.ResponseError) or isinstance(error, _ANSWERS):
        if _FULL in text:
            return MaxMemoryError(f"[{_command(request)}] OOM {_FULL}")
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), "")
        shown = text if not code or text.startswith(code) else f"{code} {text}"
        return RedisError(f"[{_command(request)}] {shown}")
    if isinstance(error, exceptions.InvalidResponse):
        return RedisError(f"The server at {address.server} does not speak Redis: {text[:80]}")
    job_id = request.job_id if isinstance(request, Script) else None
    if text == "max number of clients reached":
        return RedisError(f"[{_command(request)}] ERR {text}")
    if connecting and "Not connected" not in text:
        text = f"Could not connect to Redis server at {address.server}: {_reason(error)}"
    elif isinstance(error, exceptions.TimeoutError):
        text = "Error while reading from Redis server: no answer within the timeout"
    return NetworkError(text, job_id=job_id.decode("latin-1") if job_id is not None else None)


def _reason(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error)


def _command(request: Request | None) -> str:
    if isinstance(request, Script):
        return request.name
    if isinstance(request, (Command, Wait)):
        return str(request.args[0], "ascii") if isinstance(request.args[0], bytes) else "?"
    return "pipeline" if isinstance(request, Pipeline) else "connect"
