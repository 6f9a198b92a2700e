"""A server without memory refuses what adds, whole, and lets everything else drain it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from support.server import Server

from redis_jobqueue import Job, JobQueue, MaxMemoryError

LIMIT = 6 << 20
BIG = "x" * 20_000


@pytest.fixture
def jq(own_server: Server) -> Iterator[JobQueue]:
    """Return a queue on a server of a few MB."""
    with own_server.client() as client:
        client.config_set("maxmemory", LIMIT)
    with JobQueue(own_server.url) as queue:
        yield queue


@pytest.fixture
def raw(own_server: Server) -> Iterator[redis.Redis]:
    """Return a plain client on it."""
    with own_server.client() as client:
        yield client


def fill(jq: JobQueue, raw: redis.Redis) -> list[Job]:
    """Add jobs to one delayed, until the server takes none; nothing is left half written."""
    jobs: list[Job] = []
    while True:
        try:
            jobs.append(jq.add_job({"queue": "q", "expire": 600, "workload": BIG}))
        except MaxMemoryError:
            break
    for add in (
        lambda: jq.add_job({"queue": "q", "expire": 600, "workload": BIG}, delay=0),
        lambda: jq.add_jobs([{"queue": "q", "expire": 600, "workload": BIG}] * 3),
    ):
        with pytest.raises(MaxMemoryError):
            add()
    assert len(jobs) == jq.queue_length("q")
    assert 1 == raw.zcard("JobQueue:delayed:jobs")
    assert len(jobs) + 1 == len(raw.keys("JobQueue:*-*-*-*-*"))
    return jobs


def top_up(jq: JobQueue, raw: redis.Redis, padding: list[bytes]) -> None:
    """Let foreign keys take what was freed meanwhile."""
    while True:
        try:
            key = b"foreign:%d" % len(padding)
            raw.set(key, b"y" * 5_000)
            padding.append(key)
        except redis.exceptions.OutOfMemoryError:
            return


def test_everything_but_adding_drains(jq: JobQueue, raw: redis.Redis) -> None:
    """Owners start, beat, claim, end claims in every way, are recovered, and stop."""
    waiting = jq.add_job({"queue": "later", "expire": 600}, delay=0)
    jobs = fill(jq, raw)
    padding: list[bytes] = []

    def full() -> None:
        top_up(jq, raw, padding)
        with pytest.raises(MaxMemoryError):
            jq.add_job({"queue": "q", "expire": 600, "workload": BIG})

    owner = jq.owner(interval=300, lifetime=900, max_attempts=3).start()
    for verb in ("complete", "fail", "bury", "retry", "requeue", "release"):
        full()
        job = owner.claim("q")
        assert job is not None
        assert owner.beat()
        full()
        job.begun()
        getattr(owner, verb)(job)
    full()
    assert {waiting.id} < set(jq.promote_due().jobs)
    full()
    assert jq.pause("q") and owner.claim("q") is None
    full()
    assert jq.resume("q") and 3 == jq.set_concurrency("q", 3).count
    held = owner.claim_many("q", 50)
    assert 50 == len(held)
    full()
    assert owner.complete(held[0], claim_next="q") is not None
    assert "told" == jq.cancel(held[1].id)
    full()
    owner.begun(*held[1:])
    raw.config_set("maxmemory", 0)
    raw.zadd("JobQueue:owners:heartbeat", {owner.id: 1})
    raw.config_set("maxmemory", LIMIT)
    full()
    assert 50 == jq.recover().jobs, "what was claimed with the completion, too"
    full()
    (dead,) = jq.dead()
    assert jq.revive(dead.id)
    full()
    job = jq.get_next_job(queue="later")
    assert job is not None and waiting.id == job.id
    assert jq.delete_job(job)
    with jq.owner() as last:
        left = jq.queue_length("q")
        assert 0 < left <= len(jobs)
        done = 0
        while (job := last.claim("q")) is not None:
            top_up(jq, raw, padding)
            last.complete(job)
            done += 1
        assert left == done
    raw.delete(b"foreign", *padding)
    for job in jobs:
        jq.delete_job(job)
    assert not raw.exists("JobQueue:owners:lists", "JobQueue:attempts:jobs")
    jq.add_job({"queue": "q", "expire": 600, "workload": "small"})
