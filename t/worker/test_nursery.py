"""Workers with child processes, killed in parts; and what stands between them and their jobs."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.workers import Process, ended, eventually

from redis_jobqueue import (
    STATUS_COMPLETED,
    ClaimLostError,
    Job,
    JobQueue,
    Middleware,
    Worker,
)
from redis_jobqueue.children import Nursery
from redis_jobqueue.handlers import Table

FORKING = Path(__file__).with_name("forking.py")

Start = Callable[..., Process]
Work = Callable[..., Worker]


def running(jq: JobQueue, folder: Path, **todo: str) -> tuple[Job, int]:
    """Add a job that lasts until there is a file ``until``; give it and its child's parent."""
    file = folder / "runs"
    work = {"file": str(file), "until": str(folder / "until"), **todo}
    job = jq.add_job({"queue": "work", "expire": 600, "workload": work})
    eventually(lambda: file.exists() and file.read_text().endswith("\n"))
    return job, int(file.read_text().split()[1])


def no_attempts(jq: JobQueue) -> bool:
    """Tell whether no job was charged anything."""
    return 0 == jq.redis.exists("JobQueue:attempts:jobs")


@pytest.mark.parametrize("fork", [False, True], ids=["alone", "with another fork of it"])
def test_a_killed_worker_leaves_no_process(
    jq: JobQueue, start: Start, tmp_path: Path, fork: bool
) -> None:
    """The nursery and the children end, also where somebody else holds the worker's sockets."""
    worker = start(app=FORKING, processes=2, fork=fork)
    running(jq, tmp_path)
    worker.signal(signal.SIGKILL)
    code, _ = worker.end(25)  # when nobody holds its output any more
    assert -signal.SIGKILL == code


def test_a_killed_nursery_ends_the_worker(jq: JobQueue, start: Start, tmp_path: Path) -> None:
    """What runs is finished, what comes is put back and not charged; it says why, once."""
    worker = start(app=FORKING, processes=2)
    job, nursery = running(jq, tmp_path)
    os.kill(nursery, signal.SIGKILL)
    others = jq.add_jobs([{"queue": "work", "expire": 60, "workload": {}} for _ in range(5)])
    eventually(lambda: jq.counts(["work"]).queues["work"].counters["claimed"] > 1)
    (tmp_path / "until").touch()
    code, errors = worker.end()
    assert (5, STATUS_COMPLETED) == (code, jq.get_job_data(job, "status"))
    assert {each.id for each in others} == {row.id for row in jq.waiting("work")}
    assert no_attempts(jq)
    assert 1 == errors.count("the process that starts the child processes is gone")
    assert "job failed" not in errors and "Traceback" not in errors


def test_what_a_child_prints_is_printed_once(jq: JobQueue, start: Start) -> None:
    """Each line reaches the output, that of the parent too, and none of them twice."""
    said = [f"job {number}" for number in range(6)]
    jobs = jq.add_jobs(
        [{"queue": "work", "expire": 60, "workload": {"say": line}} for line in said]
    )
    worker = start(app=FORKING, processes=2)
    for job in jobs:
        ended(jq, job, STATUS_COMPLETED)
    worker.signal(signal.SIGTERM)
    assert 0 == worker.popen.wait(20)
    assert worker.popen.stdout is not None
    assert ["before", *said] == sorted(worker.popen.stdout.read().splitlines())


def alive(pid: int) -> bool:
    """Tell whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def family(job: Job) -> list[int]:
    """Give the number of the process that runs the job, that of its parent, and the attempt."""
    return [os.getpid(), os.getppid(), job.attempt]


def ran(jq: JobQueue) -> list[int]:
    """Run a job by `family`; give what it said."""
    job = jq.add_job({"queue": "q", "expire": 60})
    said: list[int] = ended(jq, job, STATUS_COMPLETED).result
    return said


def kill_idle(pid: int) -> None:
    """Kill a child that does nothing, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid))


def test_an_idle_child_that_died_gets_no_job(jq: JobQueue, work: Work) -> None:
    """The next job runs in another one, and is not charged for the death."""
    worker = work({"q": family}, processes=1)
    first, nursery, _ = ran(jq)
    kill_idle(first)
    second, parent, attempt = ran(jq)
    assert (nursery, 1) == (parent, attempt)
    assert first != second
    eventually(lambda: worker.counting.done == 2)
    assert 0 == worker.counting.failed


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged of children that could not be started."""
    return [text for text in caplog.messages if "no child process can be started" in text]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limits for another process")
def test_no_room_for_a_child_is_not_charged(
    jq: JobQueue, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    """The job goes back until there is room again; the log says so once."""
    worker = work({"q": family}, processes=1)
    first, nursery, _ = ran(jq)
    kill_idle(first)
    soft, hard = resource.prlimit(nursery, resource.RLIMIT_NOFILE)
    resource.prlimit(nursery, resource.RLIMIT_NOFILE, (3, hard))  # it cannot open another file
    job = jq.add_job({"queue": "q", "expire": 60})
    eventually(lambda: jq.counts(["q"]).queues["q"].counters["claimed"] >= 3)
    assert no_attempts(jq)
    resource.prlimit(nursery, resource.RLIMIT_NOFILE, (soft, hard))
    assert 1 == ended(jq, job, STATUS_COMPLETED).result[2]
    assert 1 == len(failures(caplog))
    assert "child processes can be started again" in caplog.messages
    assert 0 == worker.counting.failed


def test_a_fork_that_fails_is_not_charged(
    jq: JobQueue, work: Work, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nursery lives on, and says why it had no child; middleware hears of no failure."""
    fork, forks = os.fork, []
    told: list[str] = []

    class Note(Middleware):
        def after(self, job: Job, result: Any) -> None:
            told.append("after")

        def on_error(self, job: Job, error: BaseException) -> None:
            told.append("lost" if isinstance(error, ClaimLostError) else "failed")

    def scarce() -> int:
        forks.append(1)  # the nursery is the first, and goes on counting
        if len(forks) in (2, 3):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    monkeypatch.setattr(os, "fork", scarce)
    worker = work({"q": family}, processes=1, middleware=[Note()])
    assert 1 == ran(jq)[2]
    eventually(lambda: ["lost", "lost", "after"] == told)
    assert (1, 0) == (worker.counting.done, worker.counting.failed)
    (failure,) = failures(caplog)
    assert failure.endswith(os.strerror(errno.EAGAIN))


def test_many_open_files(jq: JobQueue) -> None:
    """Descriptors above 1023 are as good as others, in the worker and in its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] < 1100:
            taken.append(os.dup(taken[0]))
        job = jq.add_job({"queue": "q", "expire": 60})
        Worker(jq, {"q": family}, processes=1, burst=True).run(signals=False)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    done = jq.load_job(job)
    assert done is not None and STATUS_COMPLETED == done.status, done and done.message


def test_close_waits_for_no_other_process() -> None:
    """A fork that holds the sockets of the parent, too, keeps the nursery from nothing."""
    nursery = Nursery(Table.of({"q": family}))
    other = os.fork()
    if other == 0:
        time.sleep(60)
        os._exit(0)
    closing = threading.Thread(target=nursery.close, daemon=True)
    closing.start()
    closing.join(20)
    try:
        assert not closing.is_alive()
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
