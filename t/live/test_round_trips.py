"""How many commands a call costs, read from the server itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from support.server import Server
from support.watching import counted, watched

from redis_jobqueue import Job, JobQueue

pytestmark = pytest.mark.connections

WIDE = {f"field {number}": "x" * 50 for number in range(100)}


@pytest.fixture
def jq(jq: JobQueue) -> Iterator[JobQueue]:
    """Return a queue whose scripts the server knows already."""
    job = jq.add_job({"queue": "warm", "expire": 60})
    job.message = "x"
    jq.update_job(job)
    jq.get_next_job("warm")
    jq.get_next_job("warm")
    jq.delete_job(job)
    jq.queue_status("warm")
    yield jq


CALLS: dict[str, tuple[str, Callable[[JobQueue, Job], object]]] = {
    "add_job": ("EVALSHA", lambda jq, job: jq.add_job({"queue": "q", "expire": 60})),
    "add_job, wide": (
        "EVALSHA",
        lambda jq, job: jq.add_job(
            {"queue": "q", "expire": 0, "workload": "w" * 100_000, "meta_data": WIDE}, LPUSH=True
        ),
    ),
    "update_job": ("EVALSHA", lambda jq, job: jq.update_job(job)),
    "delete_job": ("EVALSHA", lambda jq, job: jq.delete_job(job)),
    "load_job": ("HGETALL", lambda jq, job: jq.load_job(job)),
    "load_job, none": ("HGETALL", lambda jq, job: jq.load_job("none")),
    "get_job_data": ("HGETALL", lambda jq, job: jq.get_job_data(job)),
    "get_job_data, names": (
        "HMGET", lambda jq, job: jq.get_job_data(job, "status", "elapsed", "workload", "tag")
    ),
    "get_job_meta_fields": ("HKEYS", lambda jq, job: jq.get_job_meta_fields(job)),
    "get_next_job": ("EVALSHA", lambda jq, job: jq.get_next_job("q")),
    "get_next_job, none": ("EVALSHA", lambda jq, job: jq.get_next_job("none")),
    "get_next_job, many queues": (
        "EVALSHA", lambda jq, job: jq.get_next_job([f"q{i}" for i in range(1000)] + ["q"])
    ),
    "get_next_job, there is one": ("EVALSHA", lambda jq, job: jq.get_next_job("q", blocking=True)),
    "get_next_job_id": ("EVALSHA", lambda jq, job: jq.get_next_job_id(["a", "q", "b"])),
    "queue_length": ("LLEN", lambda jq, job: jq.queue_length("q")),
    "ping": ("PING", lambda jq, job: jq.ping()),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_one_round_trip(server: Server, jq: JobQueue, call: str) -> None:
    """The call is one command, and opens no connection."""
    job = jq.add_job({"queue": "q", "expire": 60, "meta_data": {"tag": 1}})
    job.status = "busy"
    job.meta_data["tag"] = 2
    expected, run = CALLS[call]
    with watched(server) as seen:
        run(jq, job)
    assert [expected] == seen.names


def test_nothing_to_send(server: Server, jq: JobQueue) -> None:
    """A call that has nothing to do sends nothing."""
    job = jq.add_job({"queue": "q", "expire": 60})
    with watched(server) as seen:
        assert 0 == jq.update_job(job)
        assert jq.get_next_job() is None
        assert jq.get_next_job([]) is None
        jq.quit()
    assert [] == seen.sent


def test_expired_entries_cost_no_round_trip(
    server: Server, jq: JobQueue, client: redis.Redis
) -> None:
    """Entries whose job is gone are skipped inside the one command, some hundred at a time."""
    client.rpush("JobQueue:queue:q", *[f"gone{i} 1" for i in range(400)])
    added = jq.add_job({"queue": "q", "expire": 60})
    with watched(server) as seen:
        taken = jq.get_next_job("q")
    assert ["EVALSHA"] == seen.names
    assert taken is not None and added.id == taken.id
    client.rpush("JobQueue:queue:q", *[f"gone{i} 1" for i in range(1200)])
    with watched(server) as seen:
        assert jq.get_next_job("q") is None
    assert ["EVALSHA"] * 3 == seen.names
    assert 0 == jq.queue_length("q")


def test_a_script_is_sent_whole_once(server: Server, client: redis.Redis) -> None:
    """A server that does not know a script is told once; that is one command more."""
    with JobQueue(server.url) as jq, watched(server) as seen:
        for _ in range(3):
            jq.add_job({"queue": "q", "expire": 60})
    assert ["EVALSHA", "EVAL", "EVALSHA", "EVALSHA"] == seen.names


def test_pop_and_push_touch_nothing_else(server: Server, jq: JobQueue) -> None:
    """What runs inside the scripts is as short: a list, a hash, its time to live."""
    with watched(server) as seen:
        jq.add_job({"queue": "q", "expire": 60, "workload": "w"})
    assert ["EXISTS", "TYPE", "HMSET", "HMSET", "EXPIRE", "RPUSH"] == [
        words.split()[0].upper() for words in seen.inner
    ]
    with counted(server) as counts:
        jq.get_next_job("q")
    assert {"evalsha", "lpop", "type", "hget", "expire", "hgetall"} == set(counts)
    assert {1} == set(counts.values())
