"""``work``: real processes, real signals, exit codes, and what they log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.server import Server, eventually

from cli.conftest import APP, COMMAND, PLAIN, process
from redis_jobqueue import JobQueue
from redis_jobqueue.cli import program


@pytest.fixture
def alone(make_server: Callable[..., Server]) -> Server:
    """Return a server of the newest version: what is tested here is the command."""
    return make_server()


@pytest.fixture
def queue(alone: Server) -> Iterator[JobQueue]:
    """Return a queue object on it."""
    with JobQueue(alone.url) as made:
        yield made


@pytest.fixture
def start(alone: Server) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts a worker by the command."""
    made: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        made.append(subprocess.Popen(
            [*COMMAND, "work", *words], env={**PLAIN, "REDIS_URL": alone.url}, cwd=APP,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ))  # fmt: skip
        return made[-1]

    yield begin
    for each in made:
        each.kill()
        each.communicate()


def test_burst_logs_json_and_no_payload(alone: Server, queue: JobQueue) -> None:
    """It does what waits and ends with 0; each line of its log is JSON with ids, never data."""
    jobs = [queue.add_job({"queue": "echo", "expire": 60, "workload": "s3cret"}) for _ in range(3)]
    bad = queue.add_job({"queue": "broken", "expire": 60, "workload": "s3cret"})
    done = process(alone.url, "work", "app:handlers", "--burst", "--log-format", "json",
                   "--concurrency", "2")  # fmt: skip
    assert (0, "") == (done.code, done.out), done.err
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.err.splitlines()]
    completed = {each["job_id"] for each in lines if each["message"] == "job completed"}
    assert {job.id for job in jobs} == completed
    assert any(each.get("job_id") == bad.id and each["level"] == "warning" for each in lines)
    assert "s3cret" not in done.err and "the secret of the job" not in done.err
    assert {"__completed__"} == {queue.get_job_data(job, "status") for job in jobs}


def test_queues_are_exactly_those_given(alone: Server, queue: JobQueue) -> None:
    """A name with a dash or beyond ASCII is served as it stands, and no other queue is."""
    names: list[str | bytes] = ["-x", b"caf\xc3\xa9", b"octets", "echo"]
    jobs = [queue.add_job({"queue": name, "expire": 60, "workload": 1}) for name in names]
    done = process(alone.url, "work", "app:handlers", "--burst", "--queue=-x", "--queue",
                   "caf\xe9", "--queue", "octets", LANG="C.UTF-8")  # fmt: skip
    assert 0 == done.code, done.err
    assert ["__completed__"] * 3 + ["__created__"] == [
        queue.get_job_data(job, "status") for job in jobs
    ]


NAMES = ["user-requested-refreshes", "a,b", "a b", "q=5", "-x", "--burst", "n" * 200, "a\nb", "*",
         "[ab]?", "a:b", " a", "caf\xe9"]  # fmt: skip
OTHERS = ["user", "requested", "refreshes", "a", "b", "q", "5", "x", "n", "n" * 199, "caf", "="]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_never_split_nor_matched(alone: Server, queue: JobQueue, name: str) -> None:
    """One ``--queue`` is one queue, to the octet, whatever stands in its name."""
    job = queue.add_job({"queue": os.fsencode(name), "expire": 60, "workload": "mine"})
    others = {*NAMES, *OTHERS} - {name}
    queue.add_jobs([{"queue": os.fsencode(each), "expire": 60} for each in others])
    done = process(alone.url, "work", "app:echo", "--burst", "--queue", name, LANG="C.UTF-8")
    assert 0 == done.code, done.err
    assert ["__completed__", "mine"] == queue.get_job_data(job, "status", "result")
    assert [1] * len(others) == [each.waiting for each in queue.counts().queues.values()]
    touched = set(queue.redis.scan_iter("JobQueue:stats:*"))
    assert {b"JobQueue:stats:" + os.fsencode(name)} == touched


def test_options_of_the_owner(
    queue: JobQueue, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """How often it beats, how long it lives without, and when a job is dead, can be said."""
    start("app:handlers", "--interval", "0.2", "--lifetime", "2.5", "--max-attempts", "7")
    (owner,) = eventually(queue.owners, "the worker")
    assert (2.5, 7) == (owner.about["lifetime"], owner.about["max_attempts"])
    assert owner.live and owner.lapses_in <= 2.5

    def lapses() -> float:
        return float(queue.redis.zscore("JobQueue:owners:heartbeat", owner.id))

    first = lapses()  # an interval of 5 s, the default, would not go with this lifetime
    eventually(lambda: lapses() > first, "another beat")


@pytest.mark.parametrize(("words", "place"), [((), "retrying"), (("--max-attempts", "1"), "dead")])
def test_attempts_are_limited(
    alone: Server, queue: JobQueue, words: tuple[str, ...], place: str
) -> None:
    """A handler's retries end where ``--max-attempts`` does."""
    job = queue.add_job({"queue": "slowly", "expire": 60})
    done = process(alone.url, "work", "app:handlers", "--burst", "--queue", "slowly", *words)
    assert 0 == done.code, done.err
    assert [place] == [each.kind for each in queue.locate(job)]


def test_one_function_serves_the_queues_named(alone: Server, queue: JobQueue) -> None:
    """A function instead of a mapping runs the jobs of every queue that is named; in processes."""
    job = queue.add_job({"queue": "any", "expire": 60, "workload": [1]})
    done = process(alone.url, "work", "app:echo", "--queue", "any", "--max-jobs", "1",
                   "--processes", "1")  # fmt: skip
    assert 0 == done.code, done.err
    assert [1] == queue.get_job_data(job, "result")


def test_signal_lets_running_jobs_finish(
    queue: JobQueue, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """TERM ends it with 0 when what runs is finished within the grace time."""
    job = queue.add_job({"queue": "slow", "expire": 60, "workload": 0.5})
    worker = start("app:handlers")
    eventually(lambda: queue.get_job_data(job, "status") == "__working__", "the start of the job")
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=30)
    assert 0 == worker.returncode, errors
    assert "slept" == queue.get_job_data(job, "result")
    assert [] == queue.owners()


@pytest.mark.parametrize(("grace", "signals", "code"), [("0.1", 1, 3), ("60", 2, 130)])
def test_what_cannot_finish_goes_back(
    queue: JobQueue, start: Callable[..., subprocess.Popen[str]], grace: str, signals: int,
    code: int,
) -> None:  # fmt: skip
    """After the grace time, or a second signal, the job waits again; the exit code tells."""
    job = queue.add_job({"queue": "slow", "expire": 60, "workload": 60})
    worker = start("app:handlers", "--grace", grace)
    eventually(lambda: queue.get_job_data(job, "status") == "__working__", "the start of the job")
    assert worker.stderr is not None
    worker.send_signal(signal.SIGINT)
    if signals == 2:
        while "draining" not in worker.stderr.readline():
            pass
        worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=30)
    assert code == worker.returncode
    assert ["waiting"] == [place.kind for place in queue.locate(job)]
    assert [] == queue.owners()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["app"], "handlers are MODULE:ATTR"),
        (["nothere:x"], "there is no module nothere"),
        (["app:nothere"], "app has no nothere"),
        (["app:number"], "neither a mapping nor a function"),
        (["app:echo"], "name its queues by --queue"),
        (["app:handlers", "--queue", "typo"], "no handler for queue typo (it has echo, slow"),
        (["app:handlers", "--concurrency", "0"], "--concurrency"),
        (["app:handlers", "--grace", "soon"], "give a time such as 90"),
        (["app:handlers", "--interval", "30"], "--interval must be more than 0, and less than"),
        (["app:handlers", "--interval", "0"], "--interval must be more than 0, and less than"),
        (["app:handlers", "--max-attempts", "-1"], "--max-attempts"),
        (["app:handlers", "--queue", ""], "the name of a queue must not be empty"),
        (["app:odd"], "app:odd: handlers has the queue 'echo' twice"),
        ([], "Missing argument 'MODULE:ATTR'"),
    ],
)
def test_wrong_handlers_are_refused_before_a_job_is_touched(words: list[str], says: str) -> None:
    """A misspelt queue or module is one line and exit code 2; no job is ever buried by it."""
    before = os.getcwd()
    os.chdir(APP)
    try:
        done = CliRunner().invoke(program, ["work", *words], prog_name="redis-jobqueue")
    finally:
        os.chdir(before)
    assert 2 == done.exit_code, done.output
    assert says in done.stderr and 1 == len(done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise ValueError('bad\\nsetting')", "ValueError: bad setting"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def", "SyntaxError: invalid syntax"),
        ("raise SystemExit(5)", "SystemExit: 5"),
    ],
)
def test_a_module_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, says: str
) -> None:
    """Its own error is said in one line, with exit code 2; its traceback can be asked for."""
    (tmp_path / "broken_jobs.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ["work", "broken_jobs:handlers"]
    done = CliRunner().invoke(program, words, prog_name="redis-jobqueue")
    assert 2 == done.exit_code, done.output
    line = f"redis-jobqueue work: broken_jobs cannot be imported: {says}"
    assert done.stderr.startswith(line) and 1 == len(done.stderr.splitlines()), done.stderr
    assert "(--traceback shows where)" in done.stderr and "fault of ours" not in done.stderr
    done = CliRunner().invoke(program, [*words, "--traceback"])
    assert done.exception is not None
    assert "broken_jobs.py" in "".join(traceback.format_exception(done.exception))
