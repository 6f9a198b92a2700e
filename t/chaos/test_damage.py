"""Keys of ours that hold something else: a script is refused whole, or does all that it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redis_jobqueue import Job, JobQueue, Owner, RedisError
from redis_jobqueue.connection import Driver
from redis_jobqueue.operations.request import Request

CALLS: dict[str, Callable[[JobQueue, Owner, Job], Any]] = {
    "claim": lambda jq, owner, job: owner.claim("q"),
    "claim_many": lambda jq, owner, job: owner.claim_many("q", 2),
    "complete": lambda jq, owner, job: owner.complete(job),
    "complete and claim": lambda jq, owner, job: owner.complete(job, claim_next="q"),
    "fail": lambda jq, owner, job: owner.fail(job),
    "retry": lambda jq, owner, job: owner.retry(job),
    "bury": lambda jq, owner, job: owner.bury(job),
    "requeue": lambda jq, owner, job: owner.requeue(job),
    "release": lambda jq, owner, job: owner.release(job),
    "save": lambda jq, owner, job: owner.save(job),
    "begun": lambda jq, owner, job: owner.begun(job),
    "beat": lambda jq, owner, job: owner.beat(),
    "recover": lambda jq, owner, job: jq.recover(),
    "promote": lambda jq, owner, job: jq.promote_due(),
    "revive": lambda jq, owner, job: jq.revive("BURIED"),
    "purge": lambda jq, owner, job: jq.purge_dead(),
    "cancel": lambda jq, owner, job: jq.cancel("WAITING-0"),
    "delete": lambda jq, owner, job: jq.delete_job("WAITING-0"),
    "clear": lambda jq, owner, job: jq.clear_queue("q"),
    "pause": lambda jq, owner, job: jq.pause("q"),
    "stop": lambda jq, owner, job: owner.stop(release=False),
}
ENDED = {b"__completed__", b"__failed__"}
DEAD = "dead-1"
LISTS = (b"queue", b"processing")


def keys_of(owner: Owner) -> list[str]:
    """Name our keys."""
    return [
        f"claims:{owner.id}", "owners:lists", "owners:about", "owners:heartbeat", "attempts:jobs",
        "delayed:jobs", "retry:jobs", "dead:jobs", "paused:queues", "cancelled:jobs", "stats:q",
        f"processing:q:{owner.id}", f"processing:q:{DEAD}", "queue:q",
    ]  # fmt: skip


def scene(jq: JobQueue, raw: redis.Redis) -> tuple[Owner, Job]:
    """Put a job everywhere; give an owner with a quiet heart, and the job that it holds."""
    raw.flushall()
    owner = jq.owner(interval=300, lifetime=900, max_attempts=9).start()
    jq.add_job({"queue": "q", "expire": 0})
    job = owner.claim("q")
    assert job is not None
    job.message = "changed"
    (pattern,) = raw.keys("JobQueue:*-*-*-*-*")
    fields = raw.hgetall(pattern) | {b"status": b"__created__"}
    with raw.pipeline() as pipe:
        for name in ("WAITING-0", "WAITING-1", "DUE", "AGAIN", "BURIED", "ORPHAN"):
            mine = {b"id": name, b"__id_in_queue__": name}
            pipe.hset(f"JobQueue:{name}", mapping={**fields, **mine})
        pipe.rpush("JobQueue:queue:q", "WAITING-0", "WAITING-1")
        pipe.zadd("JobQueue:delayed:jobs", {"DUE": 1})
        pipe.zadd("JobQueue:retry:jobs", {"AGAIN": 1})
        pipe.zadd("JobQueue:dead:jobs", {"BURIED": 1})
        pipe.rpush(f"JobQueue:processing:q:{DEAD}", "ORPHAN")
        pipe.sadd("JobQueue:owners:lists", f"q:{DEAD}")
        pipe.hset(f"JobQueue:claims:{DEAD}", "1", "1 0 1 1 qORPHAN")
        pipe.hset("JobQueue:attempts:jobs", job.id, 1)
        pipe.execute()
    return owner, job


def everything(raw: redis.Redis) -> dict[bytes, Any]:
    """Give the whole content of the server."""
    keys = raw.keys("*")
    with raw.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.dump(key)
        return dict(zip(keys, pipe.execute()))


def places(raw: redis.Redis) -> dict[bytes, list[bytes]]:
    """Give every place of every job."""
    found: dict[bytes, list[bytes]] = {}
    lists = [key for key in raw.keys("JobQueue:*:*") if key.split(b":")[1] in LISTS]
    sets = [f"JobQueue:{name}:jobs".encode() for name in ("delayed", "retry", "dead")]
    with raw.pipeline(transaction=False) as pipe:
        for key in lists:
            pipe.lrange(key, 0, -1)
        for key in sets:
            pipe.zrange(key, 0, -1)
        for key, members in zip(lists + sets, pipe.execute(raise_on_error=False)):
            for member in members if isinstance(members, list) else ():
                found.setdefault(member, []).append(key)
    return found


@pytest.fixture
def _whole(monkeypatch: pytest.MonkeyPatch, raw: redis.Redis) -> None:
    """Fail when a script that answers with an error has changed something."""
    send = Driver.send

    def watched(self: Driver, request: Request) -> Any:
        before = everything(raw)
        try:
            return send(self, request)
        except RedisError as error:
            assert "WRONGTYPE" in str(error)
            assert before == everything(raw), f"{request} was refused half-way"
            raise

    monkeypatch.setattr(Driver, "send", watched)


@pytest.mark.usefixtures("_whole")
@pytest.mark.parametrize("call", CALLS)
def test_a_key_of_another_type(call: str, jq: JobQueue, raw: redis.Redis) -> None:
    """Whether the call is refused or not, each job is where it ought to be: in one place."""
    for place in range(len(keys_of(jq.owner()))):
        owner, job = scene(jq, raw)
        damaged = "JobQueue:" + keys_of(owner)[place]
        away = {m for m, keys in places(raw).items() if damaged.encode() in keys}
        raw.set(damaged, "something else")
        try:
            CALLS[call](jq, owner, job)
        except RedisError:
            pass
        assert raw.get(damaged) in (b"something else", None)
        found = places(raw)
        for key in raw.keys("JobQueue:*"):
            job_id = key.partition(b":")[2]
            if b":" in job_id or job_id in away:
                continue
            ended = raw.hget(key, "status") in ENDED and job_id != b"BURIED"
            expected = (0, 1) if ended else (1,)
            assert len(found.get(job_id, ())) in expected, (call, damaged, job_id, found)


@pytest.mark.parametrize("call", CALLS)
def test_damaged_numbers(call: str, jq: JobQueue, raw: redis.Redis) -> None:
    """Counters and attempts that are no numbers hold up nothing."""
    owner, job = scene(jq, raw)
    names = ("claimed", "completed", "failed", "retried", "dead", "recovered")
    raw.hset("JobQueue:stats:q", mapping=dict.fromkeys(names, "many"))
    raw.hset("JobQueue:attempts:jobs", mapping=dict.fromkeys((str(job.id), "ORPHAN"), "some"))
    CALLS[call](jq, owner, job)
    for job_id, keys in places(raw).items():
        assert 1 == len(keys), (job_id, keys)
