"""The heartbeat: it goes on whatever happens, and puts back what nobody holds."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable

import pytest
import redis
from support.proxy import Proxy
from support.server import Server, eventually

from claims.tools import (
    ATTEMPTS,
    HEARTBEAT,
    LISTS,
    Caller,
    add,
    add_many,
    claimed,
    claims_key,
    held_key,
    ids,
    let_die,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import ClaimLostError, JobQueue, JobQueueError, NetworkError, Owner
from redis_jobqueue.heart import Heart, suspend_clock
from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations import claims

QUICK = {"interval": 0.05, "lifetime": 30.0}
"""Beats often, and never lapses in a test."""


def beats_again(client: redis.Redis, owner: Owner) -> bool:
    """Tell whether another beat has come since now."""
    before = client.zscore(HEARTBEAT, owner.id)
    eventually(lambda: client.zscore(HEARTBEAT, owner.id) != before, "a beat")
    return True


# It goes on.


def test_it_beats_by_itself(client: redis.Redis, new_owner: Callable[..., Owner]) -> None:
    """The thread extends the owner's time by the server's clock."""
    owner = new_owner(**QUICK)
    assert beats_again(client, owner)
    seconds, micros = client.time()
    left = client.zscore(HEARTBEAT, owner.id) / 1000 - seconds - micros / 1e6
    assert 20 < left <= 30.1


def test_an_outage_is_logged_once(
    own_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Failed beats are tried again, told once, and succeed when the server is back."""
    caplog.set_level(logging.WARNING, "redis_jobqueue")
    with JobQueue(own_server.url, connection_timeout=5) as jq, jq.owner(**QUICK) as owner:
        for _ in range(2):
            caplog.clear()
            own_server.stop()
            eventually(lambda: "a beat failed" in caplog.text, "a failed beat")
            # Several more fail before the server is back.
            failed, count = owner._heart.failed, threading.Semaphore(0)
            owner._heart.failed = lambda: (failed(), count.release())[0]  # type: ignore
            assert count.acquire(timeout=20) and count.acquire(timeout=20)
            owner._heart.failed = failed  # type: ignore[method-assign]
            own_server.start()
            eventually(lambda: "succeed again" in caplog.text, "a good beat")
            assert 1 == caplog.text.count("a beat failed")
        with own_server.client() as client:
            assert beats_again(client, owner)


def test_a_frozen_server(own_server: Server) -> None:
    """A beat has a deadline of its own: a server that does not answer cannot hold it up."""
    with JobQueue(own_server.url) as jq:
        owner = jq.owner(interval=0.05, lifetime=0.9).start()
        own_server.pause()
        eventually(owner._heart.lapsed, "it knows that it has lapsed")
        own_server.resume()
        eventually(lambda: not owner._heart.lapsed(), "it lives again")
        owner.stop()


def test_a_lapsed_owner_claims_nothing(own_server: Server) -> None:
    """An owner that judges itself lapsed claims only after a good beat, whatever others think."""
    with Proxy(own_server) as proxy, JobQueue(proxy.url, connection_timeout=5) as jq:
        add(jq)
        owner = jq.owner(interval=0.02, lifetime=0.5, wait_modes=["poll"]).start()
        # Every beat from now on is cut; commands of the queue itself pass.
        stop = threading.Event()

        def cut() -> None:
            while not stop.is_set():
                faults = [proxy.cut_before(SCRIPTS["beat"].sha) for _ in range(50)]
                while not (stop.is_set() or faults[25]._struck.wait(0.01)):
                    pass

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            eventually(owner._heart.lapsed, "it has lapsed")
            assert jq.ping()
            with own_server.client() as client:  # also if the server's clock says otherwise
                client.zadd(HEARTBEAT, {owner.id: 1e15})
            with pytest.raises(NetworkError):
                owner.claim("q")
            assert 1 == jq.queue_length("q")
        finally:
            stop.set()
            cutter.join()
            proxy.heal()
        claimed(owner)
        owner.stop()


def test_whatever_happens_in_a_beat(
    client: redis.Redis, new_owner: Callable[..., Owner], caplog: pytest.LogCaptureFixture
) -> None:
    """An error of the server ends no heart: here a claims hash that is no hash."""
    owner = new_owner(**QUICK)
    client.set(claims_key(owner), "no hash")
    eventually(lambda: "a beat failed" in caplog.text, "a failed beat")
    client.delete(claims_key(owner))
    assert beats_again(client, owner)


# What it judges by.


class Beating:
    """Settings of an owner."""

    interval = 1.0
    lifetime = 10.0

    def _beat(self) -> bool:
        return True


def test_what_a_reaper_may_rely_on() -> None:
    """It may reap after one lifetime of good beats, and starts anew after a gap or a jump."""
    now = suspend_clock()
    heart = Heart(Beating())

    def beats(first: float, last: float, shift: float = 0.0) -> None:
        at = first
        while at <= last:
            heart._last_good = min(heart._last_good, now + at)
            heart.good(now + at, int((suspend_clock() + shift) * 1000))
            at += 1

    beats(-20, -12)
    assert not heart.may_reap()  # its last good beat is too old
    beats(-5, 0)
    assert not heart.may_reap()  # there was a gap of seven seconds
    heart = Heart(Beating())
    beats(-11, 0)
    assert heart.may_reap()
    heart.failed()
    assert not heart.may_reap()
    beats(-11, 0)
    assert heart.may_reap()
    heart.good(now, int((suspend_clock() + 3600) * 1000))
    assert not heart.may_reap()  # the server's clock has jumped


# It puts back what nobody holds.


@pytest.mark.parametrize("count", [1, 3])
def test_a_claim_that_nobody_heard_of(own_server: Server, count: int) -> None:
    """A claim whose answers were lost, both, is back in its queue with the next beat."""
    with Proxy(own_server) as proxy, JobQueue(proxy.url) as jq, own_server.client() as client:
        expected = add_many(jq, 3)
        with jq.owner() as owner:
            owner.release(claimed(owner))
            for _ in range(2):
                proxy.lose_reply(SCRIPTS["claim"].sha)
            with pytest.raises(NetworkError):
                owner.claim_many("q", count)
            assert count == client.llen(held_key(owner))
            assert expected[count:] == ids(client, queue_key())
            owner.beat()
            assert expected == ids(client, queue_key())
            assert {b"#"} == set(client.hkeys(claims_key(owner)))
            assert "__created__" == stored(client, expected[0])["status"]


def test_a_job_that_nobody_refers_to(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A claim lives as long as somebody refers to its Job, without the garbage collector."""
    (only,) = add_many(jq, 1)
    gc.disable()
    try:
        job = claimed(owner)
        job.meta_data["x"] = 1
        owner.beat()
        assert [only] == ids(client, held_key(owner))
        del job
        owner.beat()
    finally:
        gc.enable()
    assert [only] == ids(client, queue_key())
    assert not client.exists(held_key(owner))


def test_part_of_a_claim(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Of jobs claimed together each lives by itself; the oldest dead one ends up at the head."""
    expected = add_many(jq, 6)
    jobs = owner.claim_many("q", 5)
    kept = jobs[2]
    del jobs
    owner.beat()
    assert [expected[n] for n in (0, 1, 3, 4, 5)] == ids(client, queue_key())
    assert [expected[2]] == ids(client, held_key(owner))
    owner.complete(kept)


def test_more_than_a_slice(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """One call of ``beat`` puts back all of 250, in order, a slice a script."""
    expected = add_many(jq, 250)
    for _ in range(3):
        owner.claim_many("q", 100)
    assert 0 == client.llen(queue_key())
    owner.beat()
    assert expected == ids(client, queue_key())


def test_more_than_a_slice_that_cannot_go_back(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Claims of a queue whose key holds something else end no beat, and bar no other's way."""
    add_many(jq, 120, "bad"), add_many(jq, 120)
    for queue in ("bad", "q"):
        while owner.claim_many(queue, 60):  # nobody refers to them
            pass
    client.set(queue_key("bad"), "something else")
    gc.collect()
    owner.beat()
    assert 120 == client.llen(queue_key())
    assert 120 == client.llen(held_key(owner, "bad"))
    owner.stop()
    client.delete(queue_key("bad"))
    assert 120 == jq.recover().jobs


def test_a_late_beat_is_harmless(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A beat made before a claim and executed after it takes nothing away."""
    add(jq)
    identity = owner._of_now()
    late = claims.beat(identity.id, 30_000, *identity.snapshot(), jq._keys)
    request = next(late)
    job = claimed(owner)
    assert [1, 0] == jq._driver.send(request)[:2]
    assert [str(job.id)] == ids(client, held_key(owner))
    owner.complete(job)


def test_a_claim_under_way(own_server: Server) -> None:
    """While a claim is under way its token lives, also when the server has executed it."""
    with Proxy(own_server) as proxy, JobQueue(proxy.url) as jq, own_server.client() as client:
        (only,) = add_many(jq, 1)
        with jq.owner() as owner:
            owner.release(claimed(owner))
            proxy.delay_ms = 300
            caller = Caller(lambda: owner.claim("q")).start()
            eventually(lambda: owner._of_now().snapshot()[1], "the claim is under way")
            proxy.delay_ms = 0
            owner.beat()
            job = caller.get()
            owner.beat()
            assert [only] == ids(client, held_key(owner))
            owner.complete(job)


def test_jobs_deleted_while_nobody_holds_them(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """What is put back and has no data any more is dropped."""
    gone, there = add_many(jq, 2)
    owner.claim_many("q", 2)
    client.delete("JobQueue:" + gone)
    owner.beat()
    assert {there: ["queue:q"]} == places(client)


def test_what_somebody_else_took(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """An entry that is not in the list any more is not put back a second time."""
    one, two = add_many(jq, 2)
    owner.claim_many("q", 2)
    client.lrem(held_key(owner), 1, client.lindex(held_key(owner), -1))
    owner.beat()
    assert [two] == ids(client, queue_key())


# Owners that live.


def test_a_list_never_stands_without_a_beat(jq: JobQueue, client: redis.Redis) -> None:
    """Owners start, claim as their first command and leave, while others recover all the time."""
    add_many(jq, 20)
    stop = threading.Event()
    recovered: list[int] = []

    def reap() -> None:
        while not stop.is_set():
            recovered.append(jq.recover().jobs)

    reapers = [threading.Thread(target=reap) for _ in range(2)]
    for thread in reapers:
        thread.start()
    for _ in range(50):
        with jq.owner() as owner:
            jobs = owner.claim_many("q", 2)
            assert 2 == len(jobs)
            owner.begun(*jobs)
            owner.requeue(jobs[0])
            owner.save(jobs[1])
    stop.set()
    for thread in reapers:
        thread.join()
    assert len(recovered) > 10
    assert 0 == sum(recovered)
    assert 0 == client.exists(LISTS, ATTEMPTS)
    assert 20 == client.llen(queue_key())


def test_ten_owners_with_recovery_at_their_start(jq: JobQueue, client: redis.Redis) -> None:
    """Live owners are never taken for dead, however many look for orphans at once."""
    expected = add_many(jq, 200)
    done: list[str] = []

    def work() -> None:
        with jq.owner(interval=0.05, lifetime=20) as owner:
            jq.recover()
            while job := owner.claim("q"):
                owner.upkeep()
                jq.recover()
                owner.complete(job)
                done.append(str(job.id))

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(expected) == sorted(done)
    assert 0 == jq.counts("q").queues["q"].counters["recovered"]


def test_a_living_owner_that_was_judged_dead(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """The job runs elsewhere; the first owner's late result is refused and overwrites nothing."""
    add(jq)
    one, two = new_owner(), new_owner()
    job = claimed(one)
    let_die(one, client)
    assert 1 == jq.recover().jobs
    again = claimed(two)
    again.result = "second"
    job.result = "first"
    with pytest.raises(ClaimLostError):
        one.complete(job)
    two.complete(again)
    with pytest.raises(ClaimLostError):
        one.fail(job, "late")
    assert ["__completed__", "second", ""] == jq.get_job_data(job, "status", "result", "message")
    counters = jq.counts("q").queues["q"].counters
    assert (2, 1, 0, 1) == tuple(
        counters[name] for name in ("claimed", "completed", "failed", "recovered")
    )


def test_cancelled_is_told_with_the_beat(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A held job learns with the next beat that it is to stop; the others do not."""
    add_many(jq, 2)
    job, other = owner.claim_many("q", 2)
    assert "told" == jq.cancel(job)
    assert not job.cancelled
    owner.beat()
    assert (True, False) == (job.cancelled, other.cancelled)
    owner.fail(job, "cancelled")
    assert not client.exists("JobQueue:cancelled:jobs")
    assert not job.cancelled


def test_a_beat_while_the_owner_stops(jq: JobQueue, client: redis.Redis) -> None:
    """A fence that is noticed during a stop leaves no new owner behind."""
    for _ in range(10):
        owner = jq.owner(interval=0.001, lifetime=30).start()
        client.zrem(HEARTBEAT, owner.id)
        owner.stop()
        assert [] == jq.live_owners()
    with pytest.raises(JobQueueError):
        owner.beat()
