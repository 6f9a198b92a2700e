"""Keys of one queue that hold something else: they hold up no other queue."""

from __future__ import annotations

import logging

import pytest
import redis

from claims.tools import add, add_many, held_key, ids, queue_key, stored
from redis_jobqueue import JobQueue, Owner, RedisError


def test_release_beside_a_wrong_key(
    jq: JobQueue, client: redis.Redis, owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    """Jobs of a queue whose key holds something else stay held; all others go back."""
    caplog.set_level(logging.WARNING, "redis_jobqueue")
    expected = add_many(jq, 150)
    held = owner.claim_many("q", 100) + owner.claim_many("q", 50)
    stuck = add(jq, queue="bad")
    (bad,) = owner.claim_many("bad", 1)
    client.set(queue_key("bad"), "something else")
    assert 150 == owner.release([*held[:50], bad, *held[50:]])
    assert expected == ids(client, queue_key())
    assert [bad] == owner.held and [stuck.id] == ids(client, held_key(owner, "bad"))
    assert 1 == len(caplog.records)
    client.delete(queue_key("bad"))
    assert 1 == owner.release(bad)
    assert [stuck.id] == ids(client, queue_key("bad"))


def test_complete_many_beside_a_wrong_key(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """One that cannot be ended is told when all the others are, and stays held."""
    add_many(jq, 3)
    add(jq, queue="bad")
    (bad,) = owner.claim_many("bad", 1)
    good = owner.claim_many("q", 3)
    client.set(queue_key("bad"), "something else")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        owner.complete_many([bad, *good])
    assert [bad] == owner.held
    assert ["__completed__"] * 3 == [stored(client, job.id)["status"] for job in good]
    client.delete(queue_key("bad"))
    owner.complete(bad)
