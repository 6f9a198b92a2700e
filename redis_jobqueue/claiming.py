"""How an owner takes jobs: at once, or by waiting for them."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from redis_jobqueue.arguments import count_of, names_of
from redis_jobqueue.checks import Text
from redis_jobqueue.connection import drive
from redis_jobqueue.errors import ArgumentError, JobDeletedError, JobQueueError, NetworkError
from redis_jobqueue.handle import reports
from redis_jobqueue.job import Job
from redis_jobqueue.lifecycle import Lifecycle
from redis_jobqueue.operations import claims
from redis_jobqueue.operations.claims import Claimed
from redis_jobqueue.operations.request import Request
from redis_jobqueue.waiting import Waiting, Wake, waiting_for

log = logging.getLogger("redis_jobqueue")


class Claiming(Lifecycle):
    """The part of an `Owner` that claims; see there."""

    @reports
    def claim(
        self,
        queue: Any,
        *,
        blocking: bool = False,
        timeout: float | None = None,
        mark: bool = True,
        order: str = "random",
    ) -> Job | None:
        """Claim the oldest job of a queue, or of the first of several that has one.

        Args:
            queue: a name or a list of names; paused ones are skipped.
            blocking: whether to wait for a job.
            timeout: seconds to wait; None as long as `JobQueue.timeout` says,
                0 without end.
            mark: set the status to `STATUS_WORKING` and the times, unless the
                status is a text of your own.
            order: ``random``, so that no queue starves, or ``listed``: a queue
                is looked at only if those before it are empty.

        Returns:
            A Job that is held, or None if there is none.

        Raises:
            JobDeletedError: with ``job_id``; nothing was claimed, and an entry
                whose job is gone was taken off.
            NetworkError: no answer came, twice.  A job that was claimed all
                the same is back in its queue within one beat.
            JobQueueError: the owner was stopped, also while it waited.
        """
        names = self._names(queue)
        if not blocking:
            jobs = self._claim(names, 1, mark, order, self._jq._driver.send).jobs
            return jobs[0] if jobs else None
        seconds = self._jq.timeout if timeout is None else timeout
        return self._wait_for(names, seconds, mark, order)

    @reports
    def claim_many(
        self, queue: Any, count: int, *, mark: bool = True, order: str = "random"
    ) -> list[Job]:
        """Claim up to ``count`` jobs (100 at most) at once, oldest first; [] if there is none.

        Does not wait.  Arguments and errors are those of `claim`.
        """
        many = min(count_of(count, "count"), claims.SLICE)
        return self._claim(self._names(queue), many, mark, order, self._jq._driver.send).jobs

    # Behind them.

    def _names(self, queue: Any) -> list[bytes]:
        names = names_of(queue, "queue")
        if not names:
            raise ArgumentError("Invalid argument (no queue is named)")
        return names

    def _claim(
        self, names: list[bytes], count: int, mark: bool, order: str, send: Callable[[Request], Any]
    ) -> Claimed:
        queues = _ordered(names, order)
        for name in queues:
            self._seen.setdefault(name)
        while True:
            if self._stopping:
                raise JobQueueError("the owner was stopped")
            if self._heart.lapsed():
                self._beat()
            identity = self._of_now()
            token = identity.take_token()
            claimed = Claimed(claims.LAPSED)
            try:
                request = claims.claim_request(
                    identity.id, token, queues, count, mark, self._keys
                )
                claimed = drive(
                    claims.take(request, identity.id, self, self._jq._strings), send
                )
            finally:
                identity.claimed(token, claimed.jobs)
            if claimed.standing != claims.GOOD:
                self._beat()
                continue
            self._note(names, claimed)
            gone = [job for job in claimed.jobs if not job._values["queue"] and not job._images]
            if claimed.dangling and not claimed.jobs:
                raise JobDeletedError(job_id=_shown(claimed.dangling[0]))
            if claimed.jobs or not claimed.more or gone:
                return claimed

    def _note(self, names: Sequence[bytes], claimed: Claimed) -> None:
        self.dangling = claimed.dangling
        for job_id in claimed.dangling:
            log.warning("job was removed prior to use", extra={"job_id": _shown(job_id)})
        for entry in claimed.bad:
            log.warning("an entry that can be no job's was dropped", extra={"entry": ascii(entry)})

    def _wait_for(
        self, names: list[bytes], seconds: float, mark: bool, order: str
    ) -> Job | None:
        ends = time.monotonic() + seconds if seconds else None
        again = False
        waiting, wake = self._waiting(names)
        try:
            while True:
                try:
                    claimed = self._claim(names, 1, mark, order, waiting.send)
                except NetworkError:
                    waiting.close()
                    if again:
                        raise
                    # Lost while idle: once more over a new connection.
                    again = True
                    self._wakes.discard(wake)
                    wake.close()
                    waiting, wake = self._waiting(names)
                    continue
                again = False
                if claimed.jobs:
                    return claimed.jobs[0]
                left = ends - time.monotonic() if ends is not None else 3600.0
                if left <= 0 or self._nudged:
                    self._nudged = False
                    return None
                try:
                    waiting.wait(left)
                except NetworkError:
                    waiting.close()
        finally:
            self._wakes.discard(wake)
            self._give_back(names, waiting, wake)

    def _waiting(self, names: list[bytes]) -> tuple[Waiting, Wake]:
        mine = tuple(sorted(names))
        with self._lock:
            for place, (queues, waiting, wake) in enumerate(self._idle):
                if queues == mine:
                    del self._idle[place]
                    break
            else:
                waiting = None
        if waiting is None:
            wake = Wake()
            try:
                waiting = waiting_for(
                    self._jq._driver, self._keys, names, wake, self._wait_modes
                )
            except BaseException:
                wake.close()
                raise
            self._mode = waiting.mode
        wake.clear()
        self._wakes.add(wake)
        if self._stopping:
            wake.set()
        return waiting, wake

    def _give_back(self, names: list[bytes], waiting: Waiting, wake: Wake) -> None:
        with self._lock:
            if not self._stopping and len(self._idle) < 8:
                self._idle.append((tuple(sorted(names)), waiting, wake))
                return
        waiting.close()
        wake.close()


def _ordered(names: list[bytes], order: str) -> list[bytes]:
    if order == "listed":
        return names
    if order == "random":
        return random.sample(names, len(names))
    raise ArgumentError("Invalid argument (order must be 'random' or 'listed')")


def _shown(job_id: Text) -> str:
    return job_id if isinstance(job_id, str) else job_id.decode("latin-1")
