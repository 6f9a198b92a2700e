"""A running worker follows what others say, and tends the namespace on its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from support.workers import ended, eventually

from redis_jobqueue import STATUS_COMPLETED, STATUS_CREATED, Job, JobQueue, Worker

Work = Callable[..., Worker]


class Gate:
    """A handler that waits until it is opened, and counts how many wait."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, job: Job) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.open.wait(20)
        with self._lock:
            self.inside -= 1


def many(jq: JobQueue, count: int, queue: str = "q") -> list[Job]:
    """Add so many jobs."""
    return jq.add_jobs([{"queue": queue, "expire": 600, "workload": n} for n in range(count)])


def test_no_more_jobs_run_than_there_are_slots(jq: JobQueue, work: Work) -> None:
    """A job is claimed only when a slot is free: what does not run stays in the queue."""
    gate = Gate()
    jobs = many(jq, 10)
    work({"q": gate}, concurrency=3)
    eventually(lambda: gate.inside == 3)
    assert 7 == jq.queue_length("q")
    gate.open.set()
    for job in jobs:
        ended(jq, job, STATUS_COMPLETED)
    assert 3 == gate.most


def test_pause_holds_every_kind_of_job(jq: JobQueue, work: Work) -> None:
    """New and delayed jobs of a paused queue stay until it is resumed."""
    assert jq.pause("q")
    work({"q": lambda job: "ok", "r": lambda job: "ok"})
    waiting = many(jq, 3)
    delayed = jq.add_job({"queue": "q", "expire": 60}, delay=0)
    other = jq.add_job({"queue": "r", "expire": 60})
    ended(jq, other, STATUS_COMPLETED)
    eventually(lambda: jq.queue_length("q") == 4)
    assert {STATUS_CREATED} == {jq.get_job_data(job, "status") for job in [*waiting, delayed]}
    jq.resume("q")
    for job in [*waiting, delayed]:
        ended(jq, job, STATUS_COMPLETED)


def test_the_desired_concurrency_is_followed(jq: JobQueue, work: Work) -> None:
    """Lowered and raised while the worker runs, for one queue and not for others."""
    gate, other = Gate(), Gate()
    jq.set_concurrency("q", 1)
    many(jq, 6)
    many(jq, 2, "r")
    work({"q": gate, "r": other}, concurrency=6, order="listed")
    eventually(lambda: other.inside == 2)
    eventually(lambda: gate.inside == 1)
    assert 5 == jq.queue_length("q")
    jq.set_concurrency("q", 3)
    eventually(lambda: gate.inside == 3)
    assert (3, 3) == (gate.most, jq.queue_length("q"))
    gate.open.set()
    other.open.set()
    eventually(lambda: jq.queue_length("q") == 0)


def test_concurrency_zero_stops_a_queue(jq: JobQueue, work: Work) -> None:
    """Nothing of it is claimed until the number is raised."""
    jq.set_concurrency("q", 0)
    worker = work({"q": lambda job: "ok"})
    eventually(lambda: worker._limits == {b"q": 0})
    (job,) = many(jq, 1)
    assert STATUS_CREATED == jq.get_job_data(job, "status")
    jq.set_concurrency("q", 2)
    ended(jq, job, STATUS_COMPLETED)


def test_it_promotes_what_is_due(jq: JobQueue, work: Work) -> None:
    """Delayed jobs run when they are due, within about a second, in order."""
    seen: list[int] = []
    for number in (3, 1, 2):
        jq.add_job({"queue": "q", "expire": 60, "workload": number}, delay=number * 0.2)
    work({"q": lambda job: seen.append(job.workload)}, concurrency=1)
    eventually(lambda: [1, 2, 3] == seen)


def test_it_recovers_what_a_dead_owner_held(jq: JobQueue, work: Work) -> None:
    """Without any call from outside, and as soon as the lifetimes are over."""
    job = jq.add_job({"queue": "q", "expire": 60})
    dead = jq.owner(interval=0.05, lifetime=0.2).start()
    held = dead.claim("q")
    assert held is not None
    dead._heart.stop()
    work({"q": lambda job: job.attempt}, lifetime=0.6, interval=0.1)
    assert 1 == ended(jq, job, STATUS_COMPLETED).result  # it was never begun


def test_burst_ends_when_all_is_empty(jq: JobQueue) -> None:
    """Also what its own jobs added is done before."""

    def handle(job: Job) -> None:
        if job.workload:
            jq.add_job({"queue": "q", "expire": 60, "workload": job.workload - 1})

    many(jq, 4)
    assert 0 == Worker(jq, {"q": handle}, burst=True).run(signals=False)
    assert (0, 10) == (jq.queue_length("q"), len(jq.get_job_ids(status=STATUS_COMPLETED)))


def test_limits_for_jobs_and_for_life_time(jq: JobQueue) -> None:
    """It ends by itself after so many jobs, or so many seconds, and leaves the rest."""
    many(jq, 10)
    worker = Worker(jq, {"q": lambda job: None}, max_jobs=4)
    assert 0 == worker.run(signals=False)
    assert (6, 4) == (jq.queue_length("q"), worker.counting.done)
    started = time.monotonic()
    assert 0 == Worker(jq, {"none": print}, max_time=0.3).run(signals=False)
    assert time.monotonic() - started < 20


def test_cancel_tells_the_handler(jq: JobQueue, work: Work) -> None:
    """``job.cancelled`` is true with the next beat, in a thread and in a child."""

    def handle(job: Job) -> str:
        ends = time.monotonic() + 20
        while not job.cancelled and time.monotonic() < ends:
            time.sleep(0.01)
        return "stopped" if job.cancelled else "ran out"

    for mode in ({"concurrency": 1}, {"processes": 1}):
        job = jq.add_job({"queue": f"q{len(mode)}{[*mode]}", "expire": 60})
        work({str(job.queue): handle}, **mode)
        eventually(lambda: jq.get_job_data(job, "status") == "__working__")
        assert "told" == jq.cancel(job)
        assert "stopped" == ended(jq, job, STATUS_COMPLETED).result


def test_the_owner_record_shows_what_it_does(jq: JobQueue, work: Work) -> None:
    """Queues, slots, current jobs, done and failed are there for `JobQueue.owners`."""
    gate = Gate()
    (job,) = many(jq, 1)
    work({"q": gate, "bad": lambda job: 1 / 0}, concurrency=2)

    def about() -> Any:
        owners = jq.owners()
        return owners[0].about if owners else {}

    eventually(lambda: about().get("current") == [job.id])
    jq.add_job({"queue": "bad", "expire": 60})
    eventually(lambda: about().get("failed") == 1)
    gate.open.set()
    eventually(lambda: (about()["done"], about()["current"]) == (1, []))
    assert (["q", "bad"], 2, "threads") == tuple(about()[k] for k in ("queues", "slots", "kind"))
