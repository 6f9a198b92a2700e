"""Pause holds every kind of job, also from those who wait already, until it ends."""

from __future__ import annotations

import threading

import attrs
import pytest
import redis
from support.server import eventually

from redis_jobqueue import Job, JobQueue, Owner
from redis_jobqueue.waiting import MODES


@attrs.define(eq=False)
class Waiters:
    """Owners that wait for jobs of two queues, each in its thread, and complete them."""

    owners: list[Owner]
    done: list[Job] = attrs.field(factory=list)
    _threads: list[threading.Thread] = attrs.field(factory=list)

    def _consume(self, owner: Owner) -> None:
        for job in owner.jobs(["q", "other"]):
            self.done.append(job)
            owner.complete(job)

    def __enter__(self) -> Waiters:
        for owner in self.owners:
            self._threads.append(threading.Thread(target=self._consume, args=(owner.start(),)))
            self._threads[-1].start()
        eventually(lambda: all(owner._wakes for owner in self.owners), "everybody waits")
        return self

    def __exit__(self, *failure: object) -> None:
        for owner in self.owners:
            owner.interrupt()
        for thread in self._threads:
            thread.join()
        for owner in self.owners:
            owner.stop()

    def ids(self) -> set[object]:
        """Give the ids of what was done."""
        return {job.id for job in self.done}


@pytest.mark.parametrize("mode", list(MODES))
def test_nothing_runs_until_resume(mode: str, jq: JobQueue, raw: redis.Redis) -> None:
    """Waiting, delayed, retrying and orphaned jobs come due: none starts before resume."""
    dead = jq.owner(interval=300, lifetime=900).start()
    paused = jq.add_jobs([{"queue": "q", "expire": 600}] * 2)
    held = dead.claim_many("q", 2)
    owners = [jq.owner(interval=30, lifetime=900, wait_modes=[mode]) for _ in range(4)]
    with Waiters(owners) as waiters:
        assert jq.pause("q")
        paused += [jq.add_job({"queue": "q", "expire": 600}) for _ in range(10)]
        paused.append(jq.add_job({"queue": "q", "expire": 600}, delay=0))
        dead.retry(held[0])
        raw.zadd("JobQueue:owners:heartbeat", {dead.id: 1})
        assert 1 == jq.recover().jobs
        moved = 0
        while moved < 2:
            moved += len(jq.promote_due().jobs)
        assert len(paused) == jq.queue_length("q")
        for _ in range(5):  # each of these would wake a waiter that does not look at the pause
            seen = jq.add_job({"queue": "other", "expire": 600})
            eventually(lambda seen=seen: seen.id in waiters.ids(), "the other queue is served")
            assert {"other"} == {job.queue for job in waiters.done}
        assert jq.resume("q")
        eventually(lambda: {job.id for job in paused} <= waiters.ids(), "all run after resume")
    assert len(paused) + 5 == len(waiters.done)
