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
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redis import exceptions

from redis_jobqueue.connection import Driver, get_connection
from redis_jobqueue.errors import JobQueueError, MaxMemoryError, NetworkError, RedisError
from redis_jobqueue.keys import Keys
from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations import claims
from redis_jobqueue.operations.request import Command, Pipeline, Request, Script
from redis_jobqueue.sorting import FAILURES, MOVED, NOT_CONNECTED, cause_of

ARMED = 5.0
"""Seconds after which `Tracking` arms anew: a lost push costs no more than this."""
TURN = 1.0
"""Seconds that `Moving` blocks on one of several queues."""
POLL = 0.5
"""Seconds between two looks of `Polling`."""
ANSWER = 5.0
"""Seconds to wait for an answer where the queue has no operation_timeout."""

TRIES = 3
"""Times that a way is tried while its connections get lost."""
_LEAST = b"0.01"
"""Seconds that a command blocks at least: Redis 6.2 takes less than 1 ms for endless."""

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
    """One connection of its own, with a deadline on every answer.

    After any error but an answer of the server it is closed: it might give an
    old answer to a new question.  So it is when the server is no master any more.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.closed = False
        timeout = driver.operation_timeout or ANSWER
        outer = sys.exc_info()[1]
        self._pool = driver.address.pool(driver.connection_timeout or ANSWER, timeout)
        try:
            self._connection = get_connection(self._pool)
        except FAILURES as error:
            raise driver.failed(error, None, connecting=True) from cause_of(error, outer)

    def send(self, request: Request) -> Any:
        """Send a request and give its reply; errors are sorted as the driver does."""
        return self._guarded(lambda line: self._driver.exchange(line, request), request)

    def write(self, *words: bytes) -> None:
        """Send a command without reading its answer."""
        self._guarded(lambda line: line.send_command(*words))

    def read(self) -> Any:
        """Read one answer or push."""
        return self._guarded(lambda line: line.read_response(disable_decoding=True))

    def pending(self) -> bool:
        """Tell whether an answer or push is here, or the connection has ended."""
        return bool(self._guarded(lambda line: line.can_read(0)))

    def readable(self, seconds: float, *others: Wake | Line | None) -> bool:
        """Wait for an answer or push; False if the time is over or one of the others is ready."""
        if self.pending():
            return True
        return bool(self._guarded(lambda _: self in ready(seconds, self, *others)))

    def fileno(self) -> int:
        """Give what to poll for."""
        if self.closed:
            raise NetworkError(NOT_CONNECTED)
        return int(self._connection._sock.fileno())

    def close(self) -> None:
        """Close the connection; it may be used by nobody any more."""
        self.closed = True
        self._pool.disconnect()

    def _guarded(self, act: Callable[[Any], Any], request: Request | None = None) -> Any:
        # redis-py would connect anew, unseen, and what was set up before were gone.
        if self.closed:
            raise NetworkError(NOT_CONNECTED)
        try:
            return act(self._connection)
        except exceptions.ResponseError as error:
            if MOVED.search(str(found := self._driver.failed(error, request))):
                self.close()
            raise found from error
        except BaseException as error:
            self.close()
            if isinstance(error, FAILURES):
                raise self._driver.failed(error, request) from error
            raise


def ready(seconds: float, *things: Any) -> list[Any]:
    """Wait until some of these sockets can be read, or the time is over; None stands for none."""
    # Not select(): it takes no file numbers above 1023.
    poll = select.poll()
    waiting = {thing.fileno(): thing for thing in things if thing is not None}
    for number in waiting:
        poll.register(number, select.POLLIN)
    return [waiting[number] for number, _ in poll.poll(max(seconds, 0.0) * 1000)]


class Waiting(Protocol):
    """One thread's way to wait."""

    mode: str

    @property
    def closed(self) -> bool:
        """Whether it failed and can be used no more."""

    def send(self, request: Request) -> Any:
        """Send a claim, having seen to it that no later change is missed."""

    def wait(self, seconds: float) -> None:
        """Return when a claim may bring something, when woken, or when the time is over."""

    def close(self) -> None:
        """Close what it opened."""


class Tracking:
    """Waits for a push of the server, on a second connection that reads nothing else."""

    mode = "tracking"

    def __init__(
        self, driver: Driver, keys: Keys, watched: Sequence[bytes], wake: Wake | None = None
    ) -> None:
        self._wake = wake
        # EVAL, not EVALSHA: an arming that has to be sent twice would arm nothing.
        self._arm = Command(
            (b"EVAL", SCRIPTS["arm"].text, b"%d" % len(watched), *watched)
        )
        self._since = time.monotonic()
        self._line = Line(driver)
        try:
            self._told = Line(driver)
        except BaseException:
            self._line.close()
            raise
        try:
            number = self._told.send(Command((b"CLIENT", b"ID")))
            self._told.send(Command((b"SUBSCRIBE", _CHANNEL)))
            self._line.send(
                Command((b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", b"%d" % number, b"OPTIN"))
            )
            self._prove(keys)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether one of its connections is gone."""
        return self._line.closed or self._told.closed

    def _prove(self, keys: Keys) -> None:
        # A proxy or an ACL can swallow pushes: change a key that we read, and see.
        touch = Script("touch", (keys.about,), ())
        self._line.send(Pipeline([_CACHING, Command((b"EXISTS", keys.about)), touch]))
        if not self._told.readable(ANSWER):
            raise RedisError("the server does not tell of changes")
        self._drain()

    def send(self, request: Request) -> Any:
        """Arm and ask in one write."""
        assert isinstance(request, (Script, Command))
        self._drain()
        self._since = time.monotonic()
        return self._line.send(Pipeline([_CACHING, self._arm, request]))[2]

    def wait(self, seconds: float) -> None:
        """Wait for a push, at most until it is time to arm anew."""
        left = min(seconds, self._since + ARMED - time.monotonic())
        if self._told.readable(left, self._wake, self._line):
            self._drain()
        elif self._line.pending():
            self._line.close()  # nothing was asked: it has ended

    def _drain(self) -> None:
        while self._told.pending():
            self._told.read()

    def close(self) -> None:
        """Close both connections."""
        self._line.close()
        self._told.close()


_CACHING = Command((b"CLIENT", b"CACHING", b"YES"))


class Moving:
    """Blocks in a command that moves a list onto itself."""

    mode = "blmove"

    def __init__(self, driver: Driver, keys: Keys, watched: Sequence[bytes], wake: Wake) -> None:
        self._wake = wake
        self._driver = driver
        self._paused, *self._lists = watched
        self._names = [key.removeprefix(keys.queue(b"")) for key in self._lists]
        self._place = 0
        self._line = Line(driver)
        none = keys.prefix + b"owners:none:none"
        try:
            self._line.send(Command((b"BLMOVE", none, none, b"LEFT", b"LEFT", _LEAST)))
        except BaseException:
            self._line.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether its connection is gone."""
        return self._line.closed

    def send(self, request: Request) -> Any:
        """Claim."""
        return self._line.send(request)

    def wait(self, seconds: float) -> None:
        """Block on the next queue that is not paused."""
        turn = max(min(seconds, TURN), float(_LEAST))
        key = self._next_open()
        if key is None:
            ready(turn, self._wake)
            return
        try:
            self._line.write(b"BLMOVE", key, key, b"LEFT", b"LEFT", b"%.3f" % turn)
            answered = self._line.readable(turn + ANSWER, self._wake)
        except BaseException:
            self._line.close()
            raise
        if not answered:
            # Woken, or no answer: it cannot be taken back, so leave the connection.
            # What the server does with it moves nothing.
            self._line.close()
            self._line = Line(self._driver)
            return
        try:
            self._line.read()
        except (MaxMemoryError, RedisError) as error:
            # As a command it is refused by a full server, though claims are not; and a
            # claim passes over a queue whose key is no list.
            if isinstance(error, RedisError) and "WRONGTYPE" not in str(error):
                raise
            ready(min(seconds, POLL), self._wake)

    def _next_open(self) -> bytes | None:
        # A paused queue that is filled would answer at once, again and again.
        answers = self._line.send(Command((b"SMISMEMBER", self._paused, *self._names)))
        count = len(self._lists)
        self._place += 1
        for place in (at % count for at in range(self._place, self._place + count)):
            if not answers[place]:
                self._place = place
                return self._lists[place]
        return None

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


class Polling:
    """Looks again and again."""

    mode = "poll"
    closed = False

    def __init__(self, driver: Driver, keys: Keys, watched: Sequence[bytes], wake: Wake) -> None:
        self._wake = wake
        self._driver = driver

    def send(self, request: Request) -> Any:
        """Claim."""
        return self._driver.send(request)

    def wait(self, seconds: float) -> None:
        """Let half a second pass."""
        ready(min(seconds, POLL), self._wake)

    def close(self) -> None:
        """Close nothing: the connections are the queue's."""


MODES: dict[str, type[Tracking] | type[Moving] | type[Polling]] = {
    kind.mode: kind for kind in (Tracking, Moving, Polling)
}


def waiting_for(
    driver: Driver, keys: Keys, queues: Sequence[bytes], wake: Wake, modes: Sequence[str]
) -> Waiting:
    """Open the first of these ways that the server lets us use.

    Raises:
        NetworkError, RedisError: none of them can be used.
    """
    watched = claims.arm(queues, keys)
    failure = JobQueueError()
    for mode in modes:
        for _ in range(TRIES):
            try:
                return MODES[mode](driver, keys, watched, wake)
            except NetworkError as error:
                failure = error
                driver.send(Command((b"PING",)))  # is it the way, or the server?
            except JobQueueError as error:
                failure = error
                break  # refused
    raise failure
