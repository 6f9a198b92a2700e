"""The heartbeat of an owner: a thread that job code cannot starve by failing.

A beat that fails is tried again soon, and logged once, not in a loop.  The
clocks here count the time that a machine is suspended: an owner that slept
through its lifetime must know that it is dead.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Protocol

from redis_jobqueue.errors import JobQueueError

log = logging.getLogger("redis_jobqueue")

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)

JUMP = 1.0
"""Seconds by which the server's clock may differ from ours between beats; more is a jump."""


def suspend_clock() -> float:
    """Give seconds on a clock that never goes back and does not stop in suspend."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Beating(Protocol):
    """What a heart beats for."""

    interval: float
    lifetime: float

    def _beat(self) -> bool:
        """Send one beat."""


class Heart:
    """Beats for an owner, and judges from its own beats what it may do."""

    def __init__(self, owner: Beating) -> None:
        # Weakly: an owner that nobody refers to any more ends its beat, and lapses.
        self._owner = weakref.ref(owner)
        self._interval, self._lifetime = owner.interval, owner.lifetime
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._last_good = suspend_clock()
        self._unbroken_since: float | None = None
        self._offset: float | None = None

    def start(self) -> None:
        """Start the thread."""
        self._ended.clear()
        self._thread = threading.Thread(target=self._loop, name="redis_jobqueue-beat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for a beat that is under way."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def good(self, sent: float, server_ms: int | None = None) -> None:
        """Note that a beat which was sent at that time has succeeded."""
        with self._lock:
            gap = sent - self._last_good > self._lifetime / 2 + self._interval
            if server_ms is not None:
                offset = server_ms / 1000 - suspend_clock()
                jumped = self._offset is not None and abs(offset - self._offset) > JUMP
                self._offset = offset
                gap = gap or jumped
            if gap or self._unbroken_since is None:
                self._unbroken_since = sent
            self._last_good = max(self._last_good, sent)

    def failed(self) -> None:
        """Note that a beat has failed: everybody else's may have failed as well."""
        with self._lock:
            self._unbroken_since = None

    def lapsed(self) -> bool:
        """Tell whether the owner must count itself as dead until a beat succeeds."""
        return suspend_clock() - self._last_good >= self._lifetime

    def may_reap(self) -> bool:
        """Tell whether its beats have succeeded for one whole lifetime without a gap."""
        with self._lock:
            since = self._unbroken_since
            return (
                since is not None
                and not self.lapsed()
                and suspend_clock() - since >= self._lifetime
            )

    def _loop(self) -> None:
        pause = self._interval
        silent = False
        while not self._ended.wait(pause):
            if (owner := self._owner()) is None:
                return
            try:
                owner._beat()
            except JobQueueError as error:
                self.failed()
                if not silent:
                    log.error("a beat failed and is tried again: %s", error)
                silent, pause = True, min(self._interval / 5, 1.0)
            except Exception:  # whatever it is, the heart goes on
                self.failed()
                if not silent:
                    log.exception("a beat failed and is tried again")
                silent, pause = True, min(self._interval / 5, 1.0)
            else:
                if silent:
                    log.warning("beats succeed again")
                silent, pause = False, self._interval
            finally:
                del owner
