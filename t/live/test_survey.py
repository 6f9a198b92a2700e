"""Calls that look over all jobs: in bounded steps, never by KEYS, whatever else is there."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
import redis
from sizes import Size
from support.server import Server
from support.watching import Seen, watched

from redis_jobqueue import JobQueue

STEP = 500
SLOW_MS = 5


@pytest.fixture(scope="module")
def crowded(_shared_server: Server, size: Size) -> Iterator[Server]:
    """Return a server with many jobs in three queues, and foreign keys of every type."""
    _shared_server.reset()
    count = size.survey_jobs
    with _shared_server.client() as client:
        pipe = client.pipeline(transaction=False)
        for number in range(count):
            name, queue = f"{number:032X}", ("a", "b", "c:d")[number % 3]
            status = "__created__" if number % 2 else "__completed__"
            fields = {"id": name, "queue": queue, "status": status, "created": 1e9 + number,
                      "expire": 0, "__id_in_queue__": name}  # fmt: skip
            pipe.hset(f"JobQueue:{name}", mapping=fields)
            if number % 2:
                pipe.rpush(f"JobQueue:queue:{queue}", name)
            if number % 10 == 0:
                pipe.set(f"foreign:{number}", "x" * 100)
            if number % 1000 == 999:
                pipe.execute()
        pipe.execute()
        foreign(client)
        client.config_set("slowlog-log-slower-than", SLOW_MS * 1000)
        client.slowlog_reset()
    yield _shared_server


def foreign(client: redis.Redis) -> None:
    """Put keys beside the jobs that are none, though some look like it."""
    for prefix in ("JobQueue:", "JobQueue:queue:", "JobQueue:queue:x:", "JobQueueX:", "Job"):
        client.set(prefix + "string", "x")
        client.sadd(prefix + "set", "x")
        client.zadd(prefix + "zset", {"x": 1})
        client.xadd(prefix + "stream", {"x": 1})
        client.hset(prefix + "list\xff", "x", 1)
        client.setbit(prefix + "bits", 7, 1)
    for prefix in ("JobQueue:processing:", "JobQueue:x:y:", "x"):
        client.hset(prefix + "hash", "queue", "a")
        client.rpush(prefix + "list", "x")
    client.rpush("JobQueue:list", "x")


def bounded(seen: Seen) -> None:
    """Check that no command looked at more than a step, and none was KEYS."""
    assert not {"KEYS", "SMEMBERS", "SORT"} & seen.all_names
    for words in seen.sent + seen.inner:
        if scan := re.match(r"SCAN \S+ MATCH \S+ COUNT (\d+)", words, re.IGNORECASE):
            assert int(scan[1]) <= STEP
        elif page := re.match(r"LRANGE \S+ (-?\d+) (-?\d+)", words, re.IGNORECASE):
            assert int(page[2]) - int(page[1]) < STEP
        elif words.upper().startswith(("SCAN", "LRANGE")):
            pytest.fail(f"without a bound: {words}")


@pytest.fixture
def slow(crowded: Server) -> Iterator[list[str]]:
    """Report what took the server longer than a few ms; time decides nothing."""
    noted: list[str] = []
    yield noted
    with crowded.client() as client:
        for each in client.slowlog_get(10):
            noted.append(f"{each['duration'] / 1000:.1f} ms: {each['command'][:80]!r}")
        client.slowlog_reset()
    if noted:
        print(f"slower than {SLOW_MS} ms:", *noted, sep="\n  ")


def test_get_job_ids(crowded: Server, size: Size, slow: list[str]) -> None:
    """All ids are given, once each, in bounded steps; foreign keys are no jobs."""
    count = size.survey_jobs
    with JobQueue(crowded.url) as jq:
        with watched(crowded) as seen:
            ids = jq.get_job_ids()
        bounded(seen)
        assert sorted(f"{number:032X}" for number in range(count)) + ["list\xff"] == sorted(
            each if isinstance(each, str) else each.decode() for each in ids
        )
        assert len(seen.sent) == seen.names.count("EVALSHA") + seen.names.count("EVAL")


def listed(names: object) -> list[object]:
    """Return a filter's names."""
    return names if isinstance(names, list) else [names] if names else []


@pytest.mark.parametrize("status", [None, "__completed__", ["__created__", "none"]])
@pytest.mark.parametrize("queue", [None, "a", ["b", "c:d"]])
@pytest.mark.parametrize("queued", [False, True])
def test_filters(
    crowded: Server, size: Size, slow: list[str], queue: object, status: object, queued: bool
) -> None:
    """Filters give what they say, queued or not."""
    queues, statuses = listed(queue), listed(status)
    expected = {
        f"{number:032X}"
        for number in range(size.survey_jobs)
        if (not queues or ("a", "b", "c:d")[number % 3] in queues)
        and (not statuses or ("__completed__", "__created__")[number % 2] in statuses)
        and (not queued or number % 2)
    }
    with JobQueue(crowded.url) as jq:
        ids = jq.get_job_ids(queue=queue, status=status, queued=queued)
    assert expected == {each for each in ids if each != "list\xff".encode()}
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("queued", [False, True])
def test_filters_in_steps(crowded: Server, slow: list[str], queued: bool) -> None:
    """With filters, too, no command looks at more than a step."""
    with JobQueue(crowded.url) as jq, watched(crowded) as seen:
        jq.get_job_ids(status="__created__", queued=queued)
    bounded(seen)


@pytest.mark.parametrize(("place", "queue"), [(0, "a"), (1, "b"), (2, "c:d")])
def test_queue_status(
    crowded: Server, size: Size, slow: list[str], place: int, queue: str
) -> None:
    """Length, number of jobs and ages are right, in bounded steps."""
    mine = range(place, size.survey_jobs, 3)
    waiting = [number for number in mine if number % 2]
    with JobQueue(crowded.url) as jq:
        with watched(crowded) as seen:
            before = time.time()
            status = jq.queue_status(queue)
            after = time.time()
        bounded(seen)
        assert (len(waiting), len(mine)) == (status["length"], status["all_jobs"])
        assert waiting[-1] - waiting[0] == status["lifetime"]
        assert before - 1e9 - waiting[0] <= status["max_job_age"] <= after - 1e9 - waiting[0]
        assert before - 1e9 - waiting[-1] <= status["min_job_age"] <= after - 1e9 - waiting[-1]


def test_empty_queue(crowded: Server) -> None:
    """A queue that nobody uses is empty and has no ages."""
    with JobQueue(crowded.url) as jq:
        assert {"length": 0, "all_jobs": 0} == jq.queue_status("none")
        assert [] == jq.get_job_ids(queue="none")
        assert [] == jq.get_job_ids(queue="none", queued=True)


def test_many_statuses(crowded: Server, size: Size) -> None:
    """A filter may have any number of statuses: Perl fails with 9,000."""
    statuses = [f"status {number}" for number in range(9_000)]
    with JobQueue(crowded.url) as jq:
        assert [] == jq.get_job_ids(status=statuses)
        expected = size.survey_jobs // 2
        assert expected == len(jq.get_job_ids(status=[*statuses, "__created__"]))
        assert expected == len(jq.get_job_ids(status=[*statuses, "__created__"], queued=True))


def test_clear_leaves_the_rest(crowded: Server, size: Size) -> None:
    """``clear`` deletes the namespace in bounded steps and nothing else; it ends this module."""
    with crowded.client() as client, JobQueue(crowded.url) as jq:
        names = {b"foreign:%d" % number for number in range(0, size.survey_jobs, 10)}
        others = {key for key in client.scan_iter(count=STEP) if not key.startswith(b"JobQueue:")}
        assert names < others
        with watched(crowded) as seen:
            jq.clear()
        bounded(seen)
        assert others == set(client.scan_iter(count=STEP))
