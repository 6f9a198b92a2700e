"""Completing a job and claiming the next in the same trip."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from claims.tools import PREFIX, add, add_many, claimed, claims_key, let_die, queue_key
from redis_jobqueue import ClaimLostError, JobDeletedError, JobQueue, Owner


def test_claim_next(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Completing may claim the next of the same queue, of another, or of several."""
    add_many(jq, 2)
    other = add(jq, "other")
    job = claimed(owner)
    job.result = 1
    following = owner.complete(job, claim_next=True)
    assert following is not None
    assert ("q", "__working__", 1) == (following.queue, following.status, following.attempt)
    following = owner.complete(following, claim_next=["q", "other"], order="listed", mark=False)
    assert following is not None
    assert (other.id, "__created__") == (following.id, following.status)
    assert owner.complete(following, claim_next="other") is None
    assert [] == owner.held
    assert 3 == sum(jq.counts(name).queues[name].counters["completed"] for name in ("q", "other"))


def test_claim_next_of_a_refused_completion(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A completion that is refused claims nothing."""
    add_many(jq, 3)
    lost, deleted = owner.claim_many("q", 2)
    client.hdel(claims_key(owner), lost._claim.field)
    client.delete(PREFIX + str(deleted.id))
    with pytest.raises(ClaimLostError):
        owner.complete(lost, claim_next=True)
    with pytest.raises(JobDeletedError):
        owner.complete(deleted, claim_next=True)
    assert 1 == client.llen(queue_key())
    assert [] == owner.held


def test_claim_next_of_a_paused_queue(jq: JobQueue, owner: Owner) -> None:
    """The next is claimed under the rules of a claim: not from a paused queue."""
    add_many(jq, 2)
    job = claimed(owner)
    jq.pause("q")
    assert owner.complete(job, claim_next=True) is None
    assert "__completed__" == jq.get_job_data(job, "status")
    assert 1 == jq.queue_length("q")


def test_claim_next_reports_dangling_entries(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Entries whose job is gone are reported beside, and raise nothing."""
    first, gone, last = add_many(jq, 3)
    client.delete(PREFIX + gone)
    job = claimed(owner)
    following = owner.complete(job, claim_next=True)
    assert following is not None
    assert (last, [gone]) == (following.id, owner.dangling)


def test_claim_next_with_a_job_of_an_old_id(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """A job claimed under an id that is no more: refused if it was fenced, nothing claimed."""
    add_many(jq, 2)
    owner = new_owner()
    job = claimed(owner)
    let_die(owner, client)
    jq.recover()
    owner.beat()
    with pytest.raises(ClaimLostError):
        owner.complete(job, claim_next=True)
    assert 2 == client.llen(queue_key())
