"""Attempts and their limit, and saves: what happens to a job while it is held."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from claims.tools import (
    ATTEMPTS,
    PREFIX,
    add,
    add_many,
    claimed,
    claims_key,
    let_die,
    make_due,
    places,
    stored,
)
from redis_jobqueue import ClaimLostError, JobQueue, Owner
from redis_jobqueue.operations import claims

SIZE = 1 << 20

# Attempts.


def test_attempts(jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]) -> None:
    """Only deliveries that failed are counted: retries, and deaths after ``begun``."""
    add(jq)
    owner = new_owner()
    job = claimed(owner)
    assert 1 == job.attempt
    owner.requeue(job)
    owner.release(claimed(owner))
    assert 1 == (job := claimed(owner)).attempt
    assert owner.retry(job)
    make_due(client)
    jq.promote_due()
    assert 2 == (job := claimed(owner)).attempt
    let_die(owner, client)
    jq.recover()
    owner = new_owner()
    assert 2 == (job := claimed(owner)).attempt
    job.begun()
    owner.begun(job)
    let_die(owner, client)
    jq.recover()
    jq.recover()
    owner = new_owner()
    assert 3 == (job := claimed(owner)).attempt
    owner.complete(job)
    assert not client.exists(ATTEMPTS)
    assert 1 == job.attempt


def test_prefetched_neighbours_are_not_charged(
    jq: JobQueue, client: redis.Redis, owner: Owner, new_owner: Callable[..., Owner]
) -> None:
    """Of many held jobs only those that had begun cost an attempt."""
    add_many(jq, 5)
    jobs = owner.claim_many("q", 5)
    owner.begun(jobs[1], jobs[3])
    let_die(owner, client)
    jq.recover()
    again = new_owner().claim_many("q", 5)
    assert [1, 2, 1, 2, 1] == [job.attempt for job in again]


def test_begun_of_a_lost_claim(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Work on a job that is not held any more is refused; the others of the call are marked."""
    add_many(jq, 2)
    lost, held = owner.claim_many("q", 2)
    client.hdel(claims_key(owner), lost._claim.field)
    with pytest.raises(ClaimLostError):
        owner.begun(lost, held)
    let_die(owner, client)
    jq.recover()
    assert {str(held.id): b"1"} == {k.decode(): v for k, v in client.hgetall(ATTEMPTS).items()}


@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_of_retries(
    limit: int, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """``retry`` buries at the owner's limit, and says so."""
    add(jq)
    owner = new_owner(max_attempts=limit)
    for attempt in range(1, limit + 1):
        job = claimed(owner)
        assert attempt == job.attempt
        job.message = f"failure {attempt}"
        assert (attempt < limit) is owner.retry(job)
        make_due(client)
        jq.promote_due()
    assert {str(job.id): ["dead:jobs"]} == places(client)
    assert "__failed__" == job.status
    assert ["__failed__", f"failure {limit}"] == jq.get_job_data(job, "status", "message")


def test_the_limit_of_recovery(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """A job that kills its owners is buried with the reason at the dead owner's own limit."""
    killer, good = add_many(jq, 2)
    for attempt in range(1, 4):
        owner = new_owner(max_attempts=3)
        job = claimed(owner)
        assert (killer, attempt) == (job.id, job.attempt)
        job.begun()
        let_die(owner, client)
        done = jq.recover(max_attempts=99)
        assert (0, 1) if attempt == 3 else (1, 0) == (done.jobs, done.buried)
    assert ["dead:jobs"] == places(client)[killer]
    message = jq.get_job_data(killer, "message")
    assert "attempts are used up" in message and owner.id in message
    assert good == claimed(new_owner()).id
    assert not client.exists(ATTEMPTS)
    assert 1 == jq.counts("q").queues["q"].counters["dead"]


def test_an_owner_without_a_limit_takes_the_reapers(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Where the dead owner set no limit, that of the one who recovers counts; 0 is none."""
    add(jq)
    for limit, buried in ((0, 0), (3, 0), (3, 1)):
        owner = new_owner()
        claimed(owner).begun()
        let_die(owner, client)
        assert buried == jq.recover(max_attempts=limit).buried


@pytest.mark.parametrize("verb", ["retry", "bury"])
def test_an_update_by_perl_before_it_is_set_aside(
    verb: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """The time to live that a Perl update of a held job started ends when it is set aside."""
    add(jq)
    job = claimed(owner)
    client.expire(PREFIX + str(job.id), 100)
    getattr(owner, verb)(job)
    assert -1 == client.ttl(PREFIX + str(job.id))


# Saves.


def test_save(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A save writes what was changed while held, deletes metadata too, and counts the fields."""
    add(jq, meta_data={"gone": 1})
    job = claimed(owner)
    assert 0 == job.save()
    job.progress = 0.5
    job.meta_data["seen"] = [1]
    del job.meta_data["gone"]
    assert 4 == job.save()  # updated is one of them
    found = jq.load_job(job)
    assert found is not None
    assert (0.5, {"seen": [1]}) == (found.progress, dict(found.meta_data))
    assert -1 == client.ttl(PREFIX + str(job.id))
    job.status = "half way"
    job.save()
    assert "half way" == jq.get_job_data(job, "status")
    owner.complete(job)
    assert "__completed__" == jq.get_job_data(job, "status")


def test_an_old_save_is_refused(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A save that is executed after a later one changes nothing; its repeat neither."""
    add(jq)
    job = claimed(owner)
    job.progress = 0.1
    late = claims.save(job, jq._keys, max_size=SIZE)
    request = next(late)
    job.progress = 0.9
    job.save()
    assert -2 == jq._driver.send(request)
    with pytest.raises(ClaimLostError, match="later save"):
        late.send(-2)
    assert "0.9" == stored(client, job)["progress"]
    client.hset(PREFIX + str(job.id), "progress", "0.95")
    job.progress = 0.97
    repeated = next(claims.save(job, jq._keys, max_size=SIZE))
    assert 1 == jq._driver.send(repeated)
    client.hset(PREFIX + str(job.id), "progress", "0.99")
    assert 1 == jq._driver.send(repeated)
    assert "0.99" == stored(client, job)["progress"]


def test_a_save_that_came_late(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A save executed after its job was completed or claimed anew by the same owner is refused."""
    add(jq)
    job = claimed(owner)
    job.message = "late"
    request = next(claims.save(job, jq._keys, max_size=SIZE))
    owner.release(job)
    job = claimed(owner)
    assert 0 == jq._driver.send(request)
    assert "late" == stored(client, job)["message"]  # the release has written it
    job.message = "late again"
    request = next(claims.save(job, jq._keys, max_size=SIZE))
    job.message = "in time"
    owner.complete(job)
    assert 0 == jq._driver.send(request)
    assert "in time" == stored(client, job)["message"]


def test_save_with_a_damaged_expire(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """An ``expire`` that Perl left and Redis refuses does not keep a held job from being saved."""
    job = add(jq)
    client.hset(PREFIX + str(job.id), "expire", "9300000000000000")
    held = claimed(owner)
    held.progress = 0.5
    held.save()
    assert "0.5" == stored(client, job)["progress"]
