"""``for job in owner.jobs(...)``: the main loop of a consumer."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import redis
from support.server import eventually

from claims.blocking import MODES
from claims.tools import (
    LONG,
    PREFIX,
    Caller,
    add,
    add_many,
    claimed,
    ids,
    let_die,
    make_due,
    places,
    queue_key,
)
from redis_jobqueue import JobQueue, Owner


def test_job_after_job(jq: JobQueue, owner: Owner) -> None:
    """All jobs come in order, and the loop ends when none came for the given time."""
    expected = add_many(jq, 5)
    done = []
    for job in owner.jobs("q", timeout=0.1):
        owner.complete(job)
        done.append(job.id)
    assert expected == done


def test_it_ends_when_the_owner_stops(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Interrupted from anywhere the loop ends; what was held is released by the stop."""
    expected = add_many(jq, 3)
    owner = new_owner()
    held = []

    def work() -> int:
        for job in owner.jobs("q"):
            held.append(job)
        return len(held)

    caller = Caller(work).start()
    eventually(lambda: len(held) == 3 and owner._wakes, "it waits")
    owner.interrupt()
    assert 3 == caller.get()
    assert [] == list(owner.jobs("q"))
    assert 3 == owner.stop()
    assert expected == ids(client, queue_key())


@pytest.mark.parametrize("mode", MODES)
def test_it_ends_when_another_thread_stops_the_owner(
    mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """However it waits, a stop that comes meanwhile ends the loop, and raises nothing in it."""
    owner = new_owner(wait_modes=[mode])
    caller = Caller(lambda: list(owner.jobs(["q", "r"]))).start()
    eventually(lambda: owner._wakes, "it waits")
    assert 0 == owner.stop()
    assert [] == caller.get()


def test_it_tends_the_queues(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """While it waits it brings back orphans, promotes what is due, and keeps what must live."""
    orphan, dying = add(jq), new_owner()
    claimed(dying)
    due = jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    far = jq.add_job({"queue": "q", "expire": LONG}, delay=2000)
    client.expire(PREFIX + str(far.id), LONG)
    owner = new_owner(interval=0.05, lifetime=0.5)
    done: list[str] = []

    def work() -> None:
        for job in owner.jobs("q"):
            owner.complete(job)
            done.append(str(job.id))

    caller = Caller(work).start()
    eventually(lambda: owner._wakes, "it waits")
    let_die(dying, client)
    client.zadd("JobQueue:delayed:jobs", {str(due.id): 1})
    eventually(lambda: {str(orphan.id), str(due.id)} == set(done), "both come")
    eventually(lambda: client.ttl(PREFIX + str(far.id)) == -1, "it is kept")
    owner.interrupt()
    caller.get()
    assert {str(far.id): ["delayed:jobs"]} == places(client)


def test_what_cannot_be_tended_is_told_once(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The loop goes on, and one line says what is not done."""
    client.set("JobQueue:delayed:jobs", "no set")
    owner = new_owner(interval=0.05, lifetime=5)
    add_many(jq, 3)
    for job in owner.jobs("q", timeout=0.5):
        owner.complete(job)
    assert 3 == jq.counts("q").queues["q"].counters["completed"]
    told = [each for each in caplog.records if "not tended" in each.getMessage()]
    assert ["ERROR"] == [each.levelname for each in told]


def test_entries_without_a_job_end_no_loop(
    jq: JobQueue, client: redis.Redis, owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    """They are logged, and the loop goes on."""
    caplog.set_level(logging.WARNING, "redis_jobqueue")
    client.rpush(queue_key(), "gone")
    jobs = owner.jobs("q", timeout=5)
    caller = Caller(lambda: next(jobs)).start()
    eventually(lambda: "removed prior to use" in caplog.text, "it is told")
    job = add(jq)
    found = caller.get()
    assert job.id == found.id
    owner.complete(found)


def test_a_broken_loop(jq: JobQueue, client: redis.Redis) -> None:
    """An exception out of the loop leaves its job to the stop: it waits again."""
    expected = add_many(jq, 2)
    with pytest.raises(ZeroDivisionError):
        with jq.owner() as owner:
            for _ in owner.jobs("q"):
                raise ZeroDivisionError
    assert expected == ids(client, queue_key())


def test_the_order_and_marks(jq: JobQueue, owner: Owner) -> None:
    """Order and mark are those of a claim."""
    add_many(jq, 2, "a"), add_many(jq, 2, "b")
    jobs = owner.jobs(["b", "a"], timeout=0.05, mark=False, order="listed")
    seen = [(job.queue, job.status) for job in jobs]
    assert [("b", "__created__")] * 2 + [("a", "__created__")] * 2 == seen


def test_upkeep_promotes(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """One upkeep moves all due jobs, not only those that one script takes."""
    for _ in range(120):
        jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    make_due(client)
    owner.upkeep()
    assert 120 == client.llen(queue_key())
