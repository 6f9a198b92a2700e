"""What a handler sees and does in a child process is what it would in a thread."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.server import Server
from support.workers import eventually

from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_CREATED,
    DataTooLargeError,
    Handler,
    Job,
    JobDeletedError,
    JobQueue,
    JobQueueError,
    Worker,
    errors,
)
from redis_jobqueue.child import Channel, packed, unpacked
from redis_jobqueue.children import _Child
from redis_jobqueue.storable import nfreeze, thaw

MODES = [{"concurrency": 1}, {"processes": 1}]
both = pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])

Mode = dict[str, int]


def one(jq: JobQueue, function: Callable[[Job], Any], *, workload: Any = "", **options: Any) -> Job:
    """Run one job that may fail once; give it as it is then."""
    job = jq.add_job({"queue": "q", "expire": 60, "workload": workload})
    handlers = {"q": Handler(function, retries=0)}
    assert 0 == Worker(jq, handlers, burst=True, **options).run(signals=False)
    found = jq.load_job(job)
    assert found is not None
    return found


class Tell:
    """Middleware that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def before(self, job: Job) -> None:
        """Keep nothing."""

    def after(self, job: Job, result: Any) -> None:
        """Keep the result."""
        self.told.append(("after", result))

    def on_error(self, job: Job, error: BaseException) -> None:
        """Keep the name of the class and the text."""
        self.told.append((type(error).__name__, str(error)))


@both
def test_what_save_raises(jq: JobQueue, server: Server, mode: Mode) -> None:
    """Each error is of its own class, with its code."""
    jq.max_datasize = 10_000
    other = JobQueue(server.url)

    def caught(job: Job) -> list[Any]:
        try:
            job.save()
        except JobQueueError as error:
            return [type(error).__name__, error.code, getattr(error, "job_id", None) == job.id]
        return []

    def handle(job: Job) -> None:
        seen = []
        for value in ("x" * 20_000, [{1, 2}], "fine"):
            job.result = value
            seen.append(caught(job))
        job.message = "full"
        other.redis.config_set("maxmemory", 1)
        seen.append(caught(job))
        other.redis.config_set("maxmemory", 0)
        other.delete_job(job)
        seen.append(caught(job))
        other.redis.set("seen", json.dumps(seen))

    jq.add_job({"queue": "q", "expire": 60})
    Worker(jq, {"q": handle}, burst=True, **mode).run(signals=False)
    assert [
        ["DataTooLargeError", errors.E_DATA_TOO_LARGE, False],
        ["StorableError", errors.E_MISMATCH_ARG, False],
        [],
        ["MaxMemoryError", errors.E_MAX_MEMORY_LIMIT, False],
        ["JobDeletedError", errors.E_JOB_DELETED, True],
    ] == json.loads(other.redis.get("seen"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", JobQueueError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_an_error_on_its_way(kind: type[JobQueueError]) -> None:
    """Class, code, text and id arrive."""
    error = kind("what was wrong", code=6)
    if hasattr(error, "job_id"):
        error.job_id = "7"
    there = unpacked(thaw(nfreeze(packed(error))))
    assert (kind, "what was wrong", 6) == (type(there), str(there), there.code)
    assert getattr(error, "job_id", None) == getattr(there, "job_id", None)


@both
def test_a_job_that_is_deleted_while_it_runs(
    jq: JobQueue, server: Server, caplog: pytest.LogCaptureFixture, mode: Mode
) -> None:
    """A handler that is told so by a save may end with that: it did not fail."""
    other = JobQueue(server.url)

    def handle(job: Job) -> None:
        other.delete_job(job)
        job.progress = 0.5
        job.save()

    jq.add_job({"queue": "q", "expire": 60})
    worker = Worker(jq, {"q": handle}, burst=True, **mode)
    with caplog.at_level(logging.INFO):
        worker.run(signals=False)
    assert "a job was deleted while it ran" in caplog.messages
    assert 0 == worker.counting.failed


@both
def test_a_result_that_is_too_large(jq: JobQueue, mode: Mode) -> None:
    """It is a failure of the job."""
    jq.max_datasize = 10_000
    done = one(jq, lambda job: "x" * 20_000, **mode)
    assert DataTooLargeError.__name__ == str(done.message).partition(":")[0]


@both
def test_middleware_is_told_what_the_handler_returned(jq: JobQueue, mode: Mode) -> None:
    """None if it was None, whatever stands in the job; the very types, else."""
    tell = Tell()

    def handle(job: Job) -> Any:
        job.result = "by hand"
        return job.workload

    for value in (None, "x", b"\xff", [1, {"a": None}], 0, ""):
        one(jq, handle, workload=value, middleware=[tell], **mode)
    wanted = [None, "x", b"\xff", [1, {"a": None}], 0, ""]
    assert [("after", value) for value in wanted] == tell.told


@both
def test_an_old_result_is_nobodys_business(jq: JobQueue, mode: Mode) -> None:
    """One that cannot be read stays as it is, and the job is completed."""
    job = jq.add_job({"queue": "q", "expire": 60})
    jq.redis.hset(f"JobQueue:{job.id}", "result", b"garbage")
    worker = Worker(jq, {"q": lambda job: None}, burst=True, **mode)
    worker.run(signals=False)
    assert STATUS_COMPLETED == jq.get_job_data(job, "status")
    assert b"garbage" == jq.redis.hget(f"JobQueue:{job.id}", "result")
    assert (1, 0) == (worker.counting.done, worker.counting.failed)


@both
def test_a_failure_has_the_name_of_its_class(
    jq: JobQueue, caplog: pytest.LogCaptureFixture, mode: Mode
) -> None:
    """In the log, and for middleware."""
    tell = Tell()

    def handle(job: Job) -> None:
        raise LookupError("nothing there")

    one(jq, handle, middleware=[tell], **mode)
    assert [("LookupError", "nothing there")] == tell.told
    assert "job failed: LookupError" in caplog.messages


def test_what_middleware_did_wrong_is_named(jq: JobQueue) -> None:
    """A field that no child can be sent is that, and no process that is gone."""

    class Spoil(Tell):
        def before(self, job: Job) -> None:
            job.result = [{1, 2}]

        def on_error(self, job: Job, error: BaseException) -> None:
            super().on_error(job, error)
            job.result = ""

    spoil = Spoil()
    one(jq, lambda job: None, middleware=[spoil], processes=1)
    ((kind, words),) = spoil.told
    assert "StorableError" == kind and words.startswith("Cannot freeze result")


def test_a_program_of_a_handler_can_be_terminated(jq: JobQueue) -> None:
    """SIGTERM ends it, though it leaves the child itself alone."""

    def handle(job: Job) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        program.terminate()
        try:
            return program.wait(20)
        finally:
            program.kill()

    assert -signal.SIGTERM == one(jq, handle, processes=1).result


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="of the main thread only"
)
def test_signals_of_a_child_are_its_own(jq: JobQueue) -> None:
    """The parent's event loop is not woken for them."""
    ours, signals = socket.socketpair()
    ours.setblocking(False)
    signals.setblocking(False)
    before = signal.set_wakeup_fd(signals.fileno())
    try:
        one(jq, lambda job: os.kill(os.getpid(), signal.SIGTERM), processes=1)
        with pytest.raises(BlockingIOError):
            ours.recv(1)
    finally:
        signal.set_wakeup_fd(before)
        ours.close()
        signals.close()


def test_a_fork_of_a_handler_hides_no_death(jq: JobQueue) -> None:
    """The job has failed when its own process is gone, whoever it leaves behind."""
    held, marks = os.pipe()

    def handle(job: Job) -> None:
        if os.fork() == 0:
            time.sleep(30)
        os._exit(9)

    done = one(jq, handle, processes=1)
    os.close(marks)
    assert "Died: the process that ran it is gone" == done.message
    assert [] == select.select([held], [], [], 0)[0]  # what was left behind holds the other end
    os.close(held)


def test_no_stranger_is_killed() -> None:
    """The number of a child that has ended may be another process's."""
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mine, theirs = socket.socketpair()
    Channel(theirs).send({"pid": stranger.pid})
    child = _Child(Channel(mine))
    Channel(theirs).send({"save": []})  # its last words, that nobody reads any more
    theirs.close()
    child.kill()
    stranger.communicate(b"\n")
    assert 0 == stranger.returncode
    mine.close()


def test_a_forced_stop_is_no_failure(
    jq: JobQueue, work: Callable[..., Worker], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The job was put back before its child was killed: no failure is counted, or logged."""

    def handle(job: Job) -> None:
        (tmp_path / "runs").touch()
        time.sleep(60)

    job = jq.add_job({"queue": "q", "expire": 60})
    worker = work({"q": handle}, processes=1)
    eventually((tmp_path / "runs").exists)
    (slot,) = [thread for thread in threading.enumerate() if thread.name == "slot-0"]
    worker.kill()
    slot.join(20)
    assert not slot.is_alive()
    assert STATUS_CREATED == jq.get_job_data(job, "status")
    assert 0 == worker.counting.failed
    assert ["jobs are put back to their queues"] == [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]


def test_the_class_of_a_refusal_reaches_the_worker(jq: JobQueue) -> None:
    """Only a save's own refusal ends a job so; that of another job is a failure."""

    def handle(job: Job) -> None:
        raise JobDeletedError(job_id="another")

    assert "JobDeletedError: another job was removed prior to use" == one(
        jq, handle, processes=1
    ).message
