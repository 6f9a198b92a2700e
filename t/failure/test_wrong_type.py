"""Keys of other types in the place of queues and jobs: E_REDIS, and nothing is half written."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import redis
from support.calls import CALLS
from support.server import Server, eventually

from failure.tools import JOB, dump, refused, user
from redis_jobqueue import JobQueue, RedisError

pytestmark = pytest.mark.connections


OTHERS: dict[str, Callable[[redis.Redis, str], object]] = {
    "string": lambda client, key: client.set(key, "x"),
    "set": lambda client, key: client.sadd(key, "x"),
    "zset": lambda client, key: client.zadd(key, {"x": 1}),
    "stream": lambda client, key: client.xadd(key, {"x": 1}),
}


@pytest.mark.parametrize("kind", [*OTHERS, "hash"])
def test_queue_of_another_type(client: redis.Redis, jq: JobQueue, kind: str) -> None:
    """A key of another type in the place of a queue: E_REDIS, and nothing is half written."""
    make = OTHERS.get(kind, lambda client, key: client.hset(key, "x", 1))
    make(client, "JobQueue:queue:q")
    waiting = jq.add_job(JOB | {"queue": "good"})
    before = dump(client)
    refused(jq, lambda: jq.add_job(JOB), "WRONGTYPE")
    refused(jq, lambda: jq.queue_length("q"), "WRONGTYPE")
    refused(jq, lambda: jq.get_next_job("q"), "WRONGTYPE")
    refused(jq, lambda: jq.get_next_job("q", blocking=True), "WRONGTYPE")
    assert before == dump(client)
    got: list[object] = []
    for _ in range(20):  # in random order: sooner or later the good one comes first
        try:
            got += filter(None, [jq.get_next_job_id(["q", "good"])])
        except RedisError as error:
            assert "WRONGTYPE" in str(error)
        if got:
            break
    assert [waiting.id] == got, "what was taken was given"


@pytest.mark.parametrize("kind", [*OTHERS, "list"])
def test_job_of_another_type(client: redis.Redis, jq: JobQueue, kind: str) -> None:
    """A key of another type in the place of a job: E_REDIS, nothing written, the id is named."""
    job = jq.add_job(JOB)
    key = f"JobQueue:{job.id}"
    client.delete(key)
    OTHERS.get(kind, lambda client, key: client.rpush(key, "x"))(client, key)
    before = dump(client)
    job.message = "x"
    for name in ("update_job", "load_job", "get_job_data", "get_job_meta_fields"):
        refused(jq, lambda: CALLS[name](jq, job), "WRONGTYPE")
    assert before == dump(client)
    assert [] == jq.get_job_ids()
    assert {"length": 1, "all_jobs": 0} == jq.queue_status("q")
    error = refused(jq, lambda: jq.get_next_job("q"), "WRONGTYPE")
    assert str(error).startswith(str(job.id))
    client.rpush("JobQueue:queue:q", str(job.id))
    error = refused(jq, lambda: jq.get_next_job("q", blocking=True), "WRONGTYPE")
    assert str(error).startswith(str(job.id))


def test_popped_and_then_refused(
    server: Server, client: redis.Redis, jq: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a blocking wait took before the server refused to say more is named by the error."""
    jq.add_job(JOB | {"queue": "warm"})
    found: list[str] = []

    def wait() -> None:
        with pytest.raises(RedisError, match="READONLY|NOPERM") as caught:
            waiter.get_next_job("q", blocking=True)
        found.append(str(caught.value))

    user(client, "~JobQueue:*", "+@all")
    waiter = JobQueue(f"redis://worker:secret@127.0.0.1:{server.port}")
    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
    user(client, "-evalsha")
    added = jq.add_job(JOB)
    waiting.join(20)
    assert 1 == len(found) and found[0].startswith(f"{added.id}: ")
