"""How an owner takes jobs: at once, or by waiting for them."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any

from redis_jobqueue.arguments import count_of, ms_of, names_of
from redis_jobqueue.checks import Text
from redis_jobqueue.connection import drive
from redis_jobqueue.errors import ArgumentError, JobDeletedError, JobQueueError
from redis_jobqueue.handle import reports
from redis_jobqueue.job import Job
from redis_jobqueue.keys import text
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
            queue: a name or a list of names; paused ones are skipped, and (logged
                once) those of which a key holds something else.
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
            jobs = self._claim(names, 1, mark, order, self._driver.send)
            return jobs[0] if jobs else None
        seconds = self._jq.timeout if timeout is None else ms_of(timeout, "timeout") / 1000
        return self._wait_for(names, seconds, mark, order)

    @reports
    def claim_many(
        self, queue: Any, count: int, *, mark: bool = True, order: str = "random"
    ) -> list[Job]:
        """Claim up to ``count`` jobs (100 at most) at once, oldest first; [] if there is none.

        Does not wait.  It takes no further job once those that it has are more
        than 1 MB, so fewer than ``count`` need not mean that the queue is empty.
        Arguments and errors are those of `claim`.
        """
        many = min(count_of(count, "count"), claims.SLICE)
        return self._claim(self._names(queue), many, mark, order, self._driver.send)

    # Behind them.

    def _names(self, queue: Any) -> list[bytes]:
        names = names_of(queue, "queue")
        if not names:
            raise ArgumentError("Invalid argument (no queue is named)")
        return names

    def _claim(
        self, names: list[bytes], count: int, mark: bool, order: str, send: Callable[[Request], Any]
    ) -> list[Job]:
        queues = ordered(names, order)
        for name in queues:
            self._seen.setdefault(name)
        dangling: list[Text] = []
        while True:
            claimed = self._ask(queues, count, mark, send)
            dangling += self._note(claimed, queues)
            self.dangling = dangling
            if claimed.jobs:
                return claimed.jobs
            if not claimed.more:
                break
        if dangling:
            raise JobDeletedError(job_id=_shown(dangling[0]))
        return []

    def _ask(
        self, queues: list[bytes], count: int, mark: bool, send: Callable[[Request], Any]
    ) -> Claimed:
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
            if claimed.standing == claims.GOOD:
                return claimed
            self._beat()

    def _note(self, claimed: Claimed, queues: list[bytes]) -> list[Text]:
        if claimed.standing == claims.GOOD:
            unfit = set(claimed.unfit)
            for name in unfit - self._unfit:  # once, not with every look
                log.error("nothing can be claimed from this queue: a key of it holds "
                          "something else", extra={"queue": text(name)})  # fmt: skip
            self._unfit = self._unfit.difference(queues) | unfit
        for job_id in claimed.dangling:
            log.warning("job was removed prior to use", extra={"job_id": _shown(job_id)})
        for entry in claimed.bad:
            log.warning("an entry that can be no job's was dropped", extra={"entry": ascii(entry)})
        return claimed.dangling

    def _wait_for(
        self, names: list[bytes], seconds: float, mark: bool, order: str
    ) -> Job | None:
        ends = time.monotonic() + seconds if seconds else None
        waiting, wake = self._waiting(names)

        def send(request: Request) -> Any:
            # The repeat of a request that cost the connection goes another way.
            return (self._driver if waiting.closed else waiting).send(request)

        try:
            while True:
                jobs = self._claim(names, 1, mark, order, send)
                if jobs:
                    return jobs[0]
                left = ends - time.monotonic() if ends is not None else 3600.0
                if left <= 0 or self._take_nudge():
                    return None
                try:
                    waiting.wait(left)
                except JobQueueError:
                    if not waiting.closed:
                        raise
                wake.clear()
                if self._take_nudge():  # with no claim more: whoever nudged may want none
                    return None
                if waiting.closed and not self._stopping:
                    waiting.close()  # what is left of it
                    waiting = self._open(names, wake)
        finally:
            self._wakes.discard(wake)
            self._give_back(names, waiting, wake)

    def _take_nudge(self) -> bool:
        nudged, self._nudged = self._nudged, False
        return nudged

    def _open(self, names: list[bytes], wake: Wake) -> Waiting:
        waiting = waiting_for(self._driver, self._keys, names, wake, self._wait_modes)
        self._mode = waiting.mode
        return waiting

    def _waiting(self, names: list[bytes]) -> tuple[Waiting, Wake]:
        self._check_process()  # an idle one of the parent's must be left alone
        mine = tuple(sorted(names))
        with self._lock:
            for place, (queues, waiting, wake) in enumerate(self._idle):
                if queues == mine:
                    del self._idle[place]
                    break
            else:
                waiting, wake = None, Wake()
        self._wakes.add(wake)
        if waiting is None:
            try:
                waiting = self._open(names, wake)
            except BaseException:
                self._wakes.discard(wake)
                wake.close()
                raise
        wake.clear()  # whoever woke it said why before
        return waiting, wake

    def _give_back(self, names: list[bytes], waiting: Waiting, wake: Wake) -> None:
        with self._lock:
            if not self._stopping and not waiting.closed and len(self._idle) < 8:
                self._idle.append((tuple(sorted(names)), waiting, wake))
                return
        waiting.close()
        wake.close()


def ordered(names: list[bytes], order: str) -> list[bytes]:
    """Give the queues in the order in which they are looked at."""
    if order == "listed":
        return names
    if order == "random":
        return random.sample(names, len(names))
    raise ArgumentError("Invalid argument (order must be 'random' or 'listed')")


def _shown(job_id: Text) -> str:
    return job_id if isinstance(job_id, str) else job_id.decode("latin-1")
