"""Steering: pause, concurrency, cancel, clear, add many, delete and update."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from support.proxy import Proxy
from support.server import Server
from support.watching import watched

from claims.tools import (
    ATTEMPTS,
    CANCELLED,
    DEAD,
    LONG,
    PREFIX,
    RETRY,
    add,
    add_many,
    claimed,
    entries,
    held_key,
    ids,
    let_die,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import (
    ArgumentError,
    DataTooLargeError,
    Job,
    JobDeletedError,
    JobQueue,
    MaxMemoryError,
    NetworkError,
    Owner,
    RedisError,
)
from redis_jobqueue.lua import SCRIPTS

# Pause.


def test_pause_and_resume(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Claims skip a paused queue; Perl's call and ours of that name do not see it."""
    add_many(jq, 2)
    other = add(jq, "other")
    assert not jq.is_paused("q")
    assert jq.pause("q")
    assert jq.is_paused("q")
    assert owner.claim("q") is None
    assert [] == owner.claim_many("q", 5)
    assert other.id == claimed(owner, ["q", "other"]).id
    assert jq.get_next_job("q") is not None
    assert jq.resume("q")
    assert not jq.is_paused("q")
    claimed(owner)
    assert not client.exists("JobQueue:paused:queues")


def test_pause_with_compare_and_set(jq: JobQueue) -> None:
    """With ``expected`` the change is made only if the state is what the operator saw."""
    assert not jq.pause("q", expected=True)
    assert not jq.is_paused("q")
    assert jq.pause("q", expected=False)
    assert not jq.pause("q", expected=False)
    assert jq.pause("q")
    assert not jq.resume("q", expected=False)
    assert jq.is_paused("q")
    assert jq.resume("q", expected=True)
    assert not jq.resume("q", expected=True)
    assert jq.resume("q")


def test_concurrency(jq: JobQueue) -> None:
    """The number and when it was set, by the server's clock; 0 is a number too."""
    assert jq.desired_concurrency("q") is None
    before = jq.now_ms() / 1000
    was = jq.set_concurrency("q", 5)
    assert before <= was.set_at <= jq.now_ms() / 1000
    assert was == jq.desired_concurrency("q")
    assert 0 == jq.set_concurrency("q", 0).count
    found = jq.desired_concurrency("q")
    assert found is not None
    assert 0 == found.count
    for bad in (-1, 1.5, "3", True):
        with pytest.raises(ArgumentError):
            jq.set_concurrency("q", bad)  # type: ignore[arg-type]


# Cancel.


def test_cancel_what_waits(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A waiting, a delayed and a retrying job are deleted."""
    waits = add(jq, "w")
    delayed = jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    add(jq)
    retrying = claimed(owner)
    owner.retry(retrying, 1000)
    for job in (waits, delayed, retrying):
        assert "deleted" == jq.cancel(job)
        assert jq.cancel(job) is None
    assert {} == places(client)
    assert [] == jq.get_job_ids()
    assert not client.exists(ATTEMPTS, CANCELLED)


def test_cancel_what_is_held(
    jq: JobQueue, client: redis.Redis, owner: Owner, new_owner: Callable[..., Owner]
) -> None:
    """A held job is told with the beat, also the next owner's after the first one died."""
    add(jq, "q:x")
    first = new_owner()
    job = claimed(first, "q:x")
    assert "told" == jq.cancel(job.id)
    assert "told" == jq.cancel(job.id)
    assert not job.cancelled
    let_die(first, client)
    assert 1 == jq.recover().jobs
    again = claimed(owner, "q:x")
    owner.beat()
    assert again.cancelled
    owner.fail(again)
    assert not client.exists(CANCELLED)


def test_cancel_what_is_over(jq: JobQueue, owner: Owner) -> None:
    """A finished, a dead and an unknown job, and one that Perl took, cannot be cancelled."""
    add_many(jq, 3)
    done, dead = claimed(owner), claimed(owner)
    owner.complete(done)
    owner.bury(dead)
    taken = jq.get_next_job("q")
    assert taken is not None
    for job in (done, dead, taken, "nobody"):
        assert jq.cancel(job) is None
    assert 3 == len(jq.get_job_ids())


# Clear.


def test_clear_queue(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """The waiting jobs of the named queues are deleted, and counted; nothing else is."""
    add_many(jq, 250)
    add_many(jq, 3, "b")
    kept = [add(jq, "c"), jq.add_job({"queue": "q", "expire": LONG}, delay=1000)]
    held = claimed(owner)
    client.rpush(queue_key(), "gone", "queue:c", "")
    assert 252 == jq.clear_queue("q", "b", "none")
    assert 0 == jq.clear_queue("q")
    assert 0 == jq.clear_queue()
    assert {str(job.id) for job in [*kept, held]} == set(jq.get_job_ids())
    assert 1 == client.llen(queue_key("c"))
    owner.complete(held)


# Many at once.


def test_add_jobs(server: Server, jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Many jobs, of several queues, in order, at most a hundred in a script."""
    many = [Job(queue="ab"[n % 2], expire=LONG, workload=n, meta_data={"n": n}) for n in range(250)]
    with watched(server) as seen:
        added = jq.add_jobs(many)
    assert many == added
    assert 250 == len({job.id for job in added})
    assert all([] == job.modified_attributes() for job in added)
    assert 3 <= len(seen.names) <= 4
    assert [str(job.id) for job in many[::2]] == ids(client, queue_key("a"))
    assert [str(job.id) for job in many[1::2]] == ids(client, queue_key("b"))
    taken = owner.claim_many("a", 100)
    assert list(range(0, 200, 2)) == [job.workload for job in taken]
    assert LONG - 5 <= client.ttl(PREFIX + str(many[1].id)) <= LONG
    assert [] == jq.add_jobs([])


def test_the_size_of_slices(server: Server, jq: JobQueue) -> None:
    """A slice has ``batch_size`` jobs, a hundred, or a megabyte at most; one large job is one."""
    with watched(server) as seen:
        jq.add_jobs([{"queue": "q", "expire": 0} for _ in range(10)], batch_size=4)
    assert 3 <= len(seen.names) <= 4
    with watched(server) as seen:
        jq.add_jobs([{"queue": "q", "expire": 0, "workload": "x" * 400_000} for _ in range(5)])
    assert 3 == len(seen.names)
    with watched(server) as seen:
        jq.add_jobs([{"queue": "q", "expire": 0, "workload": "x" * 3_000_000} for _ in range(2)])
    assert 2 == len(seen.names)


def test_add_jobs_in_front(jq: JobQueue, client: redis.Redis) -> None:
    """With LPUSH each is put in front: the last one is next."""
    (first,) = add_many(jq, 1)
    added = jq.add_jobs([{"queue": "q", "expire": LONG} for _ in range(3)], LPUSH=True)
    assert [*(str(job.id) for job in reversed(added)), first] == ids(client, queue_key())


def test_bad_jobs_among_many(jq: JobQueue, client: redis.Redis) -> None:
    """All are checked and frozen before any is sent: one bad job, and none is added."""
    good = {"queue": "q", "expire": 60}
    same = Job(good)
    jq.max_datasize = 10_000
    for error, bad in (
        (ArgumentError, "text"), (ArgumentError, {"queue": "q"}), (ArgumentError, None),
        (ArgumentError, {"queue": "caf\xe9", "expire": 1}), (ArgumentError, same),
        (ArgumentError, {"queue": "q", "expire": 1 << 60}),
        (DataTooLargeError, {"queue": "q", "expire": 1, "workload": "x" * 20_000}),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            jq.add_jobs([*[good] * 150, same, bad])  # type: ignore[list-item]
        assert () == caught.value.added
    assert [] == client.keys("*")


def test_add_jobs_that_fails_half_way(server: Server, client: redis.Redis) -> None:
    """The error carries the ids that are there, and those of the slice without an answer."""
    with Proxy(server) as proxy, JobQueue(proxy.url) as jq:
        client.script_load(SCRIPTS["add_jobs"].text)
        for executed in (False, True):
            jobs = [Job(queue="q", expire=60, job=f"name-{n}") for n in range(250)]
            (proxy.lose_reply if executed else proxy.cut_before)(b"name-150")
            with pytest.raises(NetworkError) as caught:
                jq.add_jobs(jobs)
            error = caught.value
            assert (100, 100) == (len(error.added), len(error.unknown))
            assert list(error.added) == [job.id for job in jobs[:100]]
            there = set(jq.get_job_ids())
            assert set(error.added) <= there
            assert set(error.unknown) & there == (set(error.unknown) if executed else set())
            assert {"queue:q"} == {where for (where,) in places(client).values()}
            jq.clear()


def test_add_jobs_that_the_server_refuses(own_server: Server) -> None:
    """A full server and a queue that is no list refuse a slice as a whole."""
    with JobQueue(own_server.url, check_maxmemory=False) as jq, own_server.client() as client:
        client.set(queue_key("bad"), "no list")
        many = [{"queue": "q", "expire": 60} for _ in range(100)]
        with pytest.raises(RedisError) as caught:
            jq.add_jobs([*many, *many[:50], {"queue": "bad", "expire": 60}])
        assert (100, ()) == (len(caught.value.added), caught.value.unknown)
        assert 100 == client.llen(queue_key()) == len(jq.get_job_ids())
        client.config_set("maxmemory", 1)
        with pytest.raises(MaxMemoryError) as full:
            jq.add_jobs(many)
        assert ((), ()) == (full.value.added, full.value.unknown)
        assert 100 == client.llen(queue_key())


# Delete and update.


@pytest.mark.parametrize(
    "where", ["waiting", "held", "shared", "delayed", "retrying", "dead", "finished"]
)
def test_delete(
    where: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A deleted job's entry and its count of attempts are taken off wherever they are."""
    if where == "delayed":
        job = jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    else:
        job = add(jq)
        if where == "shared":
            client.lmove(queue_key(), "JobQueue:processing:q", "LEFT", "LEFT")
        elif where != "waiting":
            job = claimed(owner)
        if where == "retrying":
            owner.retry(job, 1000)
        elif where == "dead":
            owner.bury(job)
        elif where == "finished":
            owner.complete(job)
    client.hset(ATTEMPTS, str(job.id), 3)
    assert jq.delete_job(job)
    assert not jq.delete_job(job)
    assert {} == places(client)
    assert not client.exists(ATTEMPTS, PREFIX + str(job.id))
    if where == "held":
        with pytest.raises(JobDeletedError):
            owner.complete(job)


def test_delete_among_others(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Only the one job's entry goes; queues whose names start alike are kept apart."""
    for name in ("q", "q:x"):
        add_many(jq, 3, name)
    one, *others = owner.claim_many(["q", "q:x"], 6)
    assert jq.delete_job(one)
    assert sorted(str(job.id) for job in others) == sorted(places(client))
    owner.complete_many(others)


@pytest.mark.parametrize("where", ["held", "delayed", "retrying", "dead"])
def test_an_update_while_it_does_not_wait(
    where: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Our update gives no time to live to a job that must not have one; later it gets it."""
    if where == "delayed":
        job = jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    else:
        add(jq)
        job = claimed(owner)
    if where == "retrying":
        owner.retry(job, 1000)
    elif where == "dead":
        owner.bury(job)
    other = jq.load_job(job)
    assert other is not None
    other.message = "updated"
    assert 2 == jq.update_job(other)
    assert "updated" == stored(client, job)["message"]
    assert -1 == client.ttl(PREFIX + str(job.id))
    client.zadd(RETRY if where == "retrying" else DEAD, {"x": 9e15})
    if where == "held":
        owner.complete(job)
    elif where == "dead":
        assert jq.revive(job)
    else:
        client.zadd(PREFIX + ("delayed:jobs" if where == "delayed" else "retry:jobs"),
                    {str(job.id): 1})  # fmt: skip
        assert [job.id] == jq.promote_due().jobs
    assert LONG - 5 <= client.ttl(PREFIX + str(job.id)) <= LONG


def test_an_update_of_a_job_that_waits(jq: JobQueue, client: redis.Redis) -> None:
    """Of a waiting job, and of one that is never to expire, the time to live is as in Perl."""
    job = add(jq, expire=LONG)
    client.expire(PREFIX + str(job.id), 5)
    job.message = "x"
    jq.update_job(job)
    assert 5 < client.ttl(PREFIX + str(job.id))
    forever = add(jq, expire=0)
    forever.message = "x"
    jq.update_job(forever)
    assert -1 == client.ttl(PREFIX + str(forever.id))


def test_clear(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """``clear`` empties the namespace, and nothing outside of it."""
    client.set("other", 1)
    client.set("JobQueue2:queue:q", 1)
    add_many(jq, 3)
    claimed(owner)
    jq.pause("q")
    assert jq.clear() > 5
    assert {b"other", b"JobQueue2:queue:q"} == set(client.keys("*"))
    assert owner.beat() is False
    add(jq)
    assert 1 == len(entries(client, queue_key()))
    claimed(owner)
    assert 1 == len(ids(client, held_key(owner)))
