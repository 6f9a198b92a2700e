"""Handlers that do what no handler should: each job ends once, and the worker goes on."""

from __future__ import annotations

import asyncio
import datetime
import sys
from collections.abc import Callable
from typing import Any

import pytest

from redis_jobqueue import (
    Backoff,
    Bury,
    Handler,
    Job,
    JobDeletedError,
    JobQueue,
    Retry,
    Worker,
)

MODES = [{"concurrency": 1}, {"processes": 1}]
NAMES = ["threads", "processes"]


class Wordless(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def leave(job: Job) -> None:
    """End the process, as a script would."""
    sys.exit("enough")


def cancel(job: Job) -> None:
    """End like a task of asyncio that is cancelled."""
    raise asyncio.CancelledError


def odd_metadata(job: Job) -> None:
    """Leave something in the job that Perl has no form for."""
    job.meta_data["at"] = datetime.datetime.now()


def odd_name(job: Job) -> None:
    """Leave text in the job that a plain field cannot hold."""
    job.job = "caf\xe9"


def too_large(job: Job) -> None:
    """Leave more in the job than the queue takes."""
    job.meta_data["log"] = "x" * 5_000


def half_a_letter(job: Job) -> None:
    """Fail with a text that has no UTF-8."""
    raise ValueError("broken \udcff text")


def wordless(job: Job) -> None:
    """Fail with an error that has no text at all."""
    raise Wordless


class WordlessBury(Bury, Wordless):
    """A burial whose reason cannot be shown."""

    __str__ = Wordless.__str__


def of_another(job: Job) -> None:
    """Fail with an error that is about another job."""
    raise JobDeletedError(job_id="ANOTHER")


HANDLERS: dict[Callable[[Job], Any], str] = {
    leave: "SystemExit: enough",
    cancel: "CancelledError",
    odd_metadata: "StorableError: Cannot freeze at",
    odd_name: "utf8 in job",
    too_large: "DataTooLargeError",
    half_a_letter: "ValueError: broken",
    wordless: "Wordless",
    of_another: "JobDeletedError: ANOTHER",
}


@pytest.fixture
def small(jq: JobQueue) -> JobQueue:
    """Return the queue object with a small limit for data."""
    jq.max_datasize = 4_000
    return jq


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
@pytest.mark.parametrize("unruly", HANDLERS, ids=lambda handler: handler.__name__)
def test_it_is_a_failure_of_the_job(
    small: JobQueue, unruly: Callable[[Job], Any], mode: dict[str, int]
) -> None:
    """The job is dead after its retries with the reason, and the next one runs in the same slot."""
    bad = small.add_job({"queue": "q", "expire": 60, "workload": "bad"})
    good = small.add_job({"queue": "q", "expire": 60, "workload": "good"})
    runs = Counting()

    def handle(job: Job) -> Any:
        return unruly(job) if job.workload == "bad" else "done"

    handlers = {"q": Handler(handle, retries=1, backoff=Backoff(0.0))}
    for _ in range(2):
        assert 0 == Worker(small, handlers, burst=True, middleware=[runs], **mode).run(
            signals=False
        )
        small.redis.zadd("JobQueue:retry:jobs", {str(bad.id): 0}, xx=True)
        small.promote_due()
    assert 0 == Worker(small, handlers, burst=True, middleware=[runs], **mode).run(signals=False)
    assert "done" == small.get_job_data(good, "result")
    assert ["dead"] == [place.kind for place in small.locate(bad)]
    assert HANDLERS[unruly] in small.get_job_data(bad, "message")
    assert {str(bad.id): 2, str(good.id): 1} == runs.begun
    assert {str(bad.id): 2} == runs.failed
    assert 1 == small.counts(["q"]).queues["q"].counters["retried"]


class Counting:
    """Middleware that counts what it is told of each job."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.failed: dict[str, int] = {}

    def _count(self, where: dict[str, int], job: Job) -> None:
        where[str(job.id)] = where.get(str(job.id), 0) + 1

    def before(self, job: Job) -> None:
        """Count a start."""
        self._count(self.begun, job)

    def after(self, job: Job, result: Any) -> None:
        """Count a success."""
        self._count(self.done, job)

    def on_error(self, job: Job, error: BaseException) -> None:
        """Count a failure."""
        self._count(self.failed, job)


def test_each_start_has_one_end(jq: JobQueue) -> None:
    """Middleware hears of each start, and then of one end: also of a job that was taken away."""
    counting = Counting()

    def handle(job: Job) -> None:
        if job.workload == "deleted":
            jq.delete_job(job)
        elif job.workload == "lost":
            jq.redis.delete(f"JobQueue:claims:{job._claim.owner.decode()}")
        elif job.workload == "fails":
            raise ValueError("no")

    kinds = ("done", "deleted", "lost", "fails")
    jobs = {
        kind: str(jq.add_job({"queue": "q", "expire": 60, "workload": kind}).id) for kind in kinds
    }
    unread = jq.add_job({"queue": "q", "expire": 60})
    jq.redis.hset(f"JobQueue:{unread.id}", "workload", b"garbage")
    strange = jq.add_job({"queue": "other", "expire": 60, "job": "nobody's"})
    handlers = {"q": Handler(handle, retries=0), "other": {"somebody's": handle}}
    Worker(jq, handlers, burst=True, concurrency=1, middleware=[counting]).run(signals=False)
    assert {jobs["done"]: 1} == counting.done
    failed = {jobs[kind] for kind in kinds[1:]} | {str(unread.id), str(strange.id)}
    assert dict.fromkeys(failed, 1) == counting.failed
    assert dict.fromkeys([*jobs.values(), str(unread.id), str(strange.id)], 1) == counting.begun


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
@pytest.mark.parametrize(
    ("own", "most", "deliveries"), [(5, None, 6), (5, 3, 3), (0, None, 1), (None, None, 2)]
)
def test_whose_retries_count(
    jq: JobQueue, own: int | None, most: int | None, deliveries: int, mode: dict[str, int]
) -> None:
    """A job's own number wins over the handler's, up or down; ``max_attempts`` over both."""
    meta = {} if own is None else {"_retries": own}
    job = jq.add_job({"queue": "q", "expire": 60, "meta_data": meta})

    def handle(job: Job) -> None:
        raise Retry("again", delay=0)

    handlers = {"q": Handler(handle, retries=1)}
    done = 0
    while [place.kind for place in jq.locate(job)] != ["dead"]:
        assert done < 10
        Worker(jq, handlers, burst=True, max_jobs=1, max_attempts=most, **mode).run(signals=False)
        jq.promote_due()
        done = jq.counts(["q"]).queues["q"].counters["claimed"]
    assert deliveries == done


def test_a_burial_without_words(jq: JobQueue) -> None:
    """A reason that cannot be shown buries all the same, once."""

    def handle(job: Job) -> None:
        raise WordlessBury

    job = jq.add_job({"queue": "q", "expire": 60})
    Worker(jq, {"q": handle}, burst=True).run(signals=False)
    assert ["dead"] == [place.kind for place in jq.locate(job)]
    assert "WordlessBury" in jq.get_job_data(job, "message")


def test_a_back_off_that_fails(jq: JobQueue) -> None:
    """A job whose back-off raises is dead with its own reason: it must not run for ever."""

    class Broken(Backoff):
        def delay(self, attempt: int) -> float:
            raise ZeroDivisionError

    def handle(job: Job) -> None:
        raise ValueError("its own reason")

    job = jq.add_job({"queue": "q", "expire": 60})
    Worker(jq, {"q": Handler(handle, backoff=Broken())}, burst=True).run(signals=False)
    assert ["dead"] == [place.kind for place in jq.locate(job)]
    assert "ValueError: its own reason" == jq.get_job_data(job, "message")


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_time_limit_costs_an_attempt(jq: JobQueue, retries: int) -> None:
    """A job that is killed at its time limit comes again as often as one that raises."""
    job = jq.add_job({"queue": "q", "expire": 60})
    forever = Handler(lambda job: asyncio.run(asyncio.sleep(60)), retries=retries, timeout=0.2,
                      backoff=Backoff(0.0))  # fmt: skip
    done = 0
    while [place.kind for place in jq.locate(job)] != ["dead"]:
        assert done < 10
        Worker(jq, {"q": forever}, burst=True, max_jobs=1, processes=1).run(signals=False)
        jq.promote_due()
        done = jq.counts(["q"]).queues["q"].counters["claimed"]
    assert retries + 1 == done
    assert "TimeLimit: it ran longer than 0.2 seconds" == jq.get_job_data(job, "message")
