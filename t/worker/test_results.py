"""What a handler returns and sets is what the job holds."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from support.server import Server

from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_FAILED,
    ArgumentError,
    Job,
    JobQueue,
    Worker,
    current_job,
)

MODES = [{"concurrency": 3}, {"processes": 2}]


def burst(jq: JobQueue, handlers: Any, **options: Any) -> int:
    """Run a worker until nothing waits; return its exit code."""
    return Worker(jq, handlers, burst=True, **options).run(signals=False)


def loaded(jq: JobQueue, job: Job) -> Job:
    """Return a job as it is stored."""
    found = jq.load_job(job)
    assert found is not None
    return found


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
def test_a_result_is_stored(jq: JobQueue, mode: dict[str, int]) -> None:
    """Each job ends with the value that its handler returned, of any kind."""
    values = [1, 2.5, "x", b"\xff", None, True, [1, (2, 3)], {"a": {"b": None}}]
    jobs = jq.add_jobs([{"queue": "q", "expire": 60, "workload": value} for value in values])
    assert 0 == burst(jq, {"q": lambda job: [job.workload, type(job.workload).__name__]}, **mode)
    for job, value in zip(jobs, values):
        done = loaded(jq, job)
        assert STATUS_COMPLETED == done.status
        assert [value, type(value).__name__] == done.result
        assert 0 < done.started <= done.completed


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
def test_what_is_set_is_stored_with_the_result(jq: JobQueue, mode: dict[str, int]) -> None:
    """Attributes and metadata that the handler set are there; None leaves the result alone."""

    def handle(job: Job) -> None:
        assert current_job() is job
        job.message = "all well"
        job.meta_data["note"] = {"pid": os.getpid()}
        del job.meta_data["old"]
        job.result = "by hand"

    job = jq.add_job(
        {"queue": "q", "expire": 60, "meta_data": {"old": 1, "kept": 2}, "workload": "w"}
    )
    burst(jq, {"q": handle}, **mode)
    done = loaded(jq, job)
    assert ("all well", "by hand", "w") == (done.message, done.result, done.workload)
    assert {"note", "kept"} == set(done.meta_data)
    assert (os.getpid() == done.meta_data["note"]["pid"]) == ("concurrency" in mode)


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
def test_progress_is_seen_while_the_job_runs(jq: JobQueue, server: Server, mode: Any) -> None:
    """What `save` wrote can be read before the job ends; assignment alone cannot."""
    seen: list[Any] = []

    def handle(job: Job) -> Any:
        other = JobQueue(server.url)
        job.progress = 0.4
        before = other.get_job_data(job.id, "progress")
        job.save()
        return [before, other.get_job_data(job.id, "progress"), other.get_job_data(job, "status")]

    job = jq.add_job({"queue": "q", "expire": 60})
    burst(jq, {"q": handle}, **mode)
    done = loaded(jq, job)
    assert ([0.0, 0.4, "__working__"], 0.4) == (done.result, done.progress), seen


def test_a_handler_is_chosen_by_the_text_in_job(jq: JobQueue) -> None:
    """A mapping behind a queue goes by ``job.job``; an unknown text is buried with a message."""
    table = {"mail": {"send": lambda job: "sent", "read": lambda job: "read"}}
    jobs = [
        jq.add_job({"queue": "mail", "expire": 60, "job": what}) for what in ("send", "read", "x")
    ]
    burst(jq, table)
    assert ["sent", "read", ""] == [loaded(jq, job).result for job in jobs]
    lost = loaded(jq, jobs[2])
    assert (STATUS_FAILED, "no handler for job 'x' of queue 'mail'") == (lost.status, lost.message)
    assert ["dead"] == [place.kind for place in jq.locate(lost)]


@pytest.mark.parametrize(
    ("table", "queue", "job"),
    [
        ({b"mail": lambda job: "done"}, "mail", ""),
        ({7: lambda job: "done"}, "7", ""),
        ({b"caf\xe9": lambda job: "done"}, b"caf\xe9", ""),
        ({"mail": {b"send": lambda job: "done"}}, "mail", "send"),
        ({"mail": {7: lambda job: "done"}}, "mail", "7"),
        ({"mail": {"": lambda job: "done"}}, "mail", ""),
    ],
)
def test_names_in_a_table_may_be_of_any_form(
    jq: JobQueue, table: Any, queue: str | bytes, job: str
) -> None:
    """Text, octets and numbers name the same queue, or kind of job, as everywhere."""
    added = jq.add_job({"queue": queue, "expire": 60, "job": job})
    burst(jq, table)
    assert (STATUS_COMPLETED, "done") == (loaded(jq, added).status, loaded(jq, added).result)


def test_current_job_outside_of_a_handler(jq: JobQueue) -> None:
    """Nobody's job is the current one there."""
    assert current_job() is None


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"handlers": {}}, "handlers"),
        ({"handlers": {"q": 3}}, "function"),
        ({"concurrency": 0}, "concurrency"),
        ({"processes": -1}, "processes"),
        ({"order": "best"}, "order"),
        ({"queues": []}, "queue"),
        ({"queues": ["typo"]}, "no handler for queue 'typo' .there are some for 'q'"),
        ({"queues": ["q", b"Q"]}, "no handler for queue 'Q'"),
        ({"handlers": {"q": print, b"q": print}}, "the queue 'q' twice"),
        ({"handlers": {"q": {"1": print, 1: print}}}, "the job '1' twice"),
        ({"handlers": {"q": {}}}, "queue 'q' has no handler"),
        ({"handlers": {"caf\xe9": print}}, "utf8 in queue"),
        ({"handlers": {"": print}}, "queue is empty"),
        ({"handlers": {"q": {None: print}}}, "job must be text"),
    ],
)
def test_bad_arguments_name_what_is_wrong(jq: JobQueue, arguments: Any, word: str) -> None:
    """The error says which argument does not fit."""
    with pytest.raises(ArgumentError, match=word):
        Worker(jq, **{"handlers": {"q": print}, **arguments})


def test_middleware_is_told_in_order(jq: JobQueue, work: Callable[..., Worker]) -> None:
    """`before`, then `after` or `on_error`; one that fails changes nothing."""
    told: list[tuple[str, Any]] = []

    class Tell:
        def before(self, job: Job) -> None:
            told.append(("before", job.workload))

        def after(self, job: Job, result: Any) -> None:
            told.append(("after", result))
            raise RuntimeError("middleware of poor quality")

        def on_error(self, job: Job, error: BaseException) -> None:
            told.append(("error", str(error)))

    def handle(job: Job) -> int:
        return 1 // job.workload

    jobs = [jq.add_job({"queue": "q", "expire": 60, "workload": n}) for n in (1, 0)]
    worker = Worker(jq, {"q": handle}, concurrency=1, burst=True, middleware=[Tell()])
    worker.run(signals=False)
    assert [
        ("before", 1), ("after", 1), ("before", 0),
        ("error", "integer division or modulo by zero"),
    ] == told  # fmt: skip
    assert STATUS_COMPLETED == loaded(jq, jobs[0]).status
    assert (1, 1) == (worker.counting.done, worker.counting.failed)
