"""Names that look like parts of other names: nothing of one queue is taken for another's."""

from __future__ import annotations

import pytest
import redis

from redis_jobqueue import Job, JobQueue, Owner

NAMES = [
    "a", "a:b", "a:b:c", "a ", " a", "a b", ":", "a:", ":a", "*", "a*", "[a]", "a\\", "queue:a",
    "processing:a", "0", b"caf\xe9", b"\xff\x00\n", "a" * 500,
]  # fmt: skip
"""Queues that live beside each other; one is often the other's start."""


def lapse(raw: redis.Redis, owner: Owner) -> None:
    """Let an owner look dead."""
    raw.zadd("JobQueue:owners:heartbeat", {owner.id: 1})


def fill(jq: JobQueue) -> dict[str | bytes, list[Job]]:
    """Add to each queue a job that waits, and one that is due."""
    return {
        name: [
            jq.add_job({"queue": name, "expire": 600}),
            jq.add_job({"queue": name, "expire": 600}, delay=0),
        ]
        for name in NAMES
    }


def test_a_life_in_every_queue(jq: JobQueue, raw: redis.Redis) -> None:
    """Added, promoted, held, recovered, listed and completed, each in its own queue."""
    jobs = fill(jq)
    for name in NAMES:
        assert [jobs[name][1].id] == jq.promote_due(name).jobs
    owner = jq.owner(interval=300, lifetime=900).start()
    for name in NAMES:
        held = owner.claim_many(name, 10)
        assert [job.id for job in jobs[name]] == [job.id for job in held]
        assert [name] == list({job.queue for job in held})
        assert {job.id for job in held} == {row.id for row in jq.processing(name)}
        assert {owner.id} == {row.owner for row in jq.processing(name)}
        owner.release(held[0])
        owner.retry(held[1])
        assert [jobs[name][0].id] == [row.id for row in jq.waiting(name)]
    for name in NAMES:
        assert [jobs[name][1].id] == jq.promote_due(name).jobs
    held = owner.claim_many(NAMES, 100, order="listed")
    assert 2 * len(NAMES) == len(held)
    lapse(raw, owner)
    for done, name in enumerate(NAMES, 1):
        assert 2 == jq.recover(name).jobs
        assert [job.id for job in jobs[name]] == [row.id for row in jq.waiting(name)]
        assert 2 * (len(NAMES) - done) == len(jq.processing(page_size=1000))
        places = jq.locate(jobs[name][0])
        assert [("waiting", name)] == [(place.kind, place.queue) for place in places]
    with jq.owner() as last:
        for name in NAMES:
            jq.pause(name)
            assert last.claim(name) is None
            jq.resume(name)
            for job in last.claim_many(name, 10):
                last.complete(job)
    counts = jq.counts(NAMES).queues
    assert {2} == {counts[name].counters["completed"] for name in NAMES}
    assert not raw.exists("JobQueue:owners:lists", "JobQueue:attempts:jobs")


def test_clearing_one_leaves_the_others(jq: JobQueue) -> None:
    """Each queue is cleared by itself."""
    jobs = fill(jq)
    for name in NAMES:
        assert 1 == jq.clear_queue(name)
        assert jq.load_job(jobs[name][0]) is None
        assert jq.load_job(jobs[name][1]) is not None
    assert len(NAMES) == len(jq.promote_due(limit=100).jobs)


@pytest.mark.parametrize("alive", [True, False])
def test_a_queue_named_like_an_owners_list(
    alive: bool, jq: JobQueue, raw: redis.Redis
) -> None:
    """The list without an owner of queue ``a:<owner>`` is the list of that owner of queue ``a``."""
    held_by = jq.owner(interval=300, lifetime=900).start()
    job = jq.add_job({"queue": "a", "expire": 600})
    held = held_by.claim("a")
    assert held is not None and job.id == held.id
    lookalike = f"a:{held_by.id}"
    if not alive:
        lapse(raw, held_by)
    before = {key: raw.dump(key) for key in raw.keys("*")}
    done = jq.recover(lookalike)
    assert (0, 0, 0) == (done.jobs, done.buried, done.dropped)
    assert 0 == jq.queue_length(lookalike)
    assert [] == jq.processing(lookalike)
    if alive:
        assert before == {key: raw.dump(key) for key in raw.keys("*")}
        held_by.complete(held)
    else:
        assert 1 == jq.recover().jobs
        assert [job.id] == [row.id for row in jq.waiting("a")]


def test_the_list_without_an_owner(jq: JobQueue, raw: redis.Redis) -> None:
    """Entries of a home-made consumer come back only when no owner lives at all."""
    names = ["a:b", "a", b"caf\xe9"]
    jobs = {name: jq.add_job({"queue": name, "expire": 600}) for name in names}
    for name in names:
        key = name if isinstance(name, bytes) else name.encode()
        raw.lmove(b"JobQueue:queue:" + key, b"JobQueue:processing:" + key)
    owner = jq.owner(interval=300, lifetime=900).start()
    assert [0] * 3 == [jq.recover(name).jobs for name in names]
    owner.stop()
    assert 0 == jq.recover().jobs, "only a queue that is named has its list looked at"
    for name in names:
        assert 1 == jq.recover(name).jobs
        assert [jobs[name].id] == [row.id for row in jq.waiting(name)]
