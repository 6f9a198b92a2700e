"""How claims end: attempts and their limit, saves, many at once, and what late calls change."""

from __future__ import annotations

import logging

import pytest
import redis
from support.server import Server
from support.watching import watched

from claims.tools import (
    ATTEMPTS,
    DEAD,
    LISTS,
    PREFIX,
    RETRY,
    Caller,
    add,
    add_many,
    claimed,
    claims_key,
    endings,
    held_key,
    ids,
    make_due,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import (
    E_JOB_DELETED,
    ClaimLostError,
    DataTooLargeError,
    Job,
    JobDeletedError,
    JobQueue,
    MaxMemoryError,
    NetworkError,
    Owner,
    StorableError,
)
from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations import claims, finishing

# One round trip each.


def test_one_round_trip_each(server: Server, jq: JobQueue, owner: Owner) -> None:
    """Each call of an owner is one command, one script, and one round trip."""
    assert owner.claim("q") is None
    owner.beat()  # says which queue it serves
    add_many(jq, 12)
    with server.client() as other:
        for body in SCRIPTS.values():
            other.script_load(body.text)
    with watched(server) as seen:
        jobs = owner.claim_many("q", 4)
        for verb, job in zip(("complete", "fail", "retry", "bury"), jobs):
            getattr(owner, verb)(job)
        job = claimed(owner)
        job.message = "y"
        job.save(), job.begun()
        following = owner.complete(job, claim_next=True)
        assert following is not None
        owner.release(following)
        many = owner.claim_many("q", 2)
        owner.complete_many(many)
        owner.beat()
    # Claim_many, four endings, claim, save, begun, complete, release, claim_many,
    # complete_many, beat.
    assert ["EVALSHA"] * 13 == seen.names


def test_endings_do_not_look_through_the_queue(
    server: Server, jq: JobQueue, owner: Owner
) -> None:
    """However long the queue is, an ending touches only the list of what is held."""
    add_many(jq, 300)
    jobs = owner.claim_many("q", 5)
    with watched(server) as seen:
        owner.complete(jobs[0]), owner.fail(jobs[1]), owner.retry(jobs[2]), owner.bury(jobs[3])
        owner.requeue(jobs[4])
    removed = [words.split()[1] for words in seen.inner if words.startswith("LREM ")]
    assert [held_key(owner)] * 5 == removed
    assert not {"LRANGE", "LPOS", "LINDEX"} & seen.all_names


# Fencing.


@pytest.mark.parametrize("verb", ["complete", "fail", "retry", "bury", "requeue", "release"])
def test_what_arrives_late_changes_nothing(
    verb: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """An old finishing request is refused although the same owner holds the job anew."""
    add_many(jq, 2)
    job = claimed(owner)
    job.message = "late"
    request = next(finishing.finish(verb, endings(verb, job), jq._keys))
    job.clear_modified()
    owner.release(job)
    again = claimed(owner)
    assert job.id == again.id
    before = dump(client)
    assert [0] == jq._driver.send(request)
    assert before == dump(client)
    owner.complete(again)


@pytest.mark.parametrize("verb", ["complete", "fail", "retry", "bury", "requeue", "release"])
def test_a_token_that_was_claimed_with_twice(
    verb: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A claim request that is executed again, late, makes a claim of another number."""
    add(jq)
    me = owner._of_now()
    request = claims.claim_request(me.id, me.take_token(), [b"q"], 1, True, jq._keys)
    (job,) = claims.read_claimed(jq._driver.send(request), me.id, owner, "auto").jobs
    late = next(finishing.finish(verb, endings(verb, job), jq._keys))
    owner.release(job)
    (again,) = claims.read_claimed(jq._driver.send(request), me.id, owner, "auto").jobs
    assert (job.id, b"2") == (again.id, again._claim.number)
    before = dump(client)
    assert [0] == jq._driver.send(late)
    assert before == dump(client)
    assert 1 == len(ids(client, held_key(owner)))


@pytest.mark.parametrize("verb", ["complete", "fail", "retry", "bury", "requeue", "release"])
def test_the_first_request_after_its_repeat(
    verb: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A repeat that overtook the request: the job is ended once, and the late one is refused."""
    add_many(jq, 2)
    job = claimed(owner)
    operation = finishing.finish(verb, endings(verb, job), jq._keys)
    first = next(operation)
    repeat = operation.throw(NetworkError("no answer"))
    assert [1] == jq._driver.send(repeat)
    before = dump(client)
    assert [0] == jq._driver.send(first)
    assert [1] == jq._driver.send(repeat)
    assert before == dump(client)


def dump(client: redis.Redis) -> dict[bytes, bytes]:
    """Give the whole content of the server, apart from beats."""
    return {key: client.dump(key) for key in client.keys("*") if b"owners:heartbeat" not in key}


def test_only_a_repeat_may_find_no_claim(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A repeat is done if the job's status and result are what it writes; else it is refused."""
    for verb, other in (("complete", "fail"), ("fail", "complete"), ("bury", "complete")):
        jq.clear()
        owner.beat()
        add(jq)
        job = claimed(owner)
        job.result = job.message = "mine"
        operation = finishing.finish(verb, endings(verb, job), jq._keys)
        next(operation)
        repeat = operation.throw(NetworkError("no answer"))
        again = claimed_again(owner, job)
        again.result = again.message = "another's"
        getattr(owner, other)(again)
        assert [0] == jq._driver.send(repeat)
        client.delete(PREFIX + str(job.id))
        assert [1] == jq._driver.send(repeat)


def claimed_again(owner: Owner, job: Job) -> Job:
    """Release a job behind its holder's back, and claim it anew."""
    claim = job._claim
    owner._of_now().ended(claim.field)
    owner.beat()
    again = claimed(owner)
    assert job.id == again.id
    return again


# Many at once.


def test_complete_many(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Each is finished for itself; the first refusal is told when all others are done."""
    add_many(jq, 250)
    jobs = [job for _ in range(3) for job in owner.claim_many("q", 100)]
    for number, job in enumerate(jobs):
        job.result = number
    client.delete(PREFIX + str(jobs[3].id))
    client.hdel(claims_key(owner), jobs[7]._claim.field)
    owner.fail(jobs[9])
    with pytest.raises(ClaimLostError):  # the one that was failed already comes first
        owner.complete_many([jobs[9], jobs[0], *jobs])
    statuses = [jq.get_job_data(job, "status") for job in jobs]
    assert [None, "__working__", "__failed__"] == [statuses.pop(n) for n in (3, 6, 7)]
    assert {"__completed__"} == set(statuses)
    assert 249 == jq.get_job_data(jobs[249], "result")
    assert [str(jobs[7].id)] == ids(client, held_key(owner))
    assert [] == owner.held


def test_complete_many_of_none(owner: Owner) -> None:
    """Nothing is nothing."""
    owner.complete_many([])
    assert 0 == owner.release([])


def test_large_results_go_in_bounded_slices(
    server: Server, jq: JobQueue, owner: Owner
) -> None:
    """A script carries 1 MB at most, unless one job alone has more."""
    add_many(jq, 8)
    jobs = owner.claim_many("q", 8)
    for job in jobs:
        job.result = "x" * 300_000
    jobs[7].result = "x" * 3_000_000
    before = server.client().info("commandstats")["cmdstat_evalsha"]["calls"]
    owner.complete_many(jobs)
    after = server.client().info("commandstats")["cmdstat_evalsha"]["calls"]
    assert 4 == after - before
    assert 8 == jq.counts("q").queues["q"].counters["completed"]


def test_bad_data_ends_no_claim(jq: JobQueue, owner: Owner) -> None:
    """All is frozen before anything is sent: one bad result among many finishes none."""
    add_many(jq, 3)
    jobs = owner.claim_many("q", 3)
    jobs[2].result = [{1, 2}]
    with pytest.raises(StorableError):
        owner.complete_many(jobs)
    assert jobs == owner.held
    jobs[2].result = [1, 2]
    owner.complete_many(jobs)
    assert [1, 2] == jq.get_job_data(jobs[2], "result")


def test_too_large_a_result(jq: JobQueue, owner: Owner) -> None:
    """It is refused with code 2 and the job stays held, to be failed or retried."""
    add(jq)
    job = claimed(owner)
    jq.max_datasize = 1000
    job.result = "x" * 2000
    with pytest.raises(DataTooLargeError):
        owner.complete(job)
    with pytest.raises(DataTooLargeError):
        owner.complete(job, claim_next=True)
    job.result = ""
    owner.fail(job, "too large")
    assert "__failed__" == jq.get_job_data(job, "status")


# Release.


def test_release_keeps_the_order(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Whatever the order of the argument, the oldest claim ends up next."""
    expected = add_many(jq, 130)
    jobs = owner.claim_many("q", 100) + owner.claim_many("q", 20)
    assert 120 == owner.release(jobs[::2] + jobs[1::2])
    assert expected == ids(client, queue_key())


def test_release_skips_what_is_not_held(
    jq: JobQueue, client: redis.Redis, owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    """A finished, a lost, a deleted and an unfit job are logged and stop no other."""
    caplog.set_level(logging.WARNING, "redis_jobqueue")
    expected = add_many(jq, 6)
    done, lost, deleted, unfit, *rest = owner.claim_many("q", 6)
    owner.complete(done)
    client.hdel(claims_key(owner), lost._claim.field)
    client.delete(PREFIX + str(deleted.id))
    unfit.result = [object()]
    assert 3 == owner.release([done, lost, deleted, unfit, *rest])
    assert expected[3:] == ids(client, queue_key())
    assert 4 == len([each for each in caplog.records if each.levelno == logging.WARNING])


def test_requeue_goes_behind_the_others(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A requeued job waits behind those that wait; nothing is moved when the claim is gone."""
    one, two, three = add_many(jq, 3)
    job = claimed(owner)
    owner.requeue(job)
    assert [two, three, one] == ids(client, queue_key())
    with pytest.raises(ClaimLostError):
        owner.requeue(job)
    assert 3 == client.llen(queue_key())


# Deleted while held.


@pytest.mark.parametrize("verb", ["complete", "fail", "retry", "bury", "requeue"])
@pytest.mark.parametrize("how", ["Perl", "Python"])
def test_deleted_while_held(
    verb: str, how: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """The call says that the job is gone and takes the entry off; nothing is written."""
    add(jq)
    job = claimed(owner)
    client.hset(ATTEMPTS, str(job.id), 1)
    if how == "Perl":  # which knows only the queue
        client.lrem(queue_key(), 0, stored(client, job)["__id_in_queue__"])
        client.delete(PREFIX + str(job.id))
    else:
        assert jq.delete_job(job)
        assert not client.exists(held_key(owner))
    with pytest.raises(JobDeletedError) as caught:
        getattr(owner, verb)(job)
    assert str(job.id) == caught.value.job_id
    assert str(caught.value).startswith(str(job.id))
    assert E_JOB_DELETED == jq.last_errorcode
    assert {} == places(client)
    assert not client.exists(PREFIX + str(job.id), ATTEMPTS)
    assert {b"#"} == set(client.hkeys(claims_key(owner)))


def test_save_of_a_deleted_job(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A save does not bring a deleted job back."""
    add(jq)
    job = claimed(owner)
    jq.delete_job(job)
    job.message = "x"
    with pytest.raises(JobDeletedError):
        job.save()
    assert not client.exists(PREFIX + str(job.id))


# A server that is full, and keys that are not what they should be.


def test_a_full_server_drains(own_server: Server) -> None:
    """With maxmemory and noeviction jobs can still be claimed, finished, recovered, promoted."""
    with JobQueue(own_server.url, check_maxmemory=False) as jq, own_server.client() as client:
        add_many(jq, 12)
        late = jq.add_job({"queue": "q", "expire": 60}, delay=1000)
        make_due(client)
        dead = jq.owner().start()
        dead.claim_many("q", 2)
        client.config_set("maxmemory", 1)
        with pytest.raises(MaxMemoryError):
            add(jq)
        with pytest.raises(MaxMemoryError):
            jq.add_job({"queue": "q", "expire": 60}, delay=1)
        with pytest.raises(MaxMemoryError):
            jq.add_jobs([{"queue": "q", "expire": 60}] * 3)
        with jq.owner() as owner:
            owner.beat()
            client.eval("redis.call('DEL', '') redis.call('ZADD', KEYS[1], 1, ARGV[1])", 1,
                        "JobQueue:owners:heartbeat", dead.id)  # fmt: skip
            assert 2 == jq.recover().jobs
            assert [str(late.id)] == jq.promote_due().jobs
            jobs = owner.claim_many("q", 9)
            jobs[0].begun()
            following = owner.complete(jobs[0], claim_next=True)
            assert following is not None
            owner.fail(jobs[1]), owner.retry(jobs[2]), owner.bury(jobs[3])
            owner.requeue(jobs[4]), owner.release(jobs[5])
            jobs[6].message = "x"
            with pytest.raises(MaxMemoryError):
                jobs[6].save()
            assert jq.revive(jobs[3])
            assert jq.pause("q") and jq.resume("q")
            jq.set_concurrency("q", 3)
            owner.upkeep()
            waited = owner.claim("q", blocking=True, timeout=5)
            assert waited is not None
            owner.complete(waited)
        dead._heart.stop()
        client.config_set("maxmemory", 0)
        counters = jq.counts("q").queues["q"].counters
        assert (2, 1, 1, 1) == tuple(
            counters[name] for name in ("completed", "failed", "retried", "dead")
        )
        held = {job_id: where for job_id, where in places(client).items() if len(where) != 1}
        assert {} == held


WRONG = {
    RETRY: ("retry",),
    DEAD: ("retry", "bury"),
    ATTEMPTS: ("complete", "retry", "bury"),
    "JobQueue:cancelled:jobs": ("complete", "retry", "bury"),
}
"""Keys, and the calls that cannot do without them."""


@pytest.mark.parametrize("key", WRONG)
def test_a_key_of_the_wrong_type(
    key: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A script that finds a key of another type changes nothing; the job stays held."""
    add_many(jq, 2)
    job = claimed(owner)
    client.set(key, "x")
    before = dump(client)
    for call in WRONG[key]:
        with pytest.raises(Exception, match="WRONGTYPE"):
            getattr(owner, call)(job)
    if key == ATTEMPTS:
        with pytest.raises(Exception, match="WRONGTYPE"):
            owner.claim("q")
    assert before == dump(client)
    assert [job] == owner.held
    client.delete(key)
    owner.complete(job)


def test_threads_share_an_owner(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Eight threads claim and finish with one owner: every job once."""
    expected = add_many(jq, 200)

    def work() -> list[str]:
        done = []
        job = owner.claim("q")
        while job is not None:
            done.append(str(job.id))
            job = owner.complete(job, claim_next=True)
        return done

    callers = [Caller(work).start() for _ in range(8)]
    owner.beat()
    assert sorted(expected) == sorted(job_id for caller in callers for job_id in caller.get())
    assert 200 == jq.counts("q").queues["q"].counters["completed"]
    assert client.scard(LISTS) <= 1
