"""What is done beside the jobs, again and again: each duty for itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import attrs

from redis_jobqueue.errors import JobQueueError, RedisError

log = logging.getLogger("redis_jobqueue")

TEND = 1.0
"""Seconds between two looks whether a duty is due."""


@attrs.define(eq=False)
class Duty:
    """One thing that is to be done every so often.

    Attributes:
        do: does it.
        otherwise: what is not done while that fails, for the log.
        every: seconds.
    """

    do: Callable[[], object]
    otherwise: str
    every: float = TEND
    _due: float = attrs.field(default=0.0, init=False)
    _failing: bool = attrs.field(default=False, init=False)

    def look(self) -> None:
        """Do it if it is due; what the server refuses is logged when it begins to."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self.every
        try:
            self.do()
            self._failing = False
        except RedisError as error:
            if not self._failing:
                log.error("%s: %s", self.otherwise, error)
            self._failing = True
        except JobQueueError as error:  # of a lost connection whoever claims tells
            log.debug("%s: %s", self.otherwise, error)


class Tender:
    """Sees to duties in a thread of its own; one that fails bars no other."""

    def __init__(self, *duties: Duty) -> None:
        self._duties = duties
        self._over = threading.Event()

    def start(self) -> Tender:
        """Begin."""
        threading.Thread(target=self._run, daemon=True, name="redis_jobqueue-tend").start()
        return self

    def stop(self) -> None:
        """Begin no other duty; safe anywhere."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            for duty in self._duties:
                if not self._over.is_set():
                    duty.look()
            self._over.wait(TEND)
