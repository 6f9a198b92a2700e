"""Delayed, retrying and dead jobs: kept while they wait, promoted once and in order."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable

import pytest
import redis
from support.server import Server, eventually
from support.watching import watched

from claims.tools import (
    ATTEMPTS,
    DEAD,
    DELAYED,
    LONG,
    PREFIX,
    RETRY,
    Caller,
    add,
    add_many,
    claimed,
    drain,
    entries,
    ids,
    let_die,
    make_due,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import ArgumentError, Job, JobQueue, Owner
from redis_jobqueue.operations.schedule import Sweep


LATER = itertools.count(1000)
"""Seconds: each is due after the one before."""


def later(jq: JobQueue, queue: str = "q", delay: float | None = None) -> str:
    """Add a delayed job and give its id."""
    seconds = next(LATER) if delay is None else delay
    return str(jq.add_job({"queue": queue, "expire": LONG}, delay=seconds).id)


def perl_deletes(client: redis.Redis, job_id: str) -> None:
    """Delete a job as the Perl module does: its entry off its queue, and its hash."""
    queue, entry = client.hmget(PREFIX + job_id, "queue", "__id_in_queue__")
    assert queue and entry
    client.lrem(queue_key(queue.decode()), 0, entry)
    client.delete(PREFIX + job_id)


def perl_updates(client: redis.Redis, job_id: str) -> None:
    """Update a job as the Perl module does: its time to live starts anew."""
    client.expire(PREFIX + job_id, LONG)
    client.hset(PREFIX + job_id, "message", "updated")


# Adding.


def test_add_with_a_delay(jq: JobQueue, client: redis.Redis) -> None:
    """It waits under its time by the server's clock, without a time to live."""
    before = jq.now_ms()
    job = jq.add_job(Job(queue="q", expire=60, workload=[1]), delay=100.25)
    after = jq.now_ms()
    score = client.zscore(DELAYED, str(job.id))
    assert before + 100_250 <= score <= after + 100_250
    assert -1 == client.ttl(PREFIX + str(job.id))
    found = stored(client, job)
    assert ("q", "__created__", "60") == (found["queue"], found["status"], found["expire"])
    # The epoch is that of the moment of promotion.
    assert f"{job.id} {int(score / 1000) + 60}" == found["__id_in_queue__"]
    assert not client.exists(queue_key())
    assert [] == job.modified_attributes()
    (listed,) = jq.delayed()
    assert (job.id, "q", score / 1000) == (listed.id, listed.queue, listed.score)


def test_add_at_a_moment(jq: JobQueue, client: redis.Redis) -> None:
    """``at`` is a moment; one that is over is due at once, and promoted, not queued."""
    moment = time.time() + 500
    job = jq.add_job({"queue": "q", "expire": 0}, at=moment)
    assert round(moment * 1000) == client.zscore(DELAYED, str(job.id))
    assert str(job.id) == stored(client, job)["__id_in_queue__"]
    past = jq.add_job({"queue": "q", "expire": 60}, at=1000)
    assert [past.id] == jq.due()
    assert [past.id] == jq.promote_due().jobs
    assert 50 <= client.ttl(PREFIX + str(past.id)) <= 60


@pytest.mark.parametrize(
    "how",
    [{"delay": 1, "LPUSH": True}, {"at": 1, "LPUSH": 1}, {"delay": 1, "at": 1}, {"delay": -1},
     {"delay": "5"}, {"delay": True}, {"at": float("nan")}, {"delay": float("inf")},
     {"delay": 1e12}],
)  # fmt: skip
def test_bad_delays(how: dict[str, object], jq: JobQueue, client: redis.Redis) -> None:
    """What cannot be is refused with code 1, and nothing is stored."""
    with pytest.raises(ArgumentError) as caught:
        jq.add_job({"queue": "q", "expire": 60}, **how)  # type: ignore[arg-type]
    assert 1 == caught.value.code
    assert [] == client.keys("*")


def test_perl_deletes_one_that_waits(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A delayed, a retrying and a dead job have what Perl needs; later they are dropped."""
    delayed = later(jq)
    add_many(jq, 2)
    retrying, dead = claimed(owner), claimed(owner)
    owner.retry(retrying, 1000)
    owner.bury(dead)
    for job_id in (delayed, str(retrying.id), str(dead.id)):
        perl_deletes(client, job_id)
    assert [] == jq.get_job_ids()
    make_due(client)
    done = jq.promote_due()
    assert ([], [], {delayed, retrying.id}) == (done.jobs, done.buried, set(done.dropped))
    assert not jq.revive(dead)
    assert {} == places(client)
    assert not client.exists(ATTEMPTS)


def test_perl_fetches_one_that_was_promoted(jq: JobQueue, client: redis.Redis) -> None:
    """Entry, ``__id_in_queue__`` and time to live agree, with an epoch of now."""
    job_id = later(jq)
    client.hset(PREFIX + job_id, "__id_in_queue__", f"{job_id} 1000")
    make_due(client)
    before = jq.now_ms() // 1000
    jq.promote_due()
    (entry,) = entries(client, queue_key())
    assert entry == stored(client, job_id)["__id_in_queue__"]
    assert before + LONG <= int(entry.split()[1]) <= jq.now_ms() // 1000 + LONG
    assert LONG - 2 <= client.ttl(PREFIX + job_id) <= LONG
    job = jq.get_next_job("q")
    assert job is not None
    assert job_id == job.id


# Promotion.


def test_due_jobs_go_to_the_tail(jq: JobQueue, client: redis.Redis) -> None:
    """They stand behind those that wait, in the order in which they were due; LPUSH is in front."""
    waiting = add_many(jq, 10)
    first, second, third = (later(jq) for _ in range(3))
    make_due(client)
    client.zadd(DELAYED, {third: 1, first: 2, second: 3})
    front = jq.add_job({"queue": "q", "expire": LONG}, LPUSH=True)
    assert [third, first, second] == jq.promote_due().jobs
    assert [front.id, *waiting, third, first, second] == ids(client, queue_key())


def test_only_what_is_due(jq: JobQueue, client: redis.Redis) -> None:
    """By the server's clock, and no ms earlier."""
    soon = later(jq, delay=0.15)
    later(jq)
    assert [] == jq.promote_due().jobs
    promoted = eventually(lambda: jq.promote_due().jobs, "it is due")
    assert [soon] == promoted
    assert 1 == client.zcard(DELAYED)


def test_retries_come_first(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Of both sets what is due is promoted, retries first, up to the limit."""
    add_many(jq, 3)
    retried = [str(job.id) for job in owner.claim_many("q", 3) if owner.retry(job, next(LATER))]
    delayed = [later(jq) for _ in range(3)]
    make_due(client)
    assert retried + delayed[:1] == jq.promote_due(limit=4).jobs
    assert delayed[1:] == jq.promote_due().jobs


def test_other_queues_are_passed_over(jq: JobQueue, client: redis.Redis) -> None:
    """A thousand due jobs of other queues do not hide those of the named one."""
    with client.pipeline() as pipe:
        for number in range(1050):
            pipe.hset(f"{PREFIX}other-{number}", mapping={"queue": "other", "expire": 0})
            pipe.zadd(DELAYED, {f"other-{number}": 1})
        pipe.execute()
    served = [later(jq) for _ in range(10)]
    for place, job_id in enumerate(served, 2):
        client.zadd(DELAYED, {job_id: place})
    assert served == jq.promote_due("q").jobs
    assert 1050 == client.zcard(DELAYED)
    assert [] == jq.promote_due("q").jobs
    assert 60 == len(jq.promote_due(limit=60).jobs)
    assert 990 == len(jq.promote_due("other", limit=5000).jobs)
    assert not client.exists(DELAYED)


def test_bad_ids_block_nobody(jq: JobQueue, client: redis.Redis) -> None:
    """What can be no job is buried, what is gone is dropped; those behind are promoted."""
    good = [later(jq) for _ in range(2)]
    noqueue, badlist = later(jq), later(jq, "bad")
    client.hdel(PREFIX + noqueue, "queue")
    client.set(queue_key("bad"), "no list")
    client.set(PREFIX + "text", "no hash")
    add(jq, "x")
    client.zadd(DELAYED, {"gone": 0, "text": 0, "queue:x": 0, noqueue: 0, badlist: 0, "": 0})
    make_due(client)
    done = jq.promote_due()
    assert good == done.jobs
    assert {"text", "queue:x", noqueue, badlist} == set(done.buried)
    assert {"gone"} <= set(done.dropped) <= {"gone", ""}
    assert not client.exists(DELAYED)
    assert {b"text", b"queue:x", noqueue.encode(), badlist.encode()} == set(
        client.zrange(DEAD, 0, -1)
    )
    assert "__failed__" == stored(client, badlist)["status"]
    assert 1 == client.llen(queue_key("x"))
    assert b"no list" == client.get(queue_key("bad"))


def test_two_schedulers(jq: JobQueue, client: redis.Redis) -> None:
    """Four that promote at once promote each job once; all are delivered once."""
    expected = [later(jq, random.choice("abc"), 0) for _ in range(400)]

    def work() -> list[str]:
        found: list[str] = []
        while client.exists(DELAYED):
            found += map(str, jq.promote_due(random.choice(["a", "b", "c", None]), 30).jobs)
        return found

    callers = [Caller(work).start() for _ in range(4)]
    assert sorted(expected) == sorted(job_id for each in callers for job_id in each.get())
    with jq.owner() as owner:
        assert sorted(expected) == sorted(str(job.id) for job in drain(owner, "a", "b", "c"))


def test_producers_and_schedulers_at_once(jq: JobQueue, client: redis.Redis) -> None:
    """Delays of 0 to 50 ms, added while others promote: no id is lost, none promoted twice."""
    added: list[str] = []
    done: list[str] = []

    def produce() -> None:
        for _ in range(60):
            added.append(later(jq, delay=random.random() * 0.05))

    def promote() -> None:
        while len(done) < 240:
            done.extend(map(str, jq.promote_due(limit=7).jobs))

    callers = [Caller(produce).start() for _ in range(4)]
    callers += [Caller(promote).start() for _ in range(2)]
    for caller in callers:
        caller.get()
    assert sorted(added) == sorted(done)


def test_eight_thousand_at_once(server: Server, jq: JobQueue, client: redis.Redis) -> None:
    """Thousands move in bounded scripts, in order."""
    with client.pipeline() as pipe:
        for number in range(8000):
            pipe.hset(f"{PREFIX}j{number:04}", mapping={"queue": "q", "expire": 0})
            pipe.zadd(DELAYED, {f"j{number:04}": number})
        pipe.execute()
    expected = [f"j{number:04}" for number in range(8000)]
    assert expected == jq.promote_due(limit=8000).jobs
    assert expected == ids(client, queue_key())
    client.slowlog_reset()
    counts = client.info("commandstats")
    assert counts["cmdstat_evalsha"]["calls"] >= 80
    owner = jq.owner().start()
    held = []
    while jobs := owner.claim_many("q", 100):
        held += jobs
    let_die(owner, client)
    assert 8000 == jq.recover().jobs
    assert expected == ids(client, queue_key())


def test_clocks_of_clients(jq: JobQueue, client: redis.Redis) -> None:
    """A delay counts by the server's clock: that of the client enters only into ``at``."""
    operation_time = jq.now_ms()
    job = Job(queue="q", expire=LONG)
    job._values["created"] = 0  # of a client whose clock is years off
    jq.add_job(job, delay=10)
    assert operation_time + 10_000 <= client.zscore(DELAYED, str(job.id)) <= jq.now_ms() + 10_000


# Taking by hand.


def test_due(jq: JobQueue, client: redis.Redis) -> None:
    """``due`` lists ids, and with remove= hands them over: they stand nowhere, and run out."""
    expected = [later(jq) for _ in range(3)]
    client.hset(PREFIX + expected[1], "expire", 0)
    assert [] == jq.due()
    make_due(client)
    assert expected[:2] == jq.due(2)
    assert expected == jq.due()
    assert expected[:2] == jq.due(2, remove=True)
    assert expected[2:] == jq.due(remove=True)
    assert [] == jq.due(remove=True)
    assert {} == places(client)
    left, ever, _ = (client.ttl(PREFIX + job_id) for job_id in expected)
    assert LONG - 60 < left <= LONG and ever == -1
    assert 3 == len(jq.get_job_ids())


# The dead.


def test_the_dead_live_on(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A dead job keeps its data until it is revived or purged."""
    add(jq, expire=60, workload={"a": 1})
    job = claimed(owner)
    before = jq.now_ms()
    owner.bury(job, "broken")
    assert before <= client.zscore(DEAD, str(job.id)) <= jq.now_ms()
    assert -1 == client.ttl(PREFIX + str(job.id))
    (listed,) = jq.dead()
    assert (job.id, "q") == (listed.id, listed.queue)
    found = jq.load_job(job)
    assert found is not None
    assert ({"a": 1}, "broken", "__failed__") == (found.workload, found.message, found.status)


def test_revive(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A revived job waits at the tail, its attempts forgotten; others cannot be revived."""
    add_many(jq, 3)
    job = claimed(owner)
    owner.bury(job)
    client.hset(ATTEMPTS, str(job.id), 4)
    waiting = ids(client, queue_key())
    assert jq.revive(job.id)
    assert [*waiting, str(job.id)] == ids(client, queue_key())
    assert not client.exists(DEAD, ATTEMPTS)
    assert not jq.revive(job.id)
    assert not jq.revive("nobody")
    client.zadd(DEAD, {"gone": 1})
    assert not jq.revive("gone")
    assert not client.exists(DEAD)
    assert 3 == client.llen(queue_key())


def test_purge_by_age(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Those that died before a time go, data and all; nothing else does."""
    add_many(jq, 5)
    jobs = owner.claim_many("q", 4)
    for job in jobs:
        owner.bury(job)
    now = jq.now_ms()
    for job, age in zip(jobs, (5000, 500, 50, 0)):
        client.zadd(DEAD, {str(job.id): now - age * 1000})
    assert 2 == jq.purge_dead(100)
    assert [None, None, True, True] == [jq.load_job(job) and True for job in jobs]
    assert 0 == jq.purge_dead(100)
    assert 2 == jq.purge_dead()
    assert 1 == len(jq.get_job_ids())


def test_purge_by_count(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """The latest so many stay in any case; a purge goes in bounded scripts."""
    expected = add_many(jq, 250)
    jobs = [job for _ in range(3) for job in owner.claim_many("q", 100)]
    owner._finish("bury", jobs)
    for place, job_id in enumerate(expected, 1):
        client.zadd(DEAD, {job_id: place})
    assert 240 == jq.purge_dead(keep=10)
    assert expected[240:] == [each.id for each in jq.dead()]
    assert set(expected[240:]) == set(jq.get_job_ids())
    assert 0 == jq.purge_dead(keep=10)
    client.zadd(DEAD, {"gone": 0, "queue:q": 0})
    add(jq)
    assert 2 == jq.purge_dead(keep=10)
    assert 1 == client.llen(queue_key())


# Pages.


@pytest.mark.parametrize("kind", ["delayed", "retrying", "dead"])
def test_pages(kind: str, jq: JobQueue, client: redis.Redis) -> None:
    """Listings come in pages, the earliest first; an id without a job is listed too."""
    key = {"delayed": DELAYED, "retrying": RETRY, "dead": DEAD}[kind]
    listing = getattr(jq, kind)
    assert [] == listing()
    client.zadd(key, {f"j{number:02}": number * 1000 for number in range(25)})
    client.hset(PREFIX + "j03", "queue", "q")
    client.set(PREFIX + "j04", "no hash")
    first = listing(page_size=10)
    assert [(f"j{n:02}", float(n)) for n in range(10)] == [(row.id, row.score) for row in first]
    assert [None] * 3 + ["q", None] == [row.queue for row in first[:5]]
    assert [f"j{n}" for n in range(20, 25)] == [row.id for row in listing(3, 10)]
    assert [] == listing(4, 10)
    for bad in ((0, 10), (1, 0), ("1", 10)):
        with pytest.raises(ArgumentError):
            listing(*bad)


# A Perl update while they wait.


def test_a_perl_update_is_undone_in_time(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """An update by Perl starts the time to live of a waiting job; upkeep takes it off again."""
    delayed = later(jq)
    add_many(jq, 2)
    retrying, dead = claimed(owner), claimed(owner)
    owner.retry(retrying, 1000)
    owner.bury(dead)
    every = [delayed, str(retrying.id), str(dead.id)]
    for job_id in every:
        perl_updates(client, job_id)
    assert all(client.ttl(PREFIX + job_id) > 0 for job_id in every)
    owner.upkeep()
    assert [-1] * 3 == [client.ttl(PREFIX + job_id) for job_id in every]
    # Our own update starts no time to live.
    for job_id in every:
        job = jq.load_job(job_id)
        assert job is not None
        job.message = "ours"
        assert 2 == jq.update_job(job)
    assert [-1] * 3 == [client.ttl(PREFIX + job_id) for job_id in every]


def test_a_sweep_goes_in_bounded_steps(
    server: Server, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Thousands are looked through a step at a time; ids without a job are dropped and told."""
    with client.pipeline() as pipe:
        for number in range(1000):
            pipe.zadd(DEAD, {f"gone-{number}": 1})
            pipe.hset(ATTEMPTS, f"left-{number}", 1)
            pipe.hset(f"{PREFIX}there-{number}", "queue", "q")
            pipe.expire(f"{PREFIX}there-{number}", 100)
            pipe.zadd(DEAD, {f"there-{number}": 1})
        pipe.execute()
    steps = 0
    while steps == 0 or any(cursor != b"0" for cursor in owner._sweep.cursors.values()):
        steps += 1
        with watched(server) as seen:
            owner.upkeep()
        assert len(seen.inner) < 2500
        assert steps < 100
    assert steps > 5
    assert 1000 == owner._sweep.dropped
    assert 1000 == client.zcard(DEAD)
    assert not client.exists(ATTEMPTS)
    assert {-1} == {client.ttl(f"{PREFIX}there-{number}") for number in range(1000)}


def test_a_sweep_state() -> None:
    """A sweep begins with nothing."""
    assert ({}, 0) == (Sweep().cursors, Sweep().dropped)


# Pause.


def test_pause(
    jq: JobQueue, client: redis.Redis, owner: Owner, new_owner: Callable[..., Owner]
) -> None:
    """Delayed, retried and orphaned jobs of a paused queue come back to it, and wait there."""
    delayed = later(jq)
    add_many(jq, 2)
    retrying = claimed(owner)
    owner.retry(retrying, 1000)
    dead = new_owner()
    orphan = claimed(dead)
    jq.pause("q")
    let_die(dead, client)
    make_due(client)
    assert 1 == jq.recover().jobs
    assert {delayed, retrying.id} == set(jq.promote_due().jobs)
    for blocking in (False, True):
        assert owner.claim("q", blocking=blocking, timeout=0.05) is None
    assert 3 == client.llen(queue_key())
    jq.resume("q")
    assert {delayed, retrying.id, orphan.id} == {job.id for job in owner.claim_many("q", 10)}
