"""Consumers that pop as Perl does beside Python owners that are killed: nobody loses a job."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from sizes import Size
from support.server import Server, eventually

from chaos.fleet import LOST, QUEUE, Fleet, add_work, nothing_is_left
from chaos.test_processes import KILLING, PATIENCE, Trouble
from chaos.workers import CODE_5, DONE, RUNS
from perl.peer import HERE as SCRIPTS
from perl.peer import PERL, missing
from redis_jobqueue import STATUS_COMPLETED, Job, JobQueue

pytestmark = pytest.mark.timeout(300)
EACH = 5
"""Consumers of either kind."""
PORTIONS = 5
"""In which Python's jobs are added, with a kill between them."""


@pytest.fixture
def fleet(server: Server) -> Iterator[Fleet]:
    """Return a fleet without workers yet."""
    with Fleet(server) as fleet:
        yield fleet


def produce_like_perl(raw: redis.Redis, jq: JobQueue, count: int) -> None:
    """Add jobs command by command in a transaction, as Perl's add_job does."""
    (pattern,) = jq.add_jobs([{"queue": "pattern", "expire": 3600, "workload": {"number": 3}}])
    fields = raw.hgetall(f"JobQueue:{pattern.id}")
    jq.delete_job(pattern)
    now = jq.now_ms() // 1000
    for number in range(count):
        job_id = f"PERL-{number:05}"
        entry = f"{job_id} {now + 3600}"
        with raw.pipeline() as transaction:
            mine = {b"id": job_id, b"queue": QUEUE, b"__id_in_queue__": entry}
            transaction.hset(f"JobQueue:{job_id}", mapping={**fields, **mine})
            transaction.expire(f"JobQueue:{job_id}", 3600)
            transaction.rpush(f"JobQueue:queue:{QUEUE}", entry)
            transaction.execute()


def watch_entries(raw: redis.Redis) -> None:
    """Fail unless every entry that waits is the one that its job names."""
    for entry in raw.lrange(f"JobQueue:queue:{QUEUE}", 0, 20):
        job_id, _, epoch = entry.partition(b" ")
        assert epoch.isdigit()
        stored = raw.hget(b"JobQueue:" + job_id, "__id_in_queue__")
        assert stored in (None, entry), "it would outlive Perl's delete_job"


def all_completed(raw: redis.Redis, ids: list[str]) -> Callable[[], bool]:
    """Make a condition: all of these are completed."""

    def done() -> bool:
        watch_entries(raw)
        with raw.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.hget(f"JobQueue:{job_id}", "status")
            return {STATUS_COMPLETED.encode()} == set(pipe.execute())

    return done


def test_poppers_and_owners(fleet: Fleet, jq: JobQueue, raw: redis.Redis, size: Size) -> None:
    """Every job is done, and no popper meets an entry whose job is gone."""
    for _ in range(EACH):
        fleet.immortal.add(fleet.start(role="pop"))
    fleet.start_all(2 * EACH, raw)
    half = size.jobs // 2
    producer = threading.Thread(target=produce_like_perl, args=(raw, jq, half))
    producer.start()
    jobs: list[Job] = []
    with Trouble(fleet.kill_one, KILLING) as trouble:
        for kills in range(PORTIONS):
            jobs += add_work(jq, half // PORTIONS)
            eventually(lambda kills=kills: trouble.times > kills, "one is killed")
        producer.join()
        ids = [*(str(job.id) for job in jobs), *(f"PERL-{n:05}" for n in range(half))]
        eventually(all_completed(raw, ids), "all jobs done", PATIENCE)
    assert 0 == raw.llen(CODE_5)
    by = Counter()
    for job_id in ids:
        runs = raw.hgetall(f"{RUNS}{job_id}")
        job = jq.load_job(job_id)
        assert job is not None
        finished = job.result["run"].encode()
        assert finished in runs
        assert raw.smembers(f"{DONE}{job_id}") <= {finished}
        by["perl" if runs[finished] == b"perl" else "python"] += 1
        by["again"] += len(runs) - 1
    assert by["perl"] and by["python"], by
    counters = jq.counts([QUEUE]).queues[QUEUE].counters
    assert by["python"] == counters["completed"]
    assert by["again"] <= counters["recovered"]
    assert raw.scard(LOST) <= by["again"]
    fleet.stop()
    nothing_is_left(jq, raw)


@pytest.mark.skipif(bool(missing()), reason=str(missing()))
def test_the_real_module(
    fleet: Fleet, jq: JobQueue, raw: redis.Redis, server: Server, size: Size, tmp_path: Path
) -> None:
    """The same with producers and workers of the real module."""
    address = f"127.0.0.1:{server.port}"
    fleet.start_all(EACH, raw)
    workers = []
    for number in range(EACH):
        with open(tmp_path / f"worker-{number}", "wb") as out:
            command = [PERL, str(SCRIPTS / "worker.pl"), address, f"perl-{number}", QUEUE]
            workers.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT))
    try:
        half = size.jobs // 2
        with Trouble(fleet.kill_one, KILLING):
            command = [PERL, str(SCRIPTS / "producer.pl"), address, "perl", str(half), QUEUE]
            ids = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            jobs = jq.add_jobs(
                [
                    {"queue": QUEUE, "expire": 3600, "workload": {"text": "a b", "numbers": [n]}}
                    for n in range(half)
                ]
            )
            every = [*(str(job.id) for job in jobs), *ids.stdout.split()]
            eventually(all_completed(raw, every), "all jobs done", PATIENCE)
        fleet.stop()
        jq.add_jobs([{"queue": QUEUE, "job": "stop", "expire": 600}] * EACH)
        for number, worker in enumerate(workers):
            assert 0 == worker.wait(PATIENCE), (tmp_path / f"worker-{number}").read_text()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    printed = [
        line
        for number in range(EACH)
        for line in (tmp_path / f"worker-{number}").read_text().split()
    ]
    assert set(printed) <= set(every) and len(printed) == len(set(printed))
    assert len(every) - len(printed) == jq.counts([QUEUE]).queues[QUEUE].counters["completed"]
    nothing_is_left(jq, raw)
