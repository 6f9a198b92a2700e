"""Clocks of clients that are wrong, and a server's clock that jumps."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis
from sizes import Size
from support.server import Server, eventually

from chaos.fleet import QUEUE, Fleet, add_work, completed, judge
from redis_jobqueue import JobQueue
from redis_jobqueue import queue as queue_module

pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def fleet(server: Server) -> Iterator[Fleet]:
    """Return a fleet without workers yet."""
    with Fleet(server) as fleet:
        yield fleet


def test_workers_an_hour_off(
    fleet: Fleet, jq: JobQueue, raw: redis.Redis, size: Size
) -> None:
    """Owners with wrong clocks recover nobody who lives, and delays are the server's."""
    for shift in (3600, -3600, 600, 0):
        fleet.start(shift=shift, lifetime=10.0)
    fleet.start_all(4, raw)
    jobs = add_work(jq, size.chaos_jobs)
    late = [
        jq.add_job(
            {"queue": QUEUE, "expire": 3600, "workload": {"number": size.chaos_jobs + n}}, delay=1.0
        )
        for n in range(10)
    ]
    eventually(lambda: completed(jq) == len(jobs) + len(late), "all jobs done", 100)
    assert 0 == judge(jq, raw, [*jobs, *late])
    assert 0 == jq.counts([QUEUE]).queues[QUEUE].counters["recovered"]
    for job in late:
        done = jq.load_job(job)
        assert done is not None
        assert done.completed - job.created >= 1.0 - 0.001, "too early"
    fleet.stop()


@pytest.mark.parametrize("shift", [-3600, 3600, -300])
def test_a_producer_with_a_wrong_clock(
    shift: int, jq: JobQueue, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim goes by the job's hash, not by the epoch of its entry; so does recovery."""
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(queue_module.time, "time", lambda: real() + shift)
        job = jq.add_job({"queue": "q", "expire": 60})
        gone = jq.add_job({"queue": "q", "expire": 60})
    raw.delete(f"JobQueue:{gone.id}")
    owner = jq.owner(interval=300, lifetime=900).start()
    held = owner.claim("q")
    assert held is not None and job.id == held.id
    raw.zadd("JobQueue:owners:heartbeat", {owner.id: 1})
    assert 1 == jq.recover().jobs
    with jq.owner() as other:
        held = other.claim("q")
        assert held is not None and job.id == held.id
        assert [] == other.dangling
        # Of a job that is gone its entry says whether its time had come: the server's clock counts.
        if shift > 0:
            with pytest.raises(Exception) as told:
                other.claim("q")
            assert gone.id == told.value.job_id  # type: ignore[attr-defined]
        else:
            assert other.claim("q") is None
        assert 0 == jq.queue_length("q")


def test_the_entry_of_a_promoted_job_is_of_the_servers_clock(
    jq: JobQueue, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entry and time to live agree, whatever the producer's and the scheduler's clocks say."""
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(queue_module.time, "time", lambda: real() + 3600)
        job = jq.add_job({"queue": "q", "expire": 60}, delay=0)
        jq.promote_due()
    (entry,) = raw.lrange("JobQueue:queue:q", 0, -1)
    assert entry == raw.hget(f"JobQueue:{job.id}", "__id_in_queue__")
    ends = int(entry.split()[1])
    now = jq.now_ms() / 1000
    assert now + 58 <= ends <= now + 61
    assert 0 < raw.ttl(f"JobQueue:{job.id}") <= 60
