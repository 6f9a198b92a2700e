"""Endings that the server refuses, that meet another thread's, or that another owner makes."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import redis

from claims.tools import (
    ATTEMPTS,
    DEAD,
    Caller,
    add,
    add_many,
    claimed,
    claims_key,
    endings,
    held_key,
    ids,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import ClaimLostError, Job, JobQueue, Owner, RedisError
from redis_jobqueue.operations import finishing

VERBS: dict[str, Callable[[Owner, Job], object]] = {
    "complete": lambda owner, job: owner.complete(job),
    "complete and claim": lambda owner, job: owner.complete(job, claim_next=True),
    "fail": lambda owner, job: owner.fail(job),
    "bury": lambda owner, job: owner.bury(job),
    "retry": lambda owner, job: owner.retry(job),
    "requeue": lambda owner, job: owner.requeue(job),
}

CAUSES: dict[str, Callable[[Owner], str]] = {"all": lambda owner: ATTEMPTS, "this job": held_key}
"""Keys that are of another type: one that all jobs share, and one of the job's own queue."""


# What the server refuses.


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_refusal_freezes_nothing(
    verb: str, cause: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """The call that is made again carries what the job says then."""
    add(jq)
    job = claimed(owner)
    job.result = "old"
    key = CAUSES[cause](owner)
    client.set(key, "x")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        VERBS[verb](owner, job)
    client.delete(key)
    job.result = "new"
    VERBS[verb](owner, job)
    assert "new" == jq.get_job_data(job, "result")


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_refused_call_made_again_is_no_repeat(
    verb: str, cause: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """No answer was lost: where the claim is gone by then, the call says so."""
    add(jq)
    job = claimed(owner)
    key = CAUSES[cause](owner)
    client.set(key, "x")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        VERBS[verb](owner, job)
    client.delete(key)
    client.delete(claims_key(owner))
    status = "__completed__" if verb.startswith("complete") else "__failed__"
    client.hset(f"JobQueue:{job.id}", "status", status)
    if verb == "bury":
        client.zadd(DEAD, {str(job.id): 1})
    with pytest.raises(ClaimLostError):
        VERBS[verb](owner, job)


def test_one_refused_among_many(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Of many it is the refused one alone that may still change."""
    add_many(jq, 2)
    add(jq, "bad")
    jobs = [*owner.claim_many("q", 2), claimed(owner, "bad")]
    for job in jobs:
        job.result = "old"
    client.set(held_key(owner, "bad"), "x")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        owner.complete_many(jobs)
    client.delete(held_key(owner, "bad"))
    jobs[2].result = "new"
    owner.complete(jobs[2])
    assert ["old", "old", "new"] == [jq.get_job_data(job, "result") for job in jobs]


# Another thread, at that moment.


class Meanwhile(logging.Handler):
    """Lets another thread do something when something is logged."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act = act
        self.acted = False

    def emit(self, record: logging.LogRecord) -> None:
        """Do it, once, and wait for its end."""
        if not self.acted:
            self.acted = True
            Caller(self.act).start().get()


@pytest.mark.parametrize("how", ["release", "stop"])
def test_finished_while_all_are_released(
    how: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """A job that another thread finishes at that moment keeps no other from going back."""
    expected = add_many(jq, 5)
    owner = new_owner()
    jobs = owner.claim_many("q", 5)
    jobs[4].result = [object()]  # which is logged, between the look at what is held and the rest
    handler = Meanwhile(lambda: owner.complete(jobs[2]))
    logging.getLogger("redis_jobqueue").addHandler(handler)
    try:
        assert 4 == (owner.release(jobs) if how == "release" else owner.stop())
    finally:
        logging.getLogger("redis_jobqueue").removeHandler(handler)
    assert handler.acted
    del expected[2]
    assert expected == ids(client, queue_key())
    assert "__completed__" == stored(client, jobs[2])["status"]


def test_who_was_first_is_told_so(jq: JobQueue, owner: Owner) -> None:
    """A job is completed; before the answer is read, another thread tries to release it."""
    add(jq)
    job = claimed(owner)
    claim = job._claim
    done = jq._run(finishing.finish("complete", endings("complete", job), jq._keys))
    assert 0 == owner.release(job)
    assert 1 == owner._ended(job, claim, "complete", done[0])
    assert "__completed__" == job.status


# Another owner of this process.


@pytest.mark.parametrize("verb", [*VERBS, "release", "complete_many"])
def test_ended_through_another_owner(
    verb: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """It is over for the owner that held it as well, which goes on with all else."""
    add_many(jq, 2)
    first, second = new_owner(), new_owner()
    job, other = claimed(first), claimed(first)
    if verb == "release":
        assert 1 == second.release(job)
    elif verb == "complete_many":
        second.complete_many([job])
    else:
        VERBS[verb](second, job)
    assert [other] == first.held
    assert [other._claim.field] == first._of_now().snapshot()[1]
    assert [str(other.id)] == ids(client, held_key(first))
    assert 1 == first.stop()
    assert ["queue:q"] == places(client)[str(other.id)]
