"""Entries whose job is gone, and entries that can be no job's: skipped, told, never in the way."""

from __future__ import annotations

import logging
import time

import pytest
import redis

from claims.tools import (
    ATTEMPTS,
    DEAD,
    DELAYED,
    LONG,
    PREFIX,
    RETRY,
    add,
    add_many,
    claimed,
    claims_key,
    held_key,
    ids,
    make_due,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import E_JOB_DELETED, JobDeletedError, JobQueue, Owner, StorableError
from redis_jobqueue.keys import Entry

PAST, COMING = int(time.time()) - 100, int(time.time()) + 1_000_000


def test_gone_before_its_time(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Code 5 with the id, the entry is taken off; so for an entry without an epoch."""
    client.rpush(queue_key(), f"one {COMING}", "two")
    for expected in ("one", "two"):
        if expected == "one":
            client.rpop(queue_key())
        else:
            client.rpush(queue_key(), "two")
        with pytest.raises(JobDeletedError) as caught:
            owner.claim("q")
        assert expected == caught.value.job_id
        assert f"{expected} job was removed prior to use" == str(caught.value)
        assert E_JOB_DELETED == jq.last_errorcode
        assert [expected] == owner.dangling
    assert owner.claim("q") is None
    assert [] == owner.dangling


def test_gone_after_its_time(client: redis.Redis, owner: Owner) -> None:
    """An entry whose epoch has passed and whose job is gone is skipped silently."""
    client.rpush(queue_key(), f"one {PAST}", f"two {PAST}")
    assert owner.claim("q") is None
    assert [] == owner.dangling
    assert not client.exists(queue_key())


def test_dangling_entries_hide_no_job(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """They are reported beside the job that was claimed behind them."""
    client.rpush(queue_key(), "one", f"two {COMING}", f"three {PAST}")
    job = add(jq)
    assert job.id == claimed(owner).id
    assert ["one", "two"] == owner.dangling
    client.rpush(queue_key("a"), "four")
    other = add(jq, "b")
    assert other.id == claimed(owner, ["a", "b"], order="listed").id
    assert ["four"] == owner.dangling


def test_claim_many_among_dangling_entries(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """As many as are asked for come, the others are reported; code 5 only if none came."""
    expected = add_many(jq, 4)
    for job_id in expected[1::2]:
        client.delete(PREFIX + job_id)
    assert expected[::2] == [job.id for job in owner.claim_many("q", 10)]
    assert expected[1::2] == owner.dangling
    client.rpush(queue_key(), "one", "two")
    with pytest.raises(JobDeletedError):
        owner.claim_many("q", 10)
    assert ["one", "two"] == owner.dangling


@pytest.mark.parametrize("blocking", [False, True])
def test_many_dangling_entries(
    blocking: bool, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """More of them than one script skips do not hide the job behind them."""
    client.rpush(queue_key(), *(f"gone-{number}" for number in range(1200)))
    job = add(jq)
    assert job.id == claimed(owner, blocking=blocking).id
    assert 1200 == len(owner.dangling)


def test_an_entry_of_the_past_of_a_living_job(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """An entry whose job lives is good, whatever its epoch says."""
    job = add(jq)
    client.delete(queue_key())
    client.rpush(queue_key(), f"{job.id} {PAST}")
    assert job.id == claimed(owner).id


BAD: dict[str, bytes] = {
    "empty": b"",
    "zero": b"0",
    "only a space": b" ",
    "a space first": b" 5",
    "an id with a colon": b"queue:q 99999999999",
    "not UTF-8": b"\xff\xfe\xfd",
    "1 MB": b"x" * 1_000_000,
    "a key of another type": b"text",
    "a newline": b"a\n",
    "zero bytes": b"\0\0",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_entries(
    name: str, jq: JobQueue, client: redis.Redis, owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    """What can be no job's is taken off with one line in the log; the job behind it is claimed."""
    caplog.set_level(logging.WARNING, "redis_jobqueue")
    client.set(PREFIX + "text", "no hash")
    client.rpush(queue_key(), BAD[name])
    job = add(jq)
    assert job.id == claimed(owner).id
    assert 1 == len(caplog.records)
    assert not client.exists(queue_key())
    assert b"no hash" == client.get(PREFIX + "text")


def test_an_entry_with_a_strange_time(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """What follows the id is no reason to lose a job, and it comes back as it was."""
    for tail in (" soon", " 5 6", " -5", " 99999999999999999999", " "):
        job = add(jq)
        client.delete(queue_key())
        client.rpush(queue_key(), f"{job.id}{tail}")
        held = claimed(owner)
        assert job.id == held.id
        owner.release(held)
        assert f"{job.id}{tail}".encode() == client.lindex(queue_key(), 0)
        owner.complete(claimed(owner))


LONG_TIMES = ["9" * 5000, "0" * 4400 + str(COMING), "1" + "0" * 400]


@pytest.mark.parametrize("epoch", LONG_TIMES, ids=["nines", "zeros first", "beyond a float"])
def test_a_time_of_any_length(
    jq: JobQueue, client: redis.Redis, owner: Owner, epoch: str
) -> None:
    """More digits than Python reads stop nobody: such a time lies ahead, the job is found."""
    job = add(jq)
    client.delete(queue_key())
    client.rpush(queue_key(), f"{job.id} {epoch}", f"gone {epoch}")
    assert [job.id, "gone"] == [row.id for row in jq.waiting("q")]
    assert ["waiting"] == [place.kind for place in jq.locate(job)]
    assert {job.id, "gone"} == set(jq.get_job_ids(queued=True))
    held = claimed(owner)
    assert job.id == held.id
    assert [job.id] == [row.id for row in jq.processing("q")]
    owner.release(held)
    taken = jq.get_next_job(queue="q")
    assert taken is not None and job.id == taken.id
    for take in (owner.claim, jq.get_next_job):
        with pytest.raises(JobDeletedError) as caught:
            take("q")
        assert "gone" == caught.value.job_id
        client.rpush(queue_key(), f"gone {epoch}")


def test_zeros_are_no_time(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Any number of zeros in front changes no number: this time is over, for Lua and for us."""
    past = "0" * 5000 + "5"
    client.rpush(queue_key(), f"gone {past}")
    assert 5 == Entry.parse(b"gone " + past.encode()).epoch
    assert owner.claim("q") is None
    assert not client.exists(queue_key())


def test_damaged_data(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A job whose workload cannot be read is claimed all the same, and can be buried."""
    bad = add(jq)
    good = add_many(jq, 10)
    client.hset(PREFIX + str(bad.id), mapping={"workload": "garbage", "note": "\x00\x01"})
    job = claimed(owner)
    with pytest.raises(StorableError):
        job.workload
    owner.bury(job, "cannot be read")
    assert b"garbage" == client.hget(PREFIX + str(bad.id), "workload")
    assert {str(bad.id): ["dead:jobs"]} == {
        job_id: where for job_id, where in places(client).items() if job_id not in good
    }
    assert good == [found.id for found in owner.claim_many("q", 20)]


def test_a_job_with_hardly_any_fields(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A hash that some other program made is claimed, finished and put back."""
    client.hset(PREFIX + "bare", "x", "y")
    client.rpush(queue_key(), "bare")
    job = claimed(owner)
    assert ("bare", "__working__") == (job._claim.job_id.decode(), job.status)
    owner.release(job)
    assert {"bare": ["queue:q"]} == places(client)
    found = stored(client, "bare")
    assert ("q", "bare", "__created__") == (
        found["queue"], found["__id_in_queue__"], found["status"]
    )  # fmt: skip
    owner.complete(claimed(owner))
    assert -1 == client.ttl(PREFIX + "bare")


def test_the_same_entry_twice(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """An entry that stands twice in a queue is held twice, and each ending takes one off."""
    (only,) = add_many(jq, 1)
    client.rpush(queue_key(), client.lindex(queue_key(), 0))
    one, two = owner.claim_many("q", 5)
    assert [only, only] == [one.id, two.id]
    owner.complete(one)
    assert [only] == ids(client, held_key(owner))
    owner.complete(two)
    assert {} == places(client)
    assert {b"#"} == set(client.hkeys(claims_key(owner)))


def test_hashes_expire_everywhere(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Ids whose hash has gone are dropped by each structure the next time that it is touched."""
    waits = str(add(jq).id)
    held = claimed(owner)
    delayed = str(jq.add_job({"queue": "q", "expire": LONG}, delay=1000).id)
    retried, dead = str(add(jq).id), str(add(jq).id)
    owner.retry(claimed(owner), 1000)
    owner.bury(claimed(owner))
    last = str(add(jq).id)
    for job_id in (waits, delayed, retried, dead, last):
        client.delete(PREFIX + job_id)
    with pytest.raises(JobDeletedError):
        owner.claim("q")
    with pytest.raises(JobDeletedError):
        owner.complete(held)
    make_due(client)
    assert {delayed, retried} == set(jq.promote_due().dropped)
    owner.upkeep()
    assert {} == places(client)
    assert not client.exists(DELAYED, RETRY, DEAD, ATTEMPTS)
    counted = jq.counts()
    assert (0, 0, 0) == (counted.delayed, counted.retrying, counted.dead)
