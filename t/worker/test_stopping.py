"""How a worker ends: told early, told twice, told while it does something else."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable

import pytest
from sizes import Size
from support.server import Server
from support.workers import Process, ended, eventually

from redis_jobqueue import STATUS_COMPLETED, STATUS_WORKING, Handler, Job, JobQueue, Worker

Start = Callable[..., Process]


def add(jq: JobQueue, do: str = "sleep", **values: object) -> Job:
    """Add a job for the workers in processes."""
    workload = {"do": do, "seconds": 0, **values}
    return jq.add_job({"queue": "work", "expire": 600, "workload": workload})


def working(jq: JobQueue, job: Job) -> None:
    """Wait until the handler of a job runs; that it was claimed is not enough."""
    eventually(lambda: jq.get_job_data(job, "message") == "begun")


def places(jq: JobQueue, job: Job) -> list[str]:
    """Return the kinds of the places that hold a job."""
    return [place.kind for place in jq.locate(job)]


def test_a_last_attempt_has_the_grace_time_too(jq: JobQueue, start: Start) -> None:
    """A job that runs alone is put back after it, uncharged, as any other; the code is 3."""
    job = add(jq, seconds=60)
    jq.redis.hset("JobQueue:attempts:jobs", str(job.id), 3)  # the next one is its last
    worker = start(grace=0.3, concurrency=4)
    working(jq, job)
    worker.signal(signal.SIGTERM)
    assert 3 == worker.end()[0]
    assert ["waiting"] == places(jq, job)
    assert b"3" == jq.redis.hget("JobQueue:attempts:jobs", str(job.id))


def test_a_last_attempt_that_waits_is_not_begun(jq: JobQueue, start: Start) -> None:
    """Told to stop while it waits to be alone, the worker puts the job back."""
    worker = start(grace=10, concurrency=4)
    running = add(jq, seconds=2)
    working(jq, running)
    jq.pause("work")
    last = add(jq)
    jq.redis.hset("JobQueue:attempts:jobs", str(last.id), 3)
    jq.resume("work")
    eventually(lambda: jq.get_job_data(last, "status") == STATUS_WORKING)  # and not begun
    worker.signal(signal.SIGTERM)
    assert 0 == worker.end()[0]
    assert STATUS_COMPLETED == jq.get_job_data(running, "status")
    assert ["waiting"] == places(jq, last)
    assert b"3" == jq.redis.hget("JobQueue:attempts:jobs", str(last.id))


@pytest.mark.parametrize("options", [{"max_jobs": 1}, {"max_time": 0.5}], ids=["jobs", "time"])
def test_the_first_signal_of_a_drain_is_no_second_one(
    options: dict[str, float], jq: JobQueue, start: Start
) -> None:
    """A worker that drains by itself goes on to do so."""
    job = add(jq, seconds=2)
    worker = start(grace=20, concurrency=2, **options)
    working(jq, job)
    time.sleep(0.7)  # now it drains, in both ways
    worker.signal(signal.SIGTERM)
    code, errors = worker.end()
    assert (0, STATUS_COMPLETED) == (code, jq.get_job_data(job, "status")), errors


def test_two_signals_in_one_moment(jq: JobQueue, start: Start) -> None:
    """However close they come, two are two, or one and the grace time."""
    job = add(jq, seconds=60)
    worker = start(grace=2)
    working(jq, job)
    for number in (signal.SIGTERM, signal.SIGINT):
        worker.signal(number)
    assert worker.end()[0] in (3, 128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert ["waiting"] == places(jq, job)


@pytest.mark.parametrize("processes", [0, 2])
def test_a_busy_worker_hears_signals(jq: JobQueue, start: Start, processes: int) -> None:
    """With all slots taken the grace time begins at the signal, and then all go back."""
    jobs = [add(jq, seconds=60) for _ in range(2)]
    worker = start(grace=0.2, concurrency=2, processes=processes)
    for job in jobs:
        working(jq, job)
    worker.signal(signal.SIGTERM)
    code, errors = worker.end()
    assert 3 == code, errors
    assert {"waiting"} == {kind for job in jobs for kind in places(jq, job)}
    assert not jq.redis.exists("JobQueue:attempts:jobs")
    assert "job failed" not in errors
    assert 2 == jq.queue_length("work")


def test_killed_while_it_drains(jq: JobQueue, start: Start) -> None:
    """TERM and then KILL: what ran is recovered by another, and the owner leaves no trace."""
    job = add(jq, seconds=3)
    worker = start(grace=60)
    working(jq, job)
    worker.signal(signal.SIGTERM)
    assert worker.popen.stderr is not None
    eventually(lambda: "draining" in worker.popen.stderr.readline())
    worker.signal(signal.SIGKILL)
    start()
    assert "slept" == ended(jq, job, STATUS_COMPLETED).result
    assert 1 == jq.counts(["work"]).queues["work"].counters["recovered"]
    eventually(lambda: len(jq.owners()) == 1)


def test_a_second_signal_does_not_wait_for_a_dead_server(
    make_server: Callable[..., Server], server_version: str, start: Start
) -> None:
    """With a server that stands still a worker ends all the same; the job waits to be recovered."""
    server = make_server(server_version)
    with JobQueue(server.url) as jq:
        job = add(jq, seconds=60)
        worker = start(url=server.url, grace=60)
        working(jq, job)
        server.pause()
        for _ in range(2):
            worker.signal(signal.SIGTERM)
            time.sleep(0.3)
        code, errors = worker.end(60)
        server.resume()
        assert 128 + signal.SIGTERM == code, errors
        assert places(jq, job) in (["processing"], ["waiting"])


def test_term_under_load_loses_nothing(jq: JobQueue, start: Start, size: Size) -> None:
    """A worker that is restarted at any moment completes every job exactly once."""
    count, stops = size.jobs, 5 * size.rounds
    jq.add_jobs(
        {"queue": "work", "expire": 600, "workload": {"do": "sleep", "seconds": 0.02}}
        for _ in range(count)
    )
    for _ in range(stops):
        worker = start(grace=20, concurrency=4)
        time.sleep(random.uniform(0, 0.3))
        worker.signal(random.choice((signal.SIGTERM, signal.SIGINT)))
        code, errors = worker.end(60)
        assert 0 == code, errors
        if not jq.queue_length("work"):
            break
    start(burst=True, concurrency=8).end(300)
    counters = jq.counts(["work"]).queues["work"].counters
    assert (count, 0, 0) == (counters["completed"], counters["recovered"], counters["retried"])


# In this process.


def test_told_to_stop_before_it_runs(jq: JobQueue) -> None:
    """It claims nothing and is done; and it may run once more."""
    job = add(jq)
    worker = Worker(jq, {"work": lambda job: "done"}, burst=True)
    worker.stop()
    assert 0 == worker.run(signals=False)
    assert ["waiting"] == places(jq, job)
    assert 0 == worker.run(signals=False)
    assert "done" == jq.get_job_data(job, "result")


def test_a_start_that_fails_leaves_no_owner(jq: JobQueue) -> None:
    """Whatever goes wrong behind the owner's start, it does not go on to beat."""
    jq.redis.set("JobQueue:concurrency:queues", "no hash")
    before = threading.active_count()
    with pytest.raises(Exception, match="WRONGTYPE"):
        Worker(jq, {"work": lambda job: None}).run(signals=False)
    assert [] == jq.owners()
    eventually(lambda: threading.active_count() <= before)


def test_burst_of_queues_that_are_scaled_to_nothing(jq: JobQueue) -> None:
    """Nothing can be done, so it ends."""
    job = add(jq)
    jq.set_concurrency("work", 0)
    assert 0 == Worker(jq, {"work": lambda job: None}, burst=True).run(signals=False)
    assert ["waiting"] == places(jq, job)


def test_burst_does_what_jobs_add_and_what_is_due(jq: JobQueue) -> None:
    """It ends only when a look found nothing after all that ran had ended."""
    jq.add_jobs({"queue": "later", "expire": 60} for _ in range(3))
    due = jq.add_job({"queue": "later", "expire": 60}, delay=0)

    def spawn(job: Job) -> None:
        left = job.workload
        if left:
            time.sleep(0.01)
            jq.add_job({"queue": "work", "expire": 60, "workload": left - 1})

    jq.add_job({"queue": "work", "expire": 60, "workload": 20})
    handlers = {"work": spawn, "later": lambda job: os.getpid()}
    assert 0 == Worker(jq, handlers, burst=True).run(signals=False)
    counted = jq.counts(["work", "later"]).queues
    assert 21 == counted["work"].counters["completed"]
    assert 4 == counted["later"].counters["completed"]
    assert os.getpid() == jq.get_job_data(due, "result")


def test_no_thread_is_left(jq: JobQueue) -> None:
    """When a worker has ended, none of its threads goes on."""
    before = threading.active_count()
    add(jq)
    Worker(jq, {"work": Handler(lambda job: None)}, burst=True, interval=30, lifetime=90).run(
        signals=False
    )
    eventually(lambda: threading.active_count() <= before)
