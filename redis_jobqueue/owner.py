"""`Owner`: one live consumer, whose claims survive it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

from redis_jobqueue.arguments import count_of, ms_of
from redis_jobqueue.checks import Text
from redis_jobqueue.claiming import Claiming, ordered
from redis_jobqueue.errors import ClaimLostError, JobDeletedError, JobQueueError, RedisError
from redis_jobqueue.handle import reports
from redis_jobqueue.job import STATUS_COMPLETED, STATUS_CREATED, STATUS_FAILED, Job
from redis_jobqueue.lifecycle import INTERVAL, LIFETIME
from redis_jobqueue.operations import claims, finishing, recovery, schedule
from redis_jobqueue.operations.claims import SLICE, Claim, held_by
from redis_jobqueue.operations.recovery import Recovered
from redis_jobqueue.tending import Duty

log = logging.getLogger("redis_jobqueue")

MAX_ATTEMPTS = 5
"""Deliveries after which recovery buries a job whose owner set no limit of its own."""
PROMOTED = 10_000
"""Due jobs that one call of `Owner.promote_due` puts into their queues at most."""


class Owner(Claiming):
    """One live consumer of a JobQueue; see `JobQueue.owner`.

    Attributes:
        id: ``host-pid-random``, or ``prefix-random``; new after a fence.
        interval, lifetime: seconds between beats, and that one beat lasts.
        dangling: ids of entries of the last claim whose job was gone before
            its time.  They are taken off, and logged.

    Every method refuses to work in another process than the one that made the
    owner (`JobQueueError`).  Where a method takes jobs that this owner holds:

    Raises:
        ClaimLostError: the job is not held any more: it was recovered,
            released or finished.  Nothing was written.
        JobDeletedError: somebody deleted the job; its entry is taken off.
        NetworkError: no answer came, twice; the job is still held.  Repeat
            the call, or release the job.
    """

    # The main loop.

    def jobs(
        self, queue: Any, *, timeout: float = 0, mark: bool = True, order: str = "random"
    ) -> Iterator[Job]:
        """Give job after job, for the main loop of a consumer, until the owner is stopped.

        Between jobs it recovers orphans and promotes due jobs (`upkeep`).
        Ends when no job came for ``timeout`` seconds; 0 never.

        Raises:
            NetworkError, RedisError: the server cannot be asked, also when
                asked again.  What is held stays so; start a new loop (a
                `Worker` waits for the server by itself).
        """
        last = time.monotonic()
        upkeep = Duty(self.upkeep, "the namespace is not tended", self.interval)
        while not self._stopping:
            upkeep.look()
            left = last + timeout - time.monotonic() if timeout else self.interval
            if left <= 0:
                return
            try:
                job = self.claim(
                    queue, blocking=True, timeout=min(left, self.interval), mark=mark, order=order
                )
            except JobDeletedError as error:
                log.warning("job was gone before it was claimed", extra={"job_id": error.job_id})
                continue
            except JobQueueError:
                if self._stopping:
                    return
                raise
            if job is not None:
                yield job
                last = time.monotonic()

    # Ending claims.

    @reports
    def complete(
        self, job: Job, *, claim_next: Any = False, mark: bool = True, order: str = "random"
    ) -> Job | None:
        """Finish a job: status, times, result and every other change in one step.

        Args:
            job: a held job.
            claim_next: claim the next job in the same trip: True from the
                same queue, or a name or a list of names.
            mark, order: as for `claim`.

        Returns:
            The next job, or None.
        """
        if claim_next is False or claim_next is None:
            self._finish("complete", [job])
            return None
        claim, size = held_by(job), self._jq.max_datasize
        names = ordered([claim.queue] if claim_next is True else self._names(claim_next), order)
        identity = self._of_now()
        if self._stopping:
            self._finish("complete", [job])
            return None
        for name in names:
            self._seen.setdefault(name)
        if claim.owner != identity.id:  # fenced or not, it is finished under its own id
            self._finish("complete", [job])
            claimed = self._ask(names, 1, mark, self._driver.send)
            self.dangling = self._note(claimed, names)
            return claimed.jobs[0] if claimed.jobs else None
        token = identity.take_token()
        jobs: list[Job] = []
        try:
            answer, claimed = self._run(
                finishing.complete_next(
                    finishing.Ending.of("complete", job, claim, size), token, identity.id, names,
                    mark, self._keys, holder=self, strings=self._jq._strings,
                )  # fmt: skip
            )
            jobs = claimed.jobs
        finally:
            identity.claimed(token, jobs)
        self.dangling = self._note(claimed, names)
        self._ended(job, claim, "complete", answer)
        return jobs[0] if jobs else None

    @reports
    def complete_many(self, jobs: Iterable[Job]) -> None:
        """Finish several jobs, up to a hundred a trip.

        Raises:
            ClaimLostError, JobDeletedError: the first refusal; all the others
                were finished.
            NetworkError: those that are not in `held` any more were finished.
        """
        self._finish("complete", list(jobs))

    @reports
    def fail(self, job: Job, message: Text | None = None) -> None:
        """Finish a job as failed: `STATUS_FAILED`, and it does not come again."""
        if message is not None:
            job.message = message
        self._finish("fail", [job])

    @reports
    def retry(self, job: Job, delay: float = 0.0, *, limit: int | None = None) -> bool:
        """Let a job come again after ``delay`` seconds, one attempt poorer.

        Args:
            job: a held job.
            delay: seconds.
            limit: attempts at which it is buried instead; 0 for no limit, None
                for the ``max_attempts`` of the owner.

        Returns:
            False if its attempts are used up: it was buried instead.
        """
        most = self.max_attempts if limit is None else count_of(limit, "limit", least=0)
        return 2 not in self._finish("retry", [job], delay=ms_of(delay, "delay"), limit=most)

    @reports
    def bury(self, job: Job, reason: Text | None = None) -> None:
        """Put a job among the dead: `STATUS_FAILED`, kept until revived or purged."""
        if reason is not None:
            job.message = reason
        self._finish("bury", [job])

    @reports
    def requeue(self, job: Job) -> None:
        """Put a job back to the tail of its queue; costs no attempt."""
        self._finish("requeue", [job])

    @reports
    def release(self, jobs: Job | Iterable[Job]) -> int:
        """Put jobs back to the head of their queues, the first claim next; costs no attempt.

        A job that is not held any more is skipped and logged.

        Returns:
            How many went back.
        """
        return self._release([jobs] if isinstance(jobs, Job) else list(jobs))

    @reports
    def save(self, job: Job) -> int:
        """Write what was changed in a held job; returns how many fields."""
        return self._run(claims.save(job, self._keys, max_size=self._jq.max_datasize))

    @reports
    def begun(self, *jobs: Job) -> None:
        """Say that work on held jobs begins now: if the owner dies, the attempt counts."""
        for each in _by_owner(jobs):
            for first in range(0, len(each), claims.SLICE):
                part = each[first : first + claims.SLICE]
                for job, answer in zip(part, self._run(claims.begun(part, self._keys))):
                    claims.judge(job, answer)

    # Upkeep.

    @reports
    def recover(self) -> Recovered | None:
        """Bring back what dead owners held, if it is time to.

        None while this owner's own beats have not succeeded for one whole
        lifetime without a gap (after an outage everybody looks dead), or if
        another one looked within the last interval.
        """
        me = self._of_now().id
        if not self._heart.may_reap():
            return None
        if not self._run(recovery.turn(me, int(self.interval * 1000), self._keys)):
            return None
        # The server's clock may have jumped since the last beat: one of now would show it.
        if not (self._beat() and self._heart.may_reap()):
            return None
        done = self._run(recovery.recover(None, None, MAX_ATTEMPTS, self._keys))
        for owner in done.owners:
            log.warning("owner is dead, its jobs were recovered", extra={"owner": owner})
        if done.jobs or done.buried or done.dropped:
            log.warning(
                "recovered jobs of dead owners",
                extra={"jobs": done.jobs, "buried": done.buried, "dropped": done.dropped},
            )
        for queue in set(done.stuck) - self._stuck:  # once, not with every look
            log.error("nothing can be recovered into this queue: a key of it holds something else",
                      extra={"queue": queue})  # fmt: skip
        self._stuck = set(done.stuck)
        return done

    @reports
    def upkeep(self) -> None:
        """Promote due jobs, recover orphans, and tend the sets; one that fails bars no other.

        Raises:
            NetworkError, RedisError: of the first that failed.
        """
        error: JobQueueError | None = None
        for step in (self.promote_due, self.recover, self._tend_sets):
            try:
                step()
            except JobQueueError as failed:
                error = error or failed
        if error is not None:
            raise error

    def promote_due(self) -> int:
        """Put jobs that are due into their queues, in steps that are short for the server.

        Returns:
            How many; more may be due after `PROMOTED` of them.
        """
        done = 0
        while done < PROMOTED:
            more = len(self._run(schedule.promote_due(None, SLICE, self._keys)).jobs)
            done += more
            if more < SLICE:
                break
        return done

    # Behind them.

    def _tend_sets(self) -> None:
        for job_id in self._run(schedule.sweep(self._sweep, self._keys)):
            log.warning("an id without a job was dropped", extra={"job_id": job_id})

    def _finish(
        self, verb: str, jobs: list[Job], *, delay: int = 0, limit: int = 0
    ) -> list[int]:
        held, error = _held_among(jobs)
        answers: list[int] = []
        for part in finishing.slices(verb, held, self._jq.max_datasize):
            done = self._run(finishing.finish(verb, part, self._keys, delay=delay, limit=limit))
            for one, answer in zip(part, done):
                try:
                    answers.append(self._ended(one.job, one.claim, verb, answer))
                except JobQueueError as refusal:
                    error = error or refusal
        if error is not None:
            raise error
        return answers

    def _ended(self, job: Job, claim: Claim, verb: str, answer: int | RedisError) -> int:
        if isinstance(answer, RedisError):  # of this job alone, which is held as before
            raise answer
        identity = claim.holder._identity  # it may be held by another owner than this one
        if identity is not None and identity.id == claim.owner:
            identity.ended(claim.field)
        job._claim = None
        claims.judge(job, answer)
        if answer == 2:
            verb = "bury"
        job.status = _AFTER.get(verb, STATUS_CREATED)
        if verb not in _AFTER:
            job.started = 0
        job.clear_modified()
        return answer

    def _release(self, jobs: list[Job]) -> int:
        held, error = _held_among(jobs)
        if error is not None:
            log.warning(str(error))
        # The last claim goes first, so that the first one ends up at the head.
        held.sort(key=lambda pair: -int(pair[1].number))
        size = self._jq.max_datasize
        for job, _ in held:
            try:
                finishing.content(job, "release", size)
            except JobQueueError as unfit:
                log.warning("changes cannot be stored: %s", unfit, extra={"job_id": job.id})
                job.clear_modified()
        back = 0
        for part in finishing.slices("release", held, size):
            for one, answer in zip(part, self._run(finishing.finish("release", part, self._keys))):
                try:
                    self._ended(one.job, one.claim, "release", answer)
                    back += 1
                except JobQueueError as refusal:
                    log.warning(str(refusal), extra={"job_id": one.job.id})
        return back

    def _release_held(self) -> int:
        return self._release(self.held)


_AFTER = {"complete": STATUS_COMPLETED, "fail": STATUS_FAILED, "bury": STATUS_FAILED}


def _held_among(jobs: Iterable[Job]) -> tuple[list[tuple[Job, Claim]], JobQueueError | None]:
    """Give those that are held, each once, and the refusal of the first that is not.

    The claims are looked up here and once: another thread may end one meanwhile.
    """
    held: dict[int, tuple[Job, Claim]] = {}
    error: JobQueueError | None = None
    for job in jobs:
        try:
            held[id(job)] = job, held_by(job)
        except ClaimLostError as refusal:
            error = error or refusal
    return list(held.values()), error


def _by_owner(jobs: Iterable[Job]) -> list[list[Job]]:
    groups: dict[bytes, list[Job]] = {}
    for job in jobs:
        groups.setdefault(held_by(job).owner, []).append(job)
    return list(groups.values())


__all__ = ["INTERVAL", "LIFETIME", "MAX_ATTEMPTS", "Owner"]
