"""Keys that hold something else than they should: what is in the way of one bars no other."""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import pytest
import redis

from claims.blocking import MODES, blocked, load_scripts, perl_push
from claims.tools import (
    ABOUT,
    DEAD,
    DELAYED,
    HEARTBEAT,
    LISTS,
    PREFIX,
    RETRY,
    add,
    add_many,
    claimed,
    held_key,
    ids,
    queue_key,
    stored,
)
from redis_jobqueue import JobQueue, Owner, RedisError
from redis_jobqueue.operations import doctor
from redis_jobqueue.operations.doctor import Seen, Spot
from redis_jobqueue.operations.request import Script

REAPER = PREFIX + "owners:reaper"


# Jobs that are held, of which one is of a broken queue.


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
    client.set(held_key(owner, "bad"), "something else")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        owner.complete_many([bad, *good])
    assert [bad] == owner.held
    assert ["__completed__"] * 3 == [stored(client, job.id)["status"] for job in good]
    client.delete(held_key(owner, "bad"))
    owner.complete(bad)


@pytest.mark.parametrize("key", ["queue:q", "stats:q", "retry:jobs", "delayed:jobs"])
@pytest.mark.parametrize("verb", ["complete", "fail", "bury"])
def test_an_end_needs_no_other_key(
    verb: str, key: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """What was done is stored, whatever holds something else that it has nothing to do with."""
    add(jq)
    job = claimed(owner)
    client.set(PREFIX + key, "something else")
    getattr(owner, verb)(job)
    status = "__completed__" if verb == "complete" else "__failed__"
    assert status == stored(client, job.id)["status"]
    assert [] == owner.held and not client.exists(held_key(owner))


# Claims from several queues, of which one is broken.


def broken(client: redis.Redis, owner: Owner, what: str) -> str:
    """Let a key of the queue ``bad`` be a string; give its name."""
    key = {"list": queue_key("bad"), "held": held_key(owner, "bad"), "stats": PREFIX + "stats:bad"}
    client.set(key[what], "something else")
    return key[what]


@pytest.mark.parametrize("what", ["list", "held", "stats"])
def test_one_of_several_queues(
    what: str, jq: JobQueue, client: redis.Redis, owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    """It is passed over, and named once; the others are served."""
    expected = add_many(jq, 4)
    key = broken(client, owner, what)
    names = ["bad", "q"]
    first = claimed(owner, names, order="listed")
    second = owner.complete(first, claim_next=names, order="listed")
    assert second is not None
    many = owner.claim_many(names, 5, order="listed")
    assert expected == [job.id for job in (first, second, *many)]
    assert owner.claim(names) is None

    def told() -> list[str]:
        return [each.queue for each in caplog.records if "can be claimed" in each.message]

    assert ["bad"] == told()
    client.delete(key)
    job = add(jq, "bad")
    assert job.id == claimed(owner, names).id
    client.delete(PREFIX + "stats:bad", held_key(owner, "bad"))
    broken(client, owner, what)
    assert owner.claim(names) is None
    assert ["bad", "bad"] == told()


def test_none_of_them_can_be_claimed_from(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Where all are broken a claim says so; a job is completed all the same."""
    job, rest = add(jq), add(jq)
    held = claimed(owner)
    broken(client, owner, "list")
    client.set(queue_key("worse"), "x")
    for call in (owner.claim, lambda names: owner.claim_many(names, 5)):
        with pytest.raises(RedisError, match="WRONGTYPE"):
            call(["bad", "worse"])
    assert owner.complete(held, claim_next=["bad", "worse"]) is None
    assert "__completed__" == stored(client, job)["status"]
    assert [rest.id] == ids(client, queue_key()) and [] == owner.held


@pytest.mark.parametrize("mode", MODES)
def test_waiting_beside_a_broken_queue(
    mode: str, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Whoever waits for several queues goes on to wait for the good ones."""
    load_scripts(client)
    owner = new_owner(wait_modes=[mode])
    broken(client, owner, "list")
    caller = blocked(owner, client, ["q", "bad"])
    expected = perl_push(client)
    assert expected == caller.get().id


# Ids that name a key of ours.


def test_an_id_that_names_no_job_is_never_kept(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """The turn of the reapers, and whatever else has a time to live, runs out as it should."""
    kept = str(add(jq).id)
    foreign = [REAPER, PREFIX + "lock", PREFIX + "a:hash"]
    for key in (DELAYED, RETRY, DEAD):
        client.zadd(key, dict.fromkeys(["owners:reaper", "lock", "a:hash", kept], 1e15))
    client.set(foreign[0], "x"), client.set(foreign[1], "x"), client.hset(foreign[2], "x", "x")
    for key in foreign:
        client.expire(key, 100)
    client.expire(PREFIX + kept, 100)
    owner._tend_sets()
    assert all(client.pttl(key) > 0 for key in foreign)
    assert -1 == client.ttl(PREFIX + kept)


def test_an_id_that_names_a_hash_of_ours(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """What is due, revived or cancelled under such an id leaves the hash as it is."""
    before = client.hgetall(ABOUT)
    client.zadd(DELAYED, {"owners:about": 1})
    assert ["owners:about"] == jq.promote_due().buried
    client.hset(ABOUT, "queue", "q")
    assert jq.revive("owners:about") is False
    client.hdel(ABOUT, "queue")
    client.zadd(DELAYED, {"owners:about": 1})
    assert jq.cancel("owners:about") is None
    assert before == client.hgetall(ABOUT)
    assert not client.exists(queue_key())


# What doctor looks at.


@pytest.mark.parametrize("key", [LISTS, HEARTBEAT])
def test_doctor_looks_at_a_job(
    key: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """One of the keys about owners is a string: the rest is seen."""
    job = add(jq)
    held = str(claimed(owner).id)
    entry = client.lindex(held_key(owner), 0)
    owner._heart.stop()
    client.delete(key)
    client.set(key, "x")
    spots = [Spot("processing", entry, b"q", owner.id.encode())]
    seen = jq._run(doctor.look(Seen(held.encode(), True, spots=spots), jq._keys))
    assert seen.there and job.id == held
    # Without the lists nobody says whose list it is; without the beats nobody lives.
    expected = [] if key == LISTS else [attrs.evolve(spots[0], lives=False)]
    assert expected == seen.spots
    drop = Script(
        "doctor_drop",
        (PREFIX.encode() + b"gone", held_key(owner).encode(), jq._keys.heartbeat),
        (b"gone", entry, owner.id.encode()),
    )
    assert 0 == jq._driver.send(drop)
    assert [held] == ids(client, held_key(owner))
