"""What a queue can do beyond Perl: owners, schedules, steering, and looking.

`JobQueue` inherits this; everything here works on keys that Perl does not see.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from redis_jobqueue.arguments import (
    Name,
    count_of,
    id_of,
    ms_of,
    name_of,
    names_of,
    new_id,
    queue_of,
)
from redis_jobqueue.checks import Text
from redis_jobqueue.errors import ArgumentError
from redis_jobqueue.handle import Handle, reports
from redis_jobqueue.job import Job
from redis_jobqueue.operations import control, jobs, overview, recovery, schedule
from redis_jobqueue.operations.control import Concurrency
from redis_jobqueue.operations.overview import Counts, Health, Listed, OwnerInfo, Place
from redis_jobqueue.operations.recovery import Recovered
from redis_jobqueue.operations.request import Command
from redis_jobqueue.operations.schedule import Promoted
from redis_jobqueue.owner import INTERVAL, LIFETIME, MAX_ATTEMPTS, Owner
from redis_jobqueue.waiting import MODES
from redis_jobqueue.watching import wait_for_end


def _page(page: int, page_size: int) -> tuple[int, int]:
    return count_of(page, "page"), count_of(page_size, "page_size")


class Management(Handle):
    """The part of `JobQueue` that Perl does not have."""

    # Owners and recovery.

    def owner(
        self,
        *,
        id: Text | None = None,
        interval: float = INTERVAL,
        lifetime: float = LIFETIME,
        max_attempts: int = 0,
        wait_modes: Iterable[str] = tuple(MODES),
    ) -> Owner:
        """Make an `Owner`; ``with jq.owner() as owner`` starts and stops it.

        Where this queue has no ``operation_timeout``, a request of the owner
        is given up after 5 s without an answer; those that claim and finish
        are then sent once more, which does what they do once.

        Args:
            id: a prefix for its id; a random part is always added.
            interval: seconds between two beats.
            lifetime: seconds after which it counts as dead; at least as long
                as its process may ever stand still.
            max_attempts: failed deliveries at which a job is buried; 0: no
                limit for `Owner.retry`, 5 for `recover`.
            wait_modes: the ways to wait that may be tried, in order.

        Raises:
            ArgumentError: code 0; a value does not fit.
        """
        return Owner(
            self, id=id, interval=interval, lifetime=lifetime, max_attempts=max_attempts,
            wait_modes=tuple(wait_modes),
        )  # fmt: skip

    @reports
    def recover(
        self, queue: Name | None = None, owner: Name | None = None, *,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> Recovered:  # fmt: skip
        """Bring back, now, what dead owners hold; a live owner's jobs are never touched.

        This is the operator's call: it looks once and acts.  Right after an
        outage everybody looks dead; `Owner.recover` waits that out.

        Args:
            queue: only lists of this queue, and its list without an owner.
            owner: only lists of this owner.
            max_attempts: where an owner set no limit; 0 for none.
        """
        return self._run(
            recovery.recover(
                None if queue is None else queue_of(queue),
                None if owner is None else name_of(owner, "owner"),
                count_of(max_attempts, "max_attempts", least=0),
                self._keys,
            )
        )

    @reports
    def live_owners(self) -> list[str]:
        """Give the ids of the owners whose beat is good; reading never prunes."""
        return [owner.id for owner in self._run(overview.owners(self._keys)) if owner.live]

    @reports
    def owners(self) -> list[OwnerInfo]:
        """Describe every owner that left a trace, dead ones too."""
        return self._run(overview.owners(self._keys))

    @reports
    def now_ms(self) -> int:
        """Give the server's time in ms since 1970: the clock of every beat and delay."""
        seconds, micros = self._driver.send(Command((b"TIME",)))
        return int(seconds) * 1000 + int(micros) // 1000

    # Delayed, retrying and dead jobs.

    @reports
    def add_jobs(
        self, jobs: Iterable[Job | Mapping[str, Any]], batch_size: int = 1000, *, LPUSH: Any = False
    ) -> list[Job]:
        """Add many jobs, in slices that are all or nothing.

        Args:
            jobs: Jobs, or mappings to make them from.
            batch_size: jobs in a slice at most.
            LPUSH: put them in front, the last one to be taken next.

        A slice has at most ``batch_size`` jobs, and never more than 100 jobs
        or 1 MB.  All jobs are checked and frozen before any is sent.

        Returns:
            The jobs with their new ids, in order.

        Raises:
            JobQueueError: as `JobQueue.add_job`, with ``added`` (ids that are
                there) and ``unknown`` (ids whose answer did not come: all of
                them were added, or none).
        """
        todo: list[Job] = []
        for job in jobs:
            if not isinstance(job, (Job, Mapping)):
                raise ArgumentError("Invalid argument (a job is a Job or a mapping)")
            todo.append(job if isinstance(job, Job) else Job(job))
        if len({id(job) for job in todo}) < len(todo):
            raise ArgumentError("Invalid argument (one Job stands twice among the jobs)")
        return self._run(
            control.add_jobs(
                todo, self._keys, new_id=new_id, now=time.time(),
                batch_size=count_of(batch_size, "batch_size"), front=bool(LPUSH),
                max_size=self._max_datasize,
            )  # fmt: skip
        )

    @reports
    def promote_due(self, queue: Name | None = None, limit: int = 50) -> Promoted:
        """Put delayed and retrying jobs that are due into their queues, retries first.

        Due by the server's clock.  Any number of processes may do this at
        once: no job is promoted twice.

        Args:
            queue: only jobs of this queue.
            limit: jobs at most.
        """
        only = None if queue is None else queue_of(queue)
        return self._run(schedule.promote_due(only, count_of(limit, "limit"), self._keys))

    @reports
    def due(self, limit: int = 50, *, remove: bool = False) -> list[Text]:
        """Give ids of delayed jobs that are due, the longest waiting first.

        With ``remove`` they are taken off the set and stand nowhere any more:
        the caller answers for them.  Their time to live begins, as their
        ``expire`` says.

        Raises:
            NetworkError: with ``remove``, the answer may be lost with up to 500
                ids in it: their jobs are in no place then, and `locate` finds
                them nowhere.
        """
        return self._run(schedule.due(count_of(limit, "limit"), remove, self._keys))

    @reports
    def revive(self, job: Job | Name) -> bool:
        """Put a dead job back to the tail of its queue, with its attempts forgotten.

        Returns:
            False if it is not among the dead, or its data is gone.
        """
        return self._run(schedule.revive(id_of(job), self._keys))

    @reports
    def purge_dead(self, older_than: float = 0.0, *, keep: int = 0) -> int:
        """Delete dead jobs that died more than ``older_than`` seconds ago.

        Args:
            older_than: seconds.
            keep: the latest so many stay in any case.

        Returns:
            How many were deleted.
        """
        age = ms_of(older_than, "older_than")
        return self._run(schedule.purge_dead(age, count_of(keep, "keep", least=0), self._keys))

    @reports
    def delayed(self, page: int = 1, page_size: int = 200) -> list[Listed]:
        """List a page of the delayed jobs, the next one due first."""
        return self._run(overview.scored(self._keys.delayed, *_page(page, page_size), self._keys))

    @reports
    def retrying(self, page: int = 1, page_size: int = 200) -> list[Listed]:
        """List a page of the jobs that failed and come again, the next one due first."""
        return self._run(overview.scored(self._keys.retry, *_page(page, page_size), self._keys))

    @reports
    def dead(self, page: int = 1, page_size: int = 200) -> list[Listed]:
        """List a page of the dead jobs, the longest dead first."""
        return self._run(overview.scored(self._keys.dead, *_page(page, page_size), self._keys))

    # Steering.

    @reports
    def pause(self, queue: Name, *, expected: bool | None = None) -> bool:
        """Let claims skip a queue; Perl's and our own `get_next_job` do not see it.

        Args:
            queue: a name.
            expected: change it only if this is still its state.

        Returns:
            False if its state was not the expected one.
        """
        return self._run(control.set_paused(queue_of(queue), True, expected, self._keys))

    @reports
    def resume(self, queue: Name, *, expected: bool | None = None) -> bool:
        """End a pause; waiting owners wake at once.  Arguments and result as `pause`."""
        return self._run(control.set_paused(queue_of(queue), False, expected, self._keys))

    @reports
    def is_paused(self, queue: Name) -> bool:
        """Tell whether claims skip a queue."""
        return self._run(control.is_paused(queue_of(queue), self._keys))

    @reports
    def set_concurrency(self, queue: Name, count: int) -> Concurrency:
        """Say how many workers a queue should have; a running Worker follows it."""
        number = count_of(count, "count", least=0)
        return self._run(control.set_concurrency(queue_of(queue), number, self._keys))

    @reports
    def desired_concurrency(self, queue: Name) -> Concurrency | None:
        """Give how many workers a queue should have, and when that was set; None if never."""
        return self._run(control.desired_concurrency(queue_of(queue), self._keys))

    @reports
    def cancel(self, job: Job | Name) -> str | None:
        """Cancel a job.

        Returns:
            ``"deleted"`` if it waited, was delayed or was to be retried: it is
            gone.  ``"told"`` if an owner holds it: ``job.cancelled`` is true
            with the owner's next beat.  None if it neither waits nor is held.
        """
        return self._run(control.cancel(id_of(job), self._keys))

    @reports
    def clear_queue(self, *queues: Name) -> int:
        """Delete the jobs that wait in these queues; returns how many."""
        names = names_of(list(queues), "queue")
        return sum(self._run(control.clear_queue(name, self._keys)) for name in names)

    # Looking.

    @reports
    def counts(self, queues: Any = None) -> Counts:
        """Count everything, or these queues, in one pipelined read."""
        names = None if queues is None else names_of(queues, "queue")
        return self._run(overview.counts(names, self._keys))

    @reports
    def metrics(self, queues: Any = None) -> dict[str, Any]:
        """Give `counts` as plain dicts and numbers, for a monitoring system."""
        names = None if queues is None else names_of(queues, "queue")
        return attrs.asdict(self._run(overview.counts(names, self._keys)))

    @reports
    def locate(self, job: Job | Name) -> list[Place]:
        """Give every place that holds a job: one or none where all is well.

        It looks at one place after the other, which is not one moment.  So where
        it finds none or several it looks once more; a job that moves on all the
        while may still be missed, or found in two places.
        """
        return self._run(overview.locate(id_of(job), self._keys))

    @reports
    def waiting(self, queue: Name, page: int = 1, page_size: int = 200) -> list[Listed]:
        """List a page of a queue, the next job first."""
        return self._run(overview.waiting(queue_of(queue), *_page(page, page_size), self._keys))

    @reports
    def processing(
        self, queue: Name | None = None, page: int = 1, page_size: int = 200
    ) -> list[Listed]:
        """List a page of what owners hold, of one queue or all, the latest claim first."""
        only = None if queue is None else queue_of(queue)
        return self._run(overview.processing(only, *_page(page, page_size), self._keys))

    @reports
    def find_jobs(self, ids: Iterable[Name]) -> dict[Text, Job | None]:
        """Load jobs by their ids; None for those that are gone."""
        wanted = [id_of(job_id) for job_id in ids]
        return self._run(overview.find_jobs(wanted, self._keys, self._strings))

    @reports
    def health(self) -> Health:
        """Measure and describe the server.

        Raises:
            NetworkError: it does not answer.
        """
        started = time.perf_counter()
        self._driver.send(Command((b"PING",)))
        latency = time.perf_counter() - started
        report = self._run(overview.info(self._keys))
        snapshots = self._run(overview.snapshots(self._keys))
        return Health(
            latency,
            report.get("redis_version", ""),
            report.get("role", ""),
            int(report.get("used_memory", 0)),
            int(report.get("maxmemory", 0)),
            report.get("maxmemory_policy", ""),
            True if report.get("aof_enabled") == "1" else snapshots,
            self._run(overview.has_lmove(self._keys)),
            self._driver.address.pool_size,
            self._driver.in_use,
        )

    @reports
    def wait(self, job: Job | Name, timeout: float | None = None) -> Job | None:
        """Wait until a job is completed, failed or gone, whoever works on it.

        Looks a few times, then lets the server tell of changes, over two
        connections of its own; where that is refused it looks on, with pauses
        that grow to half a second.

        Args:
            job: an id or a Job.
            timeout: seconds; None or 0 without end.

        Returns:
            The Job as it is then, also when the time is over before it ended;
            None if it is gone.
        """
        job_id = id_of(job)
        seconds = 0.0 if timeout is None else ms_of(timeout, "timeout") / 1000
        wait_for_end(self._driver, self._keys, job_id, seconds)
        return self._run(jobs.load_job(job_id, self._keys, self._strings))
