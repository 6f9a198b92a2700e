"""The life of an owner: registered, beating, fenced and registered anew, stopped."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from redis_jobqueue.address import refused
from redis_jobqueue.checks import Text
from redis_jobqueue.connection import Driver
from redis_jobqueue.errors import ArgumentError, JobQueueError, NetworkError
from redis_jobqueue.handle import reports
from redis_jobqueue.heart import Heart, suspend_clock
from redis_jobqueue.identity import Identity, new_identity, prefix_of
from redis_jobqueue.job import Job
from redis_jobqueue.operations import claims, schedule
from redis_jobqueue.operations.request import Operation
from redis_jobqueue.waiting import ANSWER, MODES, Waiting, Wake, waiting_for

if TYPE_CHECKING:
    from redis_jobqueue.handle import Handle

T = TypeVar("T")
L = TypeVar("L", bound="Lifecycle")

log = logging.getLogger("redis_jobqueue")

INTERVAL = 5.0
"""Seconds between two beats."""
LIFETIME = 30.0
"""Seconds after its last beat at which an owner counts as dead."""


class Lifecycle:
    """What an `Owner` is before it claims anything; see there."""

    def __init__(
        self,
        queue: Handle,
        *,
        id: Text | None = None,
        interval: float = INTERVAL,
        lifetime: float = LIFETIME,
        max_attempts: int = 0,
        wait_modes: Sequence[str] = tuple(MODES),
    ) -> None:
        if not 0 < interval < lifetime:
            raise refused("interval and lifetime must be seconds, the interval the shorter one")
        if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or max_attempts < 0:
            raise refused("max_attempts must be a whole number, 0 for no limit")
        if not wait_modes or not set(wait_modes) <= set(MODES):
            raise refused(f"wait_modes must be some of {', '.join(MODES)}")
        self.interval, self.lifetime, self.max_attempts = interval, lifetime, max_attempts
        self.dangling: list[Text] = []
        self._jq = queue
        self._state = queue._state
        self._keys = queue._keys
        self._prefix = prefix_of(id)
        self._wait_modes = tuple(wait_modes)
        self._mode: str | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._stopping = False
        self._nudged = False
        self._facts: dict[str, Any] = {}
        self._wakes: set[Wake] = set()
        self._idle: list[tuple[tuple[bytes, ...], Waiting, Wake]] = []
        self._seen: dict[bytes, None] = {}
        self._said = 0
        self._since = time.time()
        self._sweep = schedule.Sweep()
        self._stuck: set[Text] = set()
        self._unfit: set[bytes] = set()
        self._identity: Identity | None = None
        driver = queue._driver
        self._bounded = Driver(
            driver.address,
            reconnect_on_error=driver.reconnect_on_error,
            connection_timeout=driver.connection_timeout or ANSWER,
            operation_timeout=ANSWER,
        )
        # Beats have shorter timeouts, so that several fit into a lifetime.
        slow = min(lifetime / 3, ANSWER)
        self._beats = Driver(
            driver.address,
            reconnect_on_error=True,
            connection_timeout=min(driver.connection_timeout or slow, lifetime / 3),
            operation_timeout=min(driver.operation_timeout or slow, lifetime / 3),
        )
        self._heart = Heart(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def __enter__(self: L) -> L:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except JobQueueError as failed:
            # What ended the block matters more; the beat lapses by itself.
            if error is None:
                raise
            log.error("the owner could not be stopped: %s", failed)

    # Its life.

    @property
    def id(self) -> str:
        """The id, ``""`` before the start."""
        return self._identity.name if self._identity else ""

    @property
    def wait_mode(self) -> str:
        """How blocking claims wait: ``tracking``, ``blmove`` or ``poll``; see the README."""
        if self._mode is None:
            wake = Wake()
            try:
                waiting = waiting_for(self._driver, self._keys, [b"-"], wake, self._wait_modes)
                self._mode = waiting.mode
                waiting.close()
            finally:
                wake.close()
        return self._mode

    @property
    def held(self) -> list[Job]:
        """The jobs that this owner holds, in the order of their claims."""
        identity = self._identity
        return [] if identity is None else identity.jobs()

    @reports
    def start(self: L) -> L:
        """Register and begin to beat; does nothing if that was done.

        Raises:
            RedisError: the server cannot do claims (older than Redis 6.2).
        """
        self._check_process()
        with self._lock:
            if self._identity is None:
                self._stopping = False
                self._identity = self._register()
                self._heart.start()
        return self

    @reports
    def stop(self, wait: float = 0.0, *, release: bool = True) -> int:
        """Refuse new claims, release what is held, and leave.

        Args:
            wait: seconds to let other threads finish what they hold.
            release: put what is then still held back to the head of its
                queue; else it stays held until somebody recovers it.

        Returns:
            How many jobs were put back.
        """
        self._check_process()
        self.interrupt()
        if self._identity is None:
            return 0
        ends = time.monotonic() + wait
        while self.held and time.monotonic() < ends:
            time.sleep(0.01)
        try:
            back = self._release_held() if release else 0
        except JobQueueError as error:
            back = 0
            log.error("jobs could not be released and wait to be recovered: %s", error)
        self._heart.stop()
        with self._lock:  # a beat of another thread may be about to give it a new id
            identity, self._identity = self._identity, None
            idle, self._idle = self._idle, []
        for _, waiting, wake in idle:
            waiting.close()
            wake.close()
        if identity is None:  # another thread has stopped it meanwhile
            return back
        highest, living = identity.snapshot()
        leave = claims.stop(identity.id, highest, living, list(self._seen), self._keys)
        try:
            return back + self._beats.run(leave)
        finally:
            self._beats.close()
            self._bounded.close()

    def interrupt(self) -> None:
        """Refuse new claims, and end those that wait; safe in a signal handler."""
        self._stopping = True
        for wake in list(self._wakes):
            wake.set()

    def nudge(self) -> None:
        """End a blocking claim that waits, or the next one that would: it gives None."""
        self._nudged = True
        for wake in list(self._wakes):
            wake.set()

    @reports
    def describe(self, /, **facts: Any) -> None:
        """Add to what `JobQueue.owners` shows of this owner; JSON values only.

        Raises:
            ArgumentError: a value is none; nothing is added.
        """
        self._facts.update({name: _plain(name, value) for name, value in facts.items()})
        self._describe()

    @reports
    def beat(self) -> bool:
        """Beat now; False if the owner was fenced, and has a new id."""
        return self._beat()

    # Behind them.

    @property
    def _driver(self) -> Driver:
        # That of the queue, unless it has no deadline: a peer that went silent would
        # keep a call, and a stop, for ever.
        driver = self._jq._driver
        return driver if driver.operation_timeout else self._bounded

    def _run(self, operation: Operation[T]) -> T:
        self._check_process()
        return self._driver.run(operation)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise JobQueueError(
                f"this Owner belongs to process {self._pid}; make one of your own after a fork"
            )

    def _describe(self) -> None:
        self._said = len(self._seen)
        self._beats.run(claims.describe(self._of_now().id, self._about(), self._keys))

    def _of_now(self) -> Identity:
        self._check_process()
        if self._identity is None:
            why = "was stopped" if self._stopping else "is not started"
            raise JobQueueError(f"the owner {why}")
        return self._identity

    def _register(self) -> Identity:
        tries = 0
        while True:
            identity = new_identity(self._prefix)
            self._said = len(self._seen)
            sent = suspend_clock()
            # Sent once for each id: what a lost answer started lapses by itself.
            start = claims.start(
                identity.id, self._about(), int(self.lifetime * 1000), self._keys
            )
            try:
                new = self._beats.run(start)
            except NetworkError:
                tries += 1
                if tries > 1:
                    raise
                continue
            if new:
                self._heart.good(sent)
                return identity

    def _about(self) -> bytes:
        return json.dumps(
            {
                "host": socket.gethostname(),
                "pid": self._pid,
                "since": self._since,
                "lifetime": self.lifetime,
                "max_attempts": self.max_attempts,
                "queues": [name.decode("latin-1") for name in list(self._seen)],
                **self._facts,
            }
        ).encode()

    def _beat(self) -> bool:
        while True:
            identity = self._of_now()
            highest, living = identity.snapshot()
            sent = suspend_clock()
            answer = self._beats.run(
                claims.beat(identity.id, int(self.lifetime * 1000), highest, living, self._keys)
            )
            if answer.fenced:
                with self._lock:
                    if self._identity is identity and not self._stopping:
                        log.warning(
                            "owner was fenced and takes a new id", extra={"owner": identity.name}
                        )
                        self._identity = self._register()
                return False
            self._heart.good(sent, answer.now_ms)
            identity.cancel(answer.cancelled)
            if answer.put_back:
                log.warning(
                    "claims that nobody holds were put back",
                    extra={"owner": identity.name, "jobs": answer.put_back},
                )
            if not answer.more:
                if self._said < len(self._seen):
                    self._describe()
                return True

    def _release_held(self) -> int:
        return 0


def _plain(name: str, value: Any) -> Any:
    # A copy, so that what is sent with every description can always be written.
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"Invalid argument ({name} is no JSON value: {error})") from error
