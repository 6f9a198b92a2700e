"""A handler that fails: what the job says, and where it goes next."""

from __future__ import annotations

import logging
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_CREATED,
    STATUS_FAILED,
    ArgumentError,
    Backoff,
    Bury,
    Drop,
    Handler,
    Job,
    JobQueue,
    Retry,
    Worker,
)

MODES = [{"concurrency": 2}, {"processes": 2}]
LATER = Backoff(base=60.0)
RETRY = "JobQueue:retry:jobs"


def burst(jq: JobQueue, handlers: Any, **options: Any) -> None:
    """Run a worker until nothing waits."""
    assert 0 == Worker(jq, handlers, burst=True, **options).run(signals=False)


def places(jq: JobQueue, job: Job) -> list[str]:
    """Return the kinds of the places that hold a job."""
    return [place.kind for place in jq.locate(job)]


def make_due(jq: JobQueue, job: Job) -> None:
    """Let the time pass after which a job comes again."""
    jq.redis.zadd("JobQueue:retry:jobs", {str(job.id): 0}, xx=True)
    assert [job.id] == jq.promote_due().jobs


def stored(jq: JobQueue, job: Job) -> Job:
    """Return a job as it is stored."""
    found = jq.load_job(job)
    assert found is not None
    return found


def fail(job: Job) -> None:
    """Fail, with a text beyond ASCII."""
    raise ValueError(f"no good: {job.workload} \u20ac")


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_then_burial(jq: JobQueue, mode: dict[str, int], retries: int) -> None:
    """A job that fails comes again ``retries`` times, and then it is dead."""
    job = jq.add_job({"queue": "q", "expire": 60, "workload": 7})
    handlers = {"q": Handler(fail, retries=retries, backoff=LATER)}
    for attempt in range(retries + 1):
        assert ["waiting"] == places(jq, job)
        burst(jq, handlers, **mode)
        found = stored(jq, job)
        assert "ValueError: no good: 7 \\u20ac" == found.message
        assert found.meta_data["_error"].rstrip().endswith("ValueError: no good: 7 \u20ac")
        if attempt < retries:
            assert (["retrying"], STATUS_CREATED) == (places(jq, job), found.status)
            make_due(jq, job)
    assert (["dead"], STATUS_FAILED) == (places(jq, job), found.status)
    assert {} == jq.redis.hgetall("JobQueue:attempts:jobs")
    assert retries == jq.counts(["q"]).queues["q"].counters["retried"]


def test_a_jobs_own_retries_win(jq: JobQueue) -> None:
    """The metadata field ``_retries`` is the job's own number."""
    job = jq.add_job({"queue": "q", "expire": 60, "meta_data": {"_retries": 0}})
    burst(jq, {"q": Handler(fail, retries=5)})
    assert ["dead"] == places(jq, job)


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
def test_what_a_handler_may_raise(jq: JobQueue, mode: dict[str, int]) -> None:
    """Retry waits as long as it says, Bury ends at once, Drop leaves nothing."""

    def handle(job: Job) -> None:
        raise {"retry": Retry("later", delay=100), "bury": Bury("useless"), "drop": Drop()}[
            job.workload
        ]

    jobs = {
        what: jq.add_job({"queue": "q", "expire": 60, "workload": what})
        for what in ("retry", "bury", "drop")
    }
    burst(jq, {"q": handle}, **mode)
    (waits,) = jq.retrying()
    assert jobs["retry"].id == waits.id
    assert waits.score is not None and 90 < waits.score - jq.now_ms() / 1000 <= 100
    assert "useless" == stored(jq, jobs["bury"]).message
    assert ["dead"] == places(jq, jobs["bury"])
    assert None is jq.load_job(jobs["drop"])
    assert [] == places(jq, jobs["drop"])
    assert 0 == jq.counts(["q"]).queues["q"].processing


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
def test_a_result_that_perl_has_no_form_for(jq: JobQueue, mode: dict[str, int]) -> None:
    """It is a failure of the job, and says where in the result it is."""
    job = jq.add_job({"queue": "q", "expire": 60})
    burst(jq, {"q": Handler(lambda job: {"a": [{1, 2}]}, retries=0)}, **mode)
    found = stored(jq, job)
    assert (STATUS_FAILED, ["dead"]) == (found.status, places(jq, job))
    assert "StorableError: Cannot freeze result['a'][0]" in str(found.message)


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
def test_data_that_cannot_be_read(jq: JobQueue, mode: dict[str, int]) -> None:
    """The job is buried with its bytes kept, and those behind it run."""
    bad = jq.add_job({"queue": "q", "expire": 60})
    jq.redis.hset(f"JobQueue:{bad.id}", "workload", b"garbage")
    good = jq.add_jobs([{"queue": "q", "expire": 60, "workload": n} for n in range(10)])
    burst(jq, {"q": lambda job: job.workload}, **mode)
    assert list(range(10)) == [stored(jq, job).result for job in good]
    found = stored(jq, bad)
    assert (STATUS_FAILED, ["dead"]) == (found.status, places(jq, bad))
    assert str(found.message).startswith("its data cannot be read: ")
    assert b"garbage" == jq.redis.hget(f"JobQueue:{bad.id}", "workload")


def test_a_time_limit_kills_a_process(jq: JobQueue) -> None:
    """The child is killed, the job counts as failed, and the next one runs."""

    def handle(job: Job) -> str:
        time.sleep(job.workload)
        return "ok"

    slow, quick = jq.add_jobs(
        [{"queue": "q", "expire": 60, "workload": seconds} for seconds in (30, 0)]
    )
    started = time.monotonic()
    burst(jq, {"q": Handler(handle, retries=0, timeout=0.3)}, processes=1)
    assert time.monotonic() - started < 25
    assert "TimeLimit: it ran longer than 0.3 seconds" == stored(jq, slow).message
    assert "ok" == stored(jq, quick).result


def test_a_time_limit_tells_a_thread(jq: JobQueue) -> None:
    """The handler sees ``job.cancelled``; what it returns counts."""

    def handle(job: Job) -> str:
        ends = time.monotonic() + 20
        while not job.cancelled and time.monotonic() < ends:
            time.sleep(0.01)
        return "told" if job.cancelled else "not told"

    job = jq.add_job({"queue": "q", "expire": 60})
    burst(jq, {"q": Handler(handle, timeout=0.1)})
    assert (STATUS_COMPLETED, "told") == (stored(jq, job).status, stored(jq, job).result)


def test_a_killed_child_costs_one_job_one_attempt(jq: JobQueue) -> None:
    """Its neighbours finish, and the killer is dead when its retries are used up."""

    def handle(job: Job) -> str:
        import os

        if job.workload == "kill":
            os._exit(137)
        return "ok"

    killer = jq.add_job({"queue": "q", "expire": 60, "workload": "kill"})
    others = jq.add_jobs([{"queue": "q", "expire": 60, "workload": n} for n in range(20)])
    handlers = {"q": Handler(handle, retries=1, backoff=LATER)}
    burst(jq, handlers, processes=2)
    assert ["ok"] * 20 == [stored(jq, job).result for job in others]
    attempts = jq.redis.hgetall("JobQueue:attempts:jobs")
    assert {str(killer.id).encode(): b"1"} == attempts
    make_due(jq, killer)
    burst(jq, handlers, processes=2)
    assert ["dead"] == places(jq, killer)
    assert "Died: the process that ran it is gone" == stored(jq, killer).message


def test_logs_carry_ids_and_never_payloads(
    jq: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """Each record names the job; nothing of what it holds is in any of them."""
    job = jq.add_job({"queue": "q", "expire": 60, "workload": "s3cret-load"})
    with caplog.at_level(logging.DEBUG):
        burst(jq, {"q": Handler(fail, retries=0)})
    named = [record for record in caplog.records if getattr(record, "job_id", None) == job.id]
    assert {"job started", "job failed: ValueError"} <= {r.getMessage() for r in named}
    assert "s3cret-load" not in "\n".join(str(vars(record)) for record in caplog.records)


def test_waits_grow_and_are_spread() -> None:
    """Each wait is about twice the last, never over the cap, and no two are alike."""
    backoff = Backoff(base=1.0, most=60.0)
    for attempt in [*range(1, 12), 10_000]:
        middle = min(2.0 ** min(attempt - 1, 64), 60.0 / 1.25)
        waits = [backoff.delay(attempt) for _ in range(200)]
        assert all(0.75 * middle <= wait <= min(1.25 * middle, backoff.most) for wait in waits)
        assert len(set(waits)) > 150
    assert {7.0} == {Backoff(base=1e9, most=7.0, jitter=0).delay(n) for n in range(1, 5)}


@pytest.mark.parametrize(
    "wrong", [{"base": -1}, {"most": "60"}, {"jitter": 1.5}, {"factor": 0}, {"base": float("nan")}]
)
def test_a_backoff_of_which_no_time_can_come(wrong: dict[str, Any]) -> None:
    """It is refused where it is made, not when the first job fails."""
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        Backoff(**wrong)


def test_what_failed_together_comes_again_apart(jq: JobQueue) -> None:
    """After an outage that failed 300 jobs no two seconds have many of them, none is too late."""
    most = 100.0

    def outage(job: Job) -> None:
        raise ConnectionError("the other server is away")

    jq.add_jobs([{"queue": "q", "expire": 600} for _ in range(300)])
    began = jq.now_ms() / 1000
    burst(jq, {"q": Handler(outage, backoff=Backoff(base=1e6, most=most))})
    ended = jq.now_ms() / 1000
    due = [score / 1000 for _, score in jq.redis.zrange(RETRY, 0, -1, withscores=True)]
    assert 300 == len(due)
    assert began + most / 2 < min(due) and max(due) <= ended + most
    # Forty seconds are open to them, so that about 15 of them share two seconds.
    assert max(Counter(moment // 2 for moment in due).values()) < 45


@pytest.mark.parametrize("mode", MODES, ids=["threads", "processes"])
def test_a_delay_that_is_no_time(jq: JobQueue, mode: dict[str, int]) -> None:
    """It is named where it was given, and the job fails by that as by any other error."""
    delays: list[Any] = ["5", float("nan"), -1, True, float("inf"), timedelta(minutes=2)]

    def handle(job: Job) -> None:
        raise Retry("later", delay=delays[job.workload])

    *wrong, good = jq.add_jobs(
        [{"queue": "q", "expire": 60, "workload": n} for n in range(len(delays))]
    )
    burst(jq, {"q": Handler(handle, backoff=LATER)}, **mode)
    for job in wrong:
        found = stored(jq, job)
        assert "ArgumentError: Invalid argument (delay must be" in str(found.message)
        assert "in handle" in found.meta_data["_error"]
        assert ["retrying"] == places(jq, job)
    score = jq.redis.zscore(RETRY, str(good.id))
    assert score is not None and 100 < score / 1000 - jq.now_ms() / 1000 <= 120


class Speechless(Exception):
    """It cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_errors_without_words(jq: JobQueue) -> None:
    """One whose text cannot be had, or not be stored, fails its job as any other."""

    def handle(job: Job) -> None:
        raise Speechless() if job.workload else ValueError("odd \udcff text")

    mute, odd = jq.add_jobs([{"queue": "q", "expire": 60, "workload": n} for n in (1, 0)])
    burst(jq, {"q": Handler(handle, backoff=LATER)})
    assert [["retrying"]] * 2 == [places(jq, job) for job in (mute, odd)]
    assert "Speechless" == stored(jq, mute).message
    assert "ValueError: odd \\udcff text" == stored(jq, odd).message
    assert "odd \\udcff text" in stored(jq, odd).meta_data["_error"]
