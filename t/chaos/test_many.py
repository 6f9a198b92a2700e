"""Eight thousand at once, by two schedulers or two reapers: short steps, each once, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import redis
from sizes import Size

from redis_jobqueue import Job, JobQueue
from redis_jobqueue.connection import Driver
from redis_jobqueue.operations import recovery
from redis_jobqueue.operations.request import Request, Script

COUNT = 8_000
"""More than a script of Lua may unpack at once."""
SLICE = 100
"""Jobs that one script moves at most."""


def hashes(raw: redis.Redis, queue: str) -> list[bytes]:
    """Write the hashes of many jobs as add_job does, in no queue; give their ids in order."""
    ids = [b"JOB-%05d" % number for number in range(COUNT)]
    with raw.pipeline(transaction=False) as pipe:
        for job_id in ids:
            fields = {
                "id": job_id, "queue": queue, "status": "__created__", "expire": 0,
                "__id_in_queue__": job_id, "created": 1, "started": 0, "workload": "", "result": "",
            }  # fmt: skip
            pipe.hset(b"JobQueue:" + job_id, mapping=fields)
        pipe.execute()
    return ids


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Script, Any]]:
    """Return a list to which every script that is sent is added, with its reply."""
    sent: list[tuple[Script, Any]] = []
    send = Driver.send

    def noting(self: Driver, request: Request) -> Any:
        reply = send(self, request)
        if isinstance(request, Script):
            sent.append((request, reply))
        return reply

    monkeypatch.setattr(Driver, "send", noting)
    return sent


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls in threads at the same time; give their results."""
    results: list[Any] = [None] * len(calls)
    ready = threading.Barrier(len(calls))

    def run(place: int) -> None:
        ready.wait()
        results[place] = calls[place]()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture
def two(jq: JobQueue) -> Iterator[tuple[JobQueue, JobQueue]]:
    """Return two queues with connections of their own."""
    with JobQueue(jq.server) as other:
        yield jq, other


def waiting(raw: redis.Redis, queue: str) -> list[bytes]:
    """Read the entries of a queue."""
    return list(raw.lrange(f"JobQueue:queue:{queue}", 0, -1))


@pytest.mark.parametrize("source", ["delayed", "retry"])
def test_two_schedulers(
    source: str, two: tuple[JobQueue, JobQueue], raw: redis.Redis, scripts: list[Any]
) -> None:
    """Each job that is due is promoted once, in the order in which they were due."""
    ids = hashes(raw, "q")
    raw.zadd(f"JobQueue:{source}:jobs", {job_id: 1000 + n for n, job_id in enumerate(ids)})
    done = at_once([lambda jq=jq: jq.promote_due(limit=COUNT) for jq in two])
    assert ids == waiting(raw, "q")
    assert COUNT == len(done[0].jobs) + len(done[1].jobs) == len({*done[0].jobs, *done[1].jobs})
    assert not raw.exists(f"JobQueue:{source}:jobs")
    moved = [len(reply[0]) for request, reply in scripts if request.name == "promote"]
    assert SLICE >= max(moved)


def test_those_of_a_served_queue_behind_those_of_another(
    jq: JobQueue, raw: redis.Redis
) -> None:
    """A thousand due jobs of a queue that is not asked for hide nothing behind them."""
    ids = hashes(raw, "not served")
    raw.zadd("JobQueue:delayed:jobs", {job_id: 1000 + n for n, job_id in enumerate(ids)})
    jq.pause("not served")
    served = {jq.add_job({"queue": "q", "expire": 0}, delay=0).id for _ in range(10)}
    assert served == set(jq.promote_due("q", limit=10).jobs)
    assert served == {entry.decode() for entry in waiting(raw, "q")}
    assert COUNT == raw.zcard("JobQueue:delayed:jobs")
    assert 0 == jq.queue_length("not served")


def test_a_bad_id_blocks_nothing(jq: JobQueue, raw: redis.Redis) -> None:
    """What can be no job is buried, what is gone is dropped, and those behind come."""
    good = jq.add_job({"queue": "q", "expire": 0}, delay=0).id
    raw.set("JobQueue:a string", "x")
    raw.hset("JobQueue:without a queue", "id", "without a queue")
    bad = {"a string": 1, "without a queue": 2, "gone": 3, "with:colon": 4, "": 5, "0": 6}
    raw.zadd("JobQueue:delayed:jobs", bad)
    done = jq.promote_due()
    assert [good] == done.jobs
    assert {"a string", "without a queue"} <= set(done.buried)
    assert set(bad) == {*done.buried, *done.dropped}
    assert not raw.exists("JobQueue:delayed:jobs")


@pytest.mark.parametrize("queue", ["q", "with: colon", "q:q"])
def test_two_reapers(
    queue: str, two: tuple[JobQueue, JobQueue], raw: redis.Redis, scripts: list[Any]
) -> None:
    """What a dead owner held goes back in slices, the oldest claim next, each job once."""
    ids = hashes(raw, queue)
    mine = f"JobQueue:processing:{queue}:dead-1"
    with raw.pipeline(transaction=False) as pipe:
        for job_id in ids:  # the latest claim stands at the head
            pipe.lpush(mine, job_id)
        pipe.execute()
    raw.sadd("JobQueue:owners:lists", f"{queue}:dead-1")
    later = two[0].add_job({"queue": queue, "expire": 0}).id
    done = at_once([two[0].recover, two[1].recover])
    assert [*ids, later.encode()] == waiting(raw, queue)
    assert COUNT == sum(each.jobs for each in done)
    assert COUNT == two[0].counts([queue]).queues[queue].counters["recovered"]
    assert SLICE >= max(reply[0] for request, reply in scripts if request.name == "recover")
    assert not raw.exists(mine, "JobQueue:owners:lists", "JobQueue:owners:about")


def test_a_reaper_that_died(jq: JobQueue, raw: redis.Redis) -> None:
    """Wherever a recovery stopped, the next one goes on, and each job comes back once."""
    jobs = jq.add_jobs([{"queue": f"q{n % 3}", "expire": 0} for n in range(300)])
    by_queue = {f"q{n}": [job.id for job in jobs if f"q{n}" == job.queue] for n in range(3)}
    deaths, finished = 0, False
    while not finished:
        owner = jq.owner(interval=300, lifetime=900).start()
        held = [job for queue in by_queue for job in owner.claim_many(queue, 100)]
        assert 300 == len(held)
        owner.begun(*held)
        raw.zadd("JobQueue:owners:heartbeat", {owner.id: 1})
        finished = run_steps(jq, deaths)
        jq.recover(max_attempts=0)
        deaths += 1
        for queue, ids in by_queue.items():
            assert ids == [entry.decode() for entry in waiting(raw, queue)]
        counted = raw.hvals("JobQueue:attempts:jobs")
        assert 300 * [b"%d" % deaths] == counted, "an attempt is counted once"
        assert not raw.exists("JobQueue:owners:lists", "JobQueue:owners:about")
    assert deaths > 5  # lapsed, fence, a slice of each queue, forget


def run_steps(jq: JobQueue, count: int) -> bool:
    """Let a recovery send so many requests, and die; tell whether it had come to its end."""
    operation = recovery.recover(None, None, 0, jq._keys)
    request = next(operation)
    for _ in range(count):
        try:
            request = operation.send(jq._driver.send(request))
        except StopIteration:
            return True
    operation.close()
    return False


def test_producers_and_schedulers(jq: JobQueue, raw: redis.Redis, size: Size) -> None:
    """Jobs that are added while others are promoted are promoted once, every one."""
    each = size.jobs // 2
    added: list[object] = []
    promoted: list[object] = []

    def produce() -> None:
        with JobQueue(jq.server) as mine:
            for number in range(each):
                delay = number % 50 / 1000
                added.append(mine.add_job({"queue": "q", "expire": 0}, delay=delay).id)

    def promote() -> None:
        with JobQueue(jq.server) as mine:
            while len(promoted) < 2 * each:
                promoted.extend(mine.promote_due(limit=3).jobs)

    at_once([produce, produce, promote, promote])
    assert sorted(map(str, added)) == sorted(map(str, promoted))
    assert sorted(map(str, added)) == sorted(entry.decode() for entry in waiting(raw, "q"))
    assert not raw.exists("JobQueue:delayed:jobs")


def test_a_look_for_orphans_touches_only_what_is_registered(
    jq: JobQueue, raw: redis.Redis, scripts: list[tuple[Script, Any]]
) -> None:
    """With fifty living owners on two hundred queues: a few short reads, no scan of the keys."""
    owners = [f"owner-{n}" for n in range(50)]
    lists = [f"queue-{n}:{owner}" for n in range(200) for owner in owners[n % 50 : n % 50 + 2]]
    raw.zadd("JobQueue:owners:heartbeat", {owner: jq.now_ms() + 600_000 for owner in owners})
    raw.hset("JobQueue:owners:about", mapping={owner: "{}" for owner in owners})
    raw.sadd("JobQueue:owners:lists", *lists)
    raw.config_resetstat()
    done = jq.recover()
    assert (0, []) == (done.jobs, done.owners)
    assert {"lapsed"} == {request.name for request, _ in scripts}
    assert len(scripts) <= 2 * len(lists) // 100
    commands = raw.info("commandstats")
    assert not {"cmdstat_keys", "cmdstat_scan"} & set(commands)


def test_both_at_once_while_owners_work(jq: JobQueue, raw: redis.Redis) -> None:
    """Schedulers, reapers and owners beside each other: every job is done once."""
    count = 400
    jobs = [
        jq.add_job({"queue": "q", "expire": 0, "workload": n}, **({"delay": 0.0} if n % 2 else {}))
        for n in range(count)
    ]
    done: list[Job] = []

    def consume() -> None:
        with JobQueue(jq.server) as mine, mine.owner() as owner:
            while len(done) < count:
                job = owner.claim("q")
                if job is not None:
                    owner.complete(job)
                    done.append(job)

    def tend() -> None:
        with JobQueue(jq.server) as mine:
            while len(done) < count:
                mine.promote_due(limit=7)
                mine.recover()

    at_once([consume, consume, tend, tend])
    assert {job.id for job in jobs} == {job.id for job in done}
    assert count == len(done) == jq.counts(["q"]).queues["q"].counters["completed"]
    assert 0 == jq.counts(["q"]).queues["q"].counters["recovered"], "a live owner was recovered"
