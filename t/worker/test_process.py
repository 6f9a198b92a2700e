"""Workers as processes: signals, kills, outages, and what they leave."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from support.server import Server
from support.workers import Process, ended, eventually

from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_CREATED,
    STATUS_FAILED,
    JobQueue,
)

Start = Callable[..., Process]


def sleeping(jq: JobQueue, seconds: float) -> str:
    """Add a job that takes so long; return its id."""
    work = {"do": "sleep", "seconds": seconds}
    return str(jq.add_job({"queue": "work", "expire": 600, "workload": work}).id)


def running(jq: JobQueue, job_id: str) -> None:
    """Wait until the handler of a job runs; that it was claimed is not enough."""
    eventually(lambda: jq.get_job_data(job_id, "message") == "begun")


def test_term_lets_running_jobs_finish(jq: JobQueue, start: Start) -> None:
    """Within the grace time the job is completed, nothing new is claimed, the code is 0."""
    worker = start(grace=10, concurrency=1)
    first, second = sleeping(jq, 1.0), sleeping(jq, 1.0)
    running(jq, first)
    worker.signal(signal.SIGTERM)
    code, errors = worker.end()
    assert (0, STATUS_COMPLETED) == (code, jq.get_job_data(first, "status"))
    assert [("waiting")] == [place.kind for place in jq.locate(second)]
    assert "draining" in errors and "Traceback" not in errors
    assert [] == jq.owners()


def test_after_the_grace_time_jobs_go_back(jq: JobQueue, start: Start) -> None:
    """What still runs is at the head of its queue again, no attempt poorer; the code is 3."""
    worker = start(grace=0.2, concurrency=1)
    first, second = sleeping(jq, 60), sleeping(jq, 60)
    running(jq, first)
    worker.signal(signal.SIGINT)
    code, _ = worker.end()
    assert (3, STATUS_CREATED) == (code, jq.get_job_data(first, "status"))
    assert [first, second] == [row.id for row in jq.waiting("work")]
    assert 0 == jq.redis.exists("JobQueue:attempts:jobs")


def test_a_second_signal_ends_at_once(jq: JobQueue, start: Start) -> None:
    """The code is 128 and the signal; the job is back in its queue."""
    for processes in (0, 1):
        worker = start(grace=60, processes=processes)
        job_id = sleeping(jq, 60)
        running(jq, job_id)
        worker.signal(signal.SIGTERM)
        eventually(lambda: worker.popen.poll() is None and _draining(jq, job_id))
        worker.signal(signal.SIGTERM)
        code, _ = worker.end(10)
        assert 128 + signal.SIGTERM == code
        assert [job_id] == [row.id for row in jq.waiting("work")]
        jq.delete_job(job_id)


def _draining(jq: JobQueue, job_id: str) -> bool:
    # It takes nothing new any more: a job that is added now stays where it is.
    probe = jq.add_job({"queue": "work", "expire": 60, "workload": {"do": "sleep", "seconds": 0}})
    ends = time.monotonic() + 0.3
    while time.monotonic() < ends:
        if jq.get_job_data(probe, "status") != STATUS_CREATED:
            return False
        time.sleep(0.01)
    jq.delete_job(probe)
    return True


def test_the_job_of_a_killed_worker_is_done_by_another(
    jq: JobQueue, start: Start, tmp_path: Path
) -> None:
    """A survivor recovers it by itself, and it is done exactly once as far as is stored."""
    file = tmp_path / "runs"
    work = {"do": "touch", "file": str(file), "seconds": 3.0}
    victim = start()
    job = jq.add_job({"queue": "work", "expire": 600, "workload": work})
    eventually(lambda: file.exists() and file.read_text().endswith("\n"))
    survivor = start()
    victim.signal(signal.SIGKILL)
    done = ended(jq, job, STATUS_COMPLETED)
    assert "touched" == done.result
    runs = [line.split() for line in file.read_text().splitlines()]
    assert ["1", "2"] == [attempt for _, _, attempt in runs]
    assert str(survivor.popen.pid) == runs[1][1]
    eventually(lambda: len(jq.owners()) == 1)


def test_a_frozen_worker_stores_nothing(jq: JobQueue, start: Start, tmp_path: Path) -> None:
    """Stopped beyond its lifetime it is judged dead; when it goes on, it is refused and says so."""
    file = tmp_path / "runs"
    work = {"do": "touch", "file": str(file), "seconds": 2.0}
    frozen = start(concurrency=1)
    job = jq.add_job({"queue": "work", "expire": 600, "workload": work})
    eventually(lambda: file.exists() and file.read_text().endswith("\n"))
    frozen.signal(signal.SIGSTOP)
    start(concurrency=1)
    eventually(lambda: len(file.read_text().splitlines()) == 2)
    frozen.signal(signal.SIGCONT)
    ended(jq, job, STATUS_COMPLETED)
    frozen.signal(signal.SIGTERM)
    code, errors = frozen.end()
    assert 0 == code
    assert "the claim on a job was lost" in errors or "was fenced" in errors
    assert 1 == jq.counts(["work"]).queues["work"].counters["completed"]
    assert 1 == jq.counts(["work"]).queues["work"].counters["recovered"]


def test_a_job_that_kills_its_worker_is_buried(jq: JobQueue, start: Start) -> None:
    """After its third delivery it is dead, with the reason; others proceed."""
    killer = jq.add_job({"queue": "work", "expire": 600, "workload": {"do": "kill"}})
    options = {"max_attempts": 3, "concurrency": 2, "max_time": 30}
    worker = start(**options)
    other = sleeping(jq, 0)
    deliveries = 0
    ends = time.monotonic() + 60
    while [place.kind for place in jq.locate(killer)] != ["dead"]:
        assert time.monotonic() < ends
        if worker.popen.poll() is not None:
            deliveries += 1
            assert 137 == worker.popen.returncode
            worker = start(**options)
        time.sleep(0.02)
    assert 3 == deliveries
    found = jq.load_job(killer)
    assert found is not None and STATUS_FAILED == found.status
    assert "its attempts are used up" in str(found.message)
    eventually(lambda: jq.get_job_data(other, "status") == STATUS_COMPLETED)


def test_a_server_that_comes_back(
    make_server: Callable[..., Server], server_version: str, start: Start
) -> None:
    """Restarted while idle and while a job runs: the worker stays, finishes, logs it once."""
    server = make_server(server_version, appendonly="yes", appendfsync="always")
    jq = JobQueue(server.url)
    worker = start(url=server.url, lifetime=20.0)
    job_id = sleeping(jq, 1.5)
    running(jq, job_id)
    server.restart()
    eventually(lambda: jq.ping() and jq.get_job_data(job_id, "status") == STATUS_COMPLETED, 30)
    server.kill()
    time.sleep(1.0)
    server.start()
    eventually(jq.ping)
    later = sleeping(jq, 0)
    eventually(lambda: jq.get_job_data(later, "status") == STATUS_COMPLETED, 30)
    worker.signal(signal.SIGTERM)
    code, errors = worker.end()
    assert 0 == code
    assert errors.count("does not serve us") <= 2
    assert "Traceback" not in errors
