"""Recovery: what dead owners held comes back, in order, once, and nothing that is alive."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest
import redis
from support.server import Server, eventually
from support.watching import watched

from claims.tools import (
    ABOUT,
    ATTEMPTS,
    HEARTBEAT,
    LISTS,
    LONG,
    PREFIX,
    Caller,
    add,
    add_many,
    claimed,
    claims_key,
    entries,
    held_key,
    ids,
    let_die,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import JobQueue, Owner
from redis_jobqueue.operations import recovery

NOTHING = "JobQueue:processing:*"


def dies_with(jq: JobQueue, client: redis.Redis, count: int, queue: str = "q") -> Owner:
    """Let an owner claim so many jobs of a queue and die."""
    owner = jq.owner().start()
    jobs = []
    while len(jobs) < count:
        jobs += owner.claim_many(queue, min(100, count - len(jobs)))
    let_die(owner, client)
    return owner


# What comes back, and how.


def test_the_order_is_kept(jq: JobQueue, client: redis.Redis) -> None:
    """Of 250 jobs in three slices the oldest claim comes next, before those that waited."""
    expected = add_many(jq, 260)
    owner = dies_with(jq, client, 250)
    assert expected[250:] == ids(client, queue_key())
    done = jq.recover()
    assert (250, 0, 0, [owner.id]) == (done.jobs, done.buried, done.dropped, done.owners)
    assert expected == ids(client, queue_key())
    assert 0 == client.exists(LISTS, HEARTBEAT, ABOUT, claims_key(owner))
    assert not client.keys(NOTHING)
    assert 250 == jq.counts("q").queues["q"].counters["recovered"]


def test_scripts_are_bounded(server: Server, jq: JobQueue, client: redis.Redis) -> None:
    """A hundred jobs a script, for all of a dead owner's queues; the caller loops."""
    add_many(jq, 250)
    dies_with(jq, client, 250)
    with watched(server) as seen:
        jq.recover()
    moved = [words for words in seen.inner if words.startswith("LPUSH")]
    assert 250 == len(moved)
    # Suspects, fence, three slices, forget; each may have to be sent a second time with its text.
    scripts = [words for words in seen.sent if words.startswith(("EVAL ", "EVALSHA "))]
    assert 6 <= len(scripts) <= 12


def test_a_thousand_owners(server: Server, jq: JobQueue, client: redis.Redis) -> None:
    """Only what is registered is looked at: no key is scanned for, however many there are."""
    with client.pipeline() as pipe:
        for number in range(5000):
            pipe.set(f"other:{number}", "x")
        for number in range(150):
            pipe.zadd(HEARTBEAT, {f"idle-{number}": 1})
            pipe.hset(ABOUT, f"idle-{number}", "{}")
        pipe.execute()
    add_many(jq, 3)
    dies_with(jq, client, 3)
    with watched(server) as seen:
        done = jq.recover()
    assert 3 == done.jobs
    assert not {"SCAN", "KEYS"} & seen.all_names
    while jq.recover().owners:
        pass
    assert [] == jq.owners()


def test_an_entry_is_left_as_it_is(jq: JobQueue, client: redis.Redis) -> None:
    """The very entry that was claimed comes back, its epoch too, and Perl finds it."""
    job = add(jq, expire=50)
    (entry,) = entries(client, queue_key())
    dies_with(jq, client, 1)
    jq.recover()
    assert [entry] == entries(client, queue_key())
    assert entry == stored(client, job)["__id_in_queue__"]
    assert 0 < client.ttl(PREFIX + str(job.id)) <= 50


def test_jobs_that_are_gone(jq: JobQueue, client: redis.Redis) -> None:
    """Entries whose job was deleted or is no hash are dropped and counted, attempts forgotten."""
    gone, bad, good = add_many(jq, 3)
    owner = jq.owner().start()
    held = owner.claim_many("q", 3)
    owner.begun(*held)
    let_die(owner, client)
    client.delete(PREFIX + gone, PREFIX + bad)
    client.set(PREFIX + bad, "no hash")
    client.lpush(held_key(owner), "", "0", "a:b 5")
    done = jq.recover()
    assert (1, 0, 5) == (done.jobs, done.buried, done.dropped)
    assert [good] == ids(client, queue_key())
    assert {good: b"1"} == {key.decode(): n for key, n in client.hgetall(ATTEMPTS).items()}


def test_an_epoch_that_has_passed(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Recovery and claims judge by the job, not by the epoch of its entry."""
    job = add(jq)
    client.delete(queue_key())
    entry = f"{job.id} 1000"
    client.rpush(queue_key(), entry)
    client.hset(PREFIX + str(job.id), "__id_in_queue__", entry)
    dies_with(jq, client, 1)
    assert 1 == jq.recover().jobs
    assert job.id == claimed(owner).id


# What is left alone.


def test_live_owners_are_left_alone(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Of the living nothing is taken, whatever is named."""
    add_many(jq, 3)
    jobs = owner.claim_many("q", 3)
    for call in (
        lambda: jq.recover(), lambda: jq.recover("q"), lambda: jq.recover(owner=owner.id),
        lambda: jq.recover("q", owner.id),
    ):  # fmt: skip
        done = call()
        assert (0, []) == (done.jobs, done.owners)
    owner.complete_many(jobs)


def test_one_owner_or_one_queue(jq: JobQueue, client: redis.Redis) -> None:
    """Only the named owner's lists, or only the lists of the named queue, are emptied."""
    for name in ("a", "b", "a:b"):
        add_many(jq, 2, name)
    one = dies_with(jq, client, 1, "a")
    two = dies_with(jq, client, 1, "a")
    three = dies_with(jq, client, 2, "b")
    four = dies_with(jq, client, 2, "a:b")
    done = jq.recover(owner=one.id)
    assert (1, [one.id]) == (done.jobs, done.owners)
    assert 1 == jq.recover("a").jobs
    assert {f"b:{three.id}".encode(), f"a:b:{four.id}".encode()} == client.smembers(LISTS)
    assert {two.id, three.id, four.id} >= {each.id for each in jq.owners()}
    assert 0 == jq.recover("none").jobs
    assert 0 == jq.recover(owner="nobody").jobs
    assert 2 == jq.recover("b", three.id).jobs
    assert 2 == jq.recover().jobs
    assert [] == jq.owners()


def test_each_slice_asks_again(jq: JobQueue, client: redis.Redis) -> None:
    """An owner that has a beat again between two slices loses no more; nothing is deregistered."""
    add_many(jq, 150)
    owner = dies_with(jq, client, 150)
    operation = recovery.recover(None, None, 0, jq._keys)
    request = next(operation)
    for _ in range(3):  # suspects, fence, the first slice
        request = operation.send(jq._driver.send(request))
    assert 100 == client.llen(queue_key())
    client.zadd(HEARTBEAT, {owner.id: jq.now_ms() + 60_000})
    assert [-1] == jq._driver.send(request)
    operation.close()
    assert 50 == client.llen(held_key(owner))
    assert client.sismember(LISTS, f"q:{owner.id}")


def test_an_owner_that_beats_before_the_fence(jq: JobQueue, client: redis.Redis) -> None:
    """A suspect that beats before it is fenced stays what it was."""
    add(jq)
    owner = jq.owner().start()
    job = claimed(owner)
    client.zadd(HEARTBEAT, {owner.id: 1})
    operation = recovery.recover(None, None, 0, jq._keys)
    fence = operation.send(jq._driver.send(next(operation)))
    assert owner.beat()
    assert [0] == jq._driver.send(fence)
    owner.complete(job)
    owner.stop()


# The list without an owner.


def test_the_shared_list(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """A list of the queue's name alone is moved back only while nobody lives at all."""
    expected = add_many(jq, 3)
    for _ in range(3):
        client.lmove(queue_key(), "JobQueue:processing:q", "LEFT", "LEFT")
    assert 0 == jq.recover().jobs  # only if the queue is named
    owner = new_owner()
    assert 0 == jq.recover("q").jobs
    owner.stop()
    assert 3 == jq.recover("q").jobs
    assert expected == ids(client, queue_key())


def test_the_shared_list_that_is_anothers(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """What looks like the shared list of ``q:OWNER`` is OWNER's list of q: it is left alone."""
    add(jq)
    owner = jq.owner().start()
    job = claimed(owner)
    owner._heart.stop()
    client.zrem(HEARTBEAT, owner.id)
    name = f"q:{owner.id}"
    before = entries(client, held_key(owner))
    operation = recovery._slices(name.encode(), None, 0, jq._keys, recovery.Recovered())
    assert [-1] == jq._driver.send(next(operation))
    assert before == entries(client, held_key(owner))
    done = jq.recover(name)
    assert 0 == done.jobs
    assert not client.exists(queue_key(name))
    assert 1 == jq.recover("q").jobs
    assert [str(job.id)] == ids(client, queue_key())


# Who may look, and when.


def reaper(jq: JobQueue, **options: float) -> Owner:
    """Start an owner that beats by itself."""
    return jq.owner(**({"interval": 0.05, "lifetime": 0.6} | options)).start()


def test_a_reaper_waits_for_one_lifetime(jq: JobQueue, client: redis.Redis) -> None:
    """It looks only after its own beats have succeeded for a whole lifetime."""
    add(jq)
    dies_with(jq, client, 1)
    owner = reaper(jq)
    started = time.monotonic()
    assert owner.recover() is None
    done = eventually(owner.recover, "it may look")
    assert time.monotonic() - started >= 0.5
    assert 1 == done.jobs
    owner.stop()


def test_one_looks_at_a_time(jq: JobQueue, client: redis.Redis) -> None:
    """Of several reapers one looks in each interval, whoever it is."""
    owners = [reaper(jq, interval=1, lifetime=1.2) for _ in range(3)]
    for owner in owners:
        owner._heart.stop()
        owner._heart._unbroken_since = 0.0
        owner.beat()
    looked = [owner.recover() is not None for owner in owners]
    assert [True, False, False] == looked
    assert 0 < client.pttl("JobQueue:owners:reaper") <= 1000
    client.delete("JobQueue:owners:reaper")
    assert owners[2].recover() is not None
    for owner in owners:
        owner.stop()


def test_nobody_live_is_reaped_after_an_outage(
    own_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten owners, each with a job, outlive an outage that is longer than their lifetime."""
    caplog.set_level(logging.CRITICAL, "redis_jobqueue")
    with JobQueue(own_server.url, connection_timeout=5) as jq, own_server.client() as client:
        expected = add_many(jq, 10)
        owners = [reaper(jq) for _ in range(10)]
        jobs = [claimed(owner) for owner in owners]
        stop = threading.Event()
        reaped: list[int] = []

        def tend(owner: Owner) -> None:
            while not stop.is_set():
                try:
                    done = owner.recover()
                    if done is not None:
                        reaped.append(done.jobs)
                except Exception:
                    time.sleep(0.01)

        callers = [Caller(lambda owner=owner: tend(owner)).start() for owner in owners]
        eventually(lambda: reaped, "somebody looks")
        for outage in ("frozen", "restarted"):
            if outage == "frozen":
                own_server.pause()
                eventually(lambda: all(o._heart.lapsed() for o in owners), "all have lapsed")
                own_server.resume()
            else:
                own_server.stop()
                eventually(lambda: all(o._heart.lapsed() for o in owners), "all have lapsed")
                own_server.start()
            eventually(lambda: len(jq_live(client)) == 10, "all live again")
            count = len(reaped)
            eventually(lambda: len(reaped) > count, "somebody looks again")
        stop.set()
        for caller in callers:
            caller.get()
        assert 0 == sum(reaped)
        for owner, job in zip(owners, jobs):
            owner.complete(job)
        assert expected == [str(job.id) for job in jobs]
        for owner in owners:
            owner.stop()


def jq_live(client: redis.Redis) -> list[bytes]:
    """The owners whose beat is good."""
    seconds, micros = client.time()
    found: list[bytes] = client.zrangebyscore(HEARTBEAT, seconds * 1000 + micros // 1000, "+inf")
    return found


def test_survivors_recover(jq: JobQueue, client: redis.Redis) -> None:
    """Of three owners one dies; the others bring its job back without a new start."""
    add(jq)
    one, two, three = (reaper(jq) for _ in range(3))
    job = claimed(one)
    job.begun()
    let_die(one, client)
    again = next(two.jobs("q", timeout=20))
    assert (job.id, 2) == (again.id, again.attempt)
    assert "__working__" == jq.get_job_data(job, "status")
    two.complete(again)
    assert {two.id, three.id} == {info.id for info in jq.owners()}
    two.stop(), three.stop()


def test_two_reapers_at_once(jq: JobQueue, client: redis.Redis) -> None:
    """Four that recover at once move each job once, and lose none."""
    expected = add_many(jq, 300)
    for _ in range(3):
        dies_with(jq, client, 100)
    callers = [Caller(jq.recover).start() for _ in range(4)]
    done = [caller.get() for caller in callers]
    assert 300 == sum(each.jobs for each in done)
    assert 3 <= len({name for each in done for name in each.owners})
    assert sorted(expected) == sorted(ids(client, queue_key()))
    assert {1} == {len(where) for where in places(client).values()}
    assert 0 == client.exists(LISTS, ABOUT, HEARTBEAT)


def test_a_queue_that_takes_nothing_holds_up_no_other(
    jq: JobQueue, client: redis.Redis, owner: Owner, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What cannot go back stays in its list and is named; all else is recovered, also later."""
    dead = []
    for queue in ("a", "bad", "z"):
        add(jq, queue)
        dead.append(dies_with(jq, client, 1, queue))
    client.set(queue_key("bad"), "something else")
    done = jq.recover()
    assert (2, ["bad"]) == (done.jobs, done.stuck)
    assert {dead[0].id, dead[2].id} == set(done.owners)
    assert 1 == client.llen(held_key(dead[1], "bad"))
    monkeypatch.setattr(owner._heart, "may_reap", lambda: True)
    for _ in range(2):
        client.delete("JobQueue:owners:reaper")
        assert owner.recover().stuck == ["bad"]
    told = [each for each in caplog.records if "nothing can be recovered" in each.message]
    assert ["bad"] == [each.queue for each in told]
    assert "owner is dead" not in caplog.text  # that is said once, when nothing is left of it
    client.delete(queue_key("bad"))
    done = jq.recover()
    assert (1, [dead[1].id], []) == (done.jobs, done.owners, done.stuck)
    assert 0 == client.exists(LISTS)
    assert [owner.id.encode()] == client.hkeys(ABOUT)


def test_a_paused_queue_is_recovered(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Orphans of a paused queue come back to it and wait."""
    add(jq)
    dies_with(jq, client, 1)
    jq.pause("q")
    assert 1 == jq.recover().jobs
    assert owner.claim("q") is None
    jq.resume("q")
    claimed(owner)


def test_what_an_unknown_owner_left(jq: JobQueue, client: redis.Redis) -> None:
    """A registered list whose owner said nothing of itself is recovered like any other."""
    job = add(jq)
    client.lmove(queue_key(), held_key("ghost-1"), "LEFT", "LEFT")
    client.sadd(LISTS, "q:ghost-1")
    client.hset(claims_key("ghost-1"), "1", "damaged")
    client.hset(ABOUT, "other", "{damaged")
    done = jq.recover()
    assert (1, {"ghost-1", "other"}) == (done.jobs, set(done.owners))
    assert [str(job.id)] == ids(client, queue_key())
    assert 0 == client.exists(LISTS, ABOUT, claims_key("ghost-1"))


def test_expire_goes_on_after_recovery(jq: JobQueue, client: redis.Redis) -> None:
    """A held job has no time to live; a recovered one has its whole time again."""
    job = add(jq, expire=LONG)
    client.expire(PREFIX + str(job.id), 5)
    owner = jq.owner().start()
    claimed(owner)
    assert -1 == client.ttl(PREFIX + str(job.id))
    let_die(owner, client)
    jq.recover()
    assert LONG - 5 <= client.ttl(PREFIX + str(job.id)) <= LONG
