"""How an owner waits for work: three ways behind one interface, none of which takes a job.

`Tracking` asks the server to be told of changes: before each claim it arms, in
the same write, a script that reads the queues; a push on its second connection
means that something changed since.  `Moving` blocks in ``BLMOVE queue queue``,
the list onto itself, which wakes and takes nothing.  `Polling` looks twice a
second.  `waiting_for` takes the first that the server lets us use.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from typing import Any, Protocol

from redis import exceptions

from redis_jobqueue.connection import Driver
from redis_jobqueue.errors import JobQueueError, NetworkError
from redis_jobqueue.keys import Keys
from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations import claims
from redis_jobqueue.operations.request import Command, Pipeline, Request, Script

ARMED = 5.0
"""Seconds after which `Tracking` arms anew: a lost push costs no more than this."""
TURN = 1.0
"""Seconds that `Moving` blocks on one of several queues."""
POLL = 0.5
"""Seconds between two looks of `Polling`."""
ANSWER = 5.0
"""Seconds to wait for an answer where the queue has no operation_timeout."""

_CHANNEL = b"__redis__:invalidate"


class Wake:
    """Wakes a waiting thread from another one, or from a signal handler."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        """Give what to select on."""
        return self._reader.fileno()

    def set(self) -> None:
        """Wake it, now or when it next waits."""
        try:
            self._writer.send(b"\0")
        except OSError:
            pass  # full: it will wake anyway; closed: nobody waits

    def clear(self) -> None:
        """Forget what woke it."""
        try:
            while self._reader.recv(512):
                pass
        except OSError:
            pass

    def close(self) -> None:
        """Give the sockets back."""
        self._reader.close()
        self._writer.close()


class Line:
    """One connection of its own, with a deadline on every answer."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._closed = False
        timeout = driver.operation_timeout or ANSWER
        self._pool = driver.address.pool(driver.connection_timeout or ANSWER, timeout)
        try:
            try:
                self.connection = self._pool.get_connection()
            except TypeError:  # redis-py before 5.3 wants the name of a command
                self.connection = self._pool.get_connection("PING")
        except (exceptions.RedisError, OSError) as error:
            raise driver.failed(error, None, connecting=True) from error

    def send(self, request: Request) -> Any:
        """Send a request and give its reply; errors are sorted as the driver does."""
        self._check_open()
        try:
            return self._driver.exchange(self.connection, request)
        except exceptions.ResponseError as error:
            raise self._driver.failed(error, request) from error
        except (exceptions.RedisError, OSError) as error:
            self.close()
            raise self._driver.failed(error, request) from error
        except BaseException:
            self.close()
            raise

    def write(self, *words: bytes) -> None:
        """Send a command without reading its answer."""
        self._check_open()
        try:
            self.connection.send_command(*words)
        except (exceptions.RedisError, OSError) as error:
            self.close()
            raise self._driver.failed(error, None) from error

    def read(self) -> Any:
        """Read one answer or push."""
        try:
            return self.connection.read_response(disable_decoding=True)
        except (exceptions.RedisError, OSError) as error:
            self.close()
            raise self._driver.failed(error, None) from error

    def readable(self, seconds: float, wake: Wake) -> bool:
        """Wait for an answer or push; False if the time is over or somebody woke us."""
        self._check_open()
        try:
            if self.connection.can_read(0):
                return True
            sock = self.connection._sock
            ready, _, _ = select.select([sock, wake], [], [], max(seconds, 0))
        except (exceptions.RedisError, OSError, ValueError) as error:
            self.close()
            raise NetworkError(f"Error while reading from Redis server: {error}") from error
        return sock in ready

    def close(self) -> None:
        """Close the connection; it may be used by nobody any more."""
        self._closed = True
        self._pool.disconnect()

    def _check_open(self) -> None:
        # redis-py would connect anew, unseen, and what was set up before were gone.
        if self._closed:
            raise NetworkError("Not connected to any server")


class Waiting(Protocol):
    """One thread's way to wait."""

    mode: str

    def send(self, request: Request) -> Any:
        """Send a claim, having seen to it that no later change is missed."""

    def wait(self, seconds: float) -> None:
        """Return when a claim may bring something, when woken, or when the time is over."""

    def close(self) -> None:
        """Close what it opened."""


class Tracking:
    """Waits for a push of the server."""

    mode = "tracking"

    def __init__(self, driver: Driver, keys: Keys, queues: Sequence[bytes], wake: Wake) -> None:
        self._wake = wake
        self._arm = claims.arm(queues, keys)
        self._told: Line | None = None
        self._line = Line(driver)
        try:
            self._told = Line(driver)
            number = self._told.send(Command((b"CLIENT", b"ID")))
            self._told.send(Command((b"SUBSCRIBE", _CHANNEL)))
            self._line.send(
                Command((b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", b"%d" % number, b"OPTIN"))
            )
            self._prove(keys)
        except BaseException:
            self.close()
            raise
        self._since = time.monotonic()

    def _prove(self, keys: Keys) -> None:
        # A proxy or an ACL can swallow pushes: change a key that we read, and see.
        touch = Script("touch", (keys.about,), ())
        self._line.send(
            Pipeline([_CACHING, Command((b"EXISTS", keys.about)), touch])
        )
        if self._told is None or not self._told.readable(ANSWER, self._wake):
            raise NetworkError("the server does not tell of changes")
        self._drain()

    def send(self, request: Request) -> Any:
        """Arm and claim in one write."""
        if not isinstance(request, Script):
            return self._line.send(request)
        self._drain()
        # EVAL, not EVALSHA: an arming that has to be sent twice would arm nothing.
        arm = Command((b"EVAL", SCRIPTS["arm"].text, b"%d" % len(self._arm), *self._arm))
        self._since = time.monotonic()
        return self._line.send(Pipeline([_CACHING, arm, request]))[2]

    def wait(self, seconds: float) -> None:
        """Wait for a push, at most until it is time to arm anew."""
        left = min(seconds, self._since + ARMED - time.monotonic())
        if self._told is not None and self._told.readable(left, self._wake):
            self._drain()

    def _drain(self) -> None:
        told = self._told
        if told is None:
            raise NetworkError("Not connected to any server")
        while told.connection.can_read(0):
            told.read()

    def close(self) -> None:
        """Close both connections."""
        self._line.close()
        if self._told is not None:
            self._told.close()


_CACHING = Command((b"CLIENT", b"CACHING", b"YES"))


class Moving:
    """Blocks in a command that moves a list onto itself."""

    mode = "blmove"

    def __init__(self, driver: Driver, keys: Keys, queues: Sequence[bytes], wake: Wake) -> None:
        self._wake = wake
        self._keys = keys
        self._queues = list(queues)
        self._place = 0
        self._line = Line(driver)
        try:
            none = keys.prefix + b"owners:none:none"
            self._line.send(Command((b"BLMOVE", none, none, b"LEFT", b"LEFT", b"0.001")))
        except BaseException:
            self._line.close()
            raise

    def send(self, request: Request) -> Any:
        """Claim."""
        return self._line.send(request)

    def wait(self, seconds: float) -> None:
        """Block on the next queue that is not paused."""
        for queue in self._open():
            turn = min(seconds, TURN)
            key = self._keys.queue(queue)
            self._line.write(b"BLMOVE", key, key, b"LEFT", b"LEFT", b"%.3f" % max(turn, 0.001))
            if self._line.readable(turn + ANSWER, self._wake):
                self._line.read()
            else:
                # Woken, or no answer: it cannot be taken back, so leave the connection.
                # What the server does with it moves nothing.
                self._reopen()
            return
        _sleep(min(seconds, TURN), self._wake)

    def _open(self) -> list[bytes]:
        # A paused queue that is filled would answer at once, again and again.
        answers = self._line.send(Command((b"SMISMEMBER", self._keys.paused, *self._queues)))
        self._place = (self._place + 1) % len(self._queues)
        turned = self._queues[self._place :] + self._queues[: self._place]
        paused = {queue for queue, answer in zip(self._queues, answers) if answer}
        return [queue for queue in turned if queue not in paused]

    def _reopen(self) -> None:
        driver = self._line._driver
        self._line.close()
        self._line = Line(driver)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


class Polling:
    """Looks again and again."""

    mode = "poll"

    def __init__(self, driver: Driver, keys: Keys, queues: Sequence[bytes], wake: Wake) -> None:
        self._wake = wake
        self._driver = driver

    def send(self, request: Request) -> Any:
        """Claim."""
        return self._driver.send(request)

    def wait(self, seconds: float) -> None:
        """Let half a second pass."""
        _sleep(min(seconds, POLL), self._wake)

    def close(self) -> None:
        """Close nothing: the connections are the queue's."""


def _sleep(seconds: float, wake: Wake) -> None:
    select.select([wake], [], [], max(seconds, 0))


MODES: dict[str, type[Tracking] | type[Moving] | type[Polling]] = {
    kind.mode: kind for kind in (Tracking, Moving, Polling)
}


def waiting_for(
    driver: Driver, keys: Keys, queues: Sequence[bytes], wake: Wake, modes: Sequence[str]
) -> Waiting:
    """Open the first of these ways that the server lets us use.

    Raises:
        NetworkError: the server cannot be reached at all.
    """
    for mode in modes[:-1]:
        try:
            return MODES[mode](driver, keys, queues, wake)
        except JobQueueError:
            driver.send(Command((b"PING",)))  # is it the way, or the server?
    return MODES[modes[-1]](driver, keys, queues, wake)
