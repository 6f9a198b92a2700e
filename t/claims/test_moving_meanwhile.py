"""Looking over many jobs while consumers take some off and producers add others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import redis

from claims.tools import (
    DELAYED,
    LONG,
    Caller,
    add,
    add_many,
    claimed,
    make_due,
    places,
    queue_key,
)
from redis_jobqueue import Job, JobQueue, Owner
from redis_jobqueue.connection import drive
from redis_jobqueue.operations import overview, schedule, survey
from redis_jobqueue.operations.request import Operation, Request, Script

MANY = 2300
"""More than four steps."""


@attrs.define
class Meanwhile:
    """Runs an operation, and does something behind some of its requests."""

    jq: JobQueue
    requests: int = 0

    def run(self, operation: Operation[Any], act: Callable[[Request], object]) -> Any:
        """Run it; ``act`` is told of each request when it was answered."""
        self.requests = 0

        def send(request: Request) -> Any:
            reply = self.jq._driver.send(request)
            self.requests += 1
            act(request)
            return reply

        return drive(operation, send)


@pytest.fixture
def meanwhile(jq: JobQueue) -> Meanwhile:
    """Return what runs an operation."""
    return Meanwhile(jq)


# The jobs of a queue.


def fill(client: redis.Redis, count: int = MANY) -> list[bytes]:
    """Let jobs wait, the oldest first; give their ids."""
    with client.pipeline() as pipe:
        for number in range(count):
            pipe.hset(f"JobQueue:{number}x", mapping={"created": 1000 + number, "queue": "q"})
            pipe.rpush(queue_key(), f"{number}x")
        pipe.execute()
    return [b"%dx" % number for number in range(count)]


def test_ids_while_consumers_take_some(client: redis.Redis, meanwhile: Meanwhile) -> None:
    """Every job that waits from the first step to the last is among the ids, in order."""
    expected = fill(client)
    found = meanwhile.run(
        survey.get_job_ids({b"q"}, None, True, meanwhile.jq._keys),
        lambda _: client.lpop(queue_key(), 7),
    )
    assert meanwhile.requests >= MANY // survey.STEP
    left = client.lrange(queue_key(), 0, -1)
    assert left == [each for each in found if each in set(left)]
    assert found == [each for each in expected if each in set(found)]


def test_ids_while_producers_add_some(client: redis.Redis, meanwhile: Meanwhile) -> None:
    """Each is given once, in order; those that were added meanwhile may be missing."""
    expected = fill(client)

    def add_some(request: Request) -> None:
        names = (f"new-{meanwhile.requests}-{number}" for number in range(7))
        client.rpush(queue_key(), *names)

    found = meanwhile.run(survey.get_job_ids({b"q"}, None, True, meanwhile.jq._keys), add_some)
    assert expected == [each for each in found if not each.startswith(b"new")]
    assert len(found) == len(set(found))


def test_ids_in_their_order(jq: JobQueue, client: redis.Redis) -> None:
    """However many there are, the next one to be taken comes first, and each comes once."""
    for count in (1, survey.STEP - 1, survey.STEP, survey.STEP + 1, MANY):
        client.flushall()
        expected = fill(client, count)
        client.rpush(queue_key(), expected[0], "", "0")
        assert [each.decode() for each in expected] == jq.get_job_ids(queue="q", queued=True)


def test_status_while_consumers_take_some(client: redis.Redis, meanwhile: Meanwhile) -> None:
    """The length is that of one moment."""
    fill(client)
    lengths = []

    def take(request: Request) -> None:
        if isinstance(request, Script) and request.name == "waiting_ages":
            lengths.append(client.llen(queue_key()))
        client.lpop(queue_key(), 7)

    operation = survey.queue_status(b"q", meanwhile.jq._keys, now=1e6)
    status = meanwhile.run(operation, take)
    assert len(set(lengths)) > 3
    assert lengths[0] == status["length"]
    assert 1e6 - (1000 + MANY - 1) == status["min_job_age"]


# The place of a job that moves.


def taken(jq: JobQueue, owner: Owner) -> tuple[Job, Callable[[], object]]:
    """It waits, and is claimed."""
    job, hand = add(jq), []
    return job, lambda: hand.append(claimed(owner))  # type: ignore[func-returns-value]


def given_back(jq: JobQueue, owner: Owner) -> tuple[Job, Callable[[], object]]:
    """It is held, and released."""
    add(jq)
    job = claimed(owner)
    return job, lambda: owner.release(job)


def retried(jq: JobQueue, owner: Owner) -> tuple[Job, Callable[[], object]]:
    """It is held, and comes again later."""
    add(jq)
    job = claimed(owner)
    return job, lambda: owner.retry(job, 1000)


def promoted(jq: JobQueue, owner: Owner) -> tuple[Job, Callable[[], object]]:
    """It was delayed, and is due."""
    job = jq.add_job({"queue": "q", "expire": LONG}, delay=1000)

    def promote() -> None:
        with jq.redis as client:
            make_due(client)
        jq.promote_due()

    return job, promote


@pytest.mark.parametrize("move", [taken, given_back, retried, promoted])
def test_a_job_that_moves_is_found(
    move: Callable[..., Any], jq: JobQueue, client: redis.Redis, owner: Owner,
    meanwhile: Meanwhile,
) -> None:  # fmt: skip
    """Whenever it moves while somebody looks for it, it is found in the one place where it is."""
    step, kept = 0, []
    while step == 0 or meanwhile.requests >= step:
        step += 1
        job, go = move(jq, owner)
        kept.append(go)
        found = meanwhile.run(
            overview.locate(str(job.id).encode(), jq._keys),
            lambda _: go() if meanwhile.requests == step else None,
        )
        kinds = [place.kind for place in found]
        if meanwhile.requests >= step:
            (key,) = places(client)[str(job.id)]
            moves = {"taken": ["waiting"], "given_back": ["processing"], "retried": ["processing"],
                     "promoted": ["delayed"]}[move.__name__]  # fmt: skip
            now = {"queue": "waiting", "processing": "processing", "retry": "retrying"}
            assert kinds in ([now[key.partition(":")[0]]], moves)
        client.delete(queue_key())  # the next one is claimed from the same queue
    assert step > 5


def test_a_job_that_stands_twice(client: redis.Redis, meanwhile: Meanwhile) -> None:
    """Both its places are found, and no third one where producers add others meanwhile."""
    fill(client)
    client.rpush(queue_key(), "1700x")

    def add_some(request: Request) -> None:
        names = (f"new-{meanwhile.requests}-{number}" for number in range(200))
        client.rpush(queue_key(), *names)

    found = meanwhile.run(overview.locate(b"1700x", meanwhile.jq._keys), add_some)
    assert ["waiting"] * 2 == [place.kind for place in found]


# What is due.


def test_due_while_others_promote(
    jq: JobQueue, client: redis.Redis, meanwhile: Meanwhile
) -> None:
    """What is due from the first step to the last is listed, once each, the earliest first."""
    client.zadd(DELAYED, {f"{number}x": number for number in range(MANY)})
    expected = [f"{number}x" for number in range(MANY)]
    operation = schedule.due(MANY, False, jq._keys)
    found = meanwhile.run(operation, lambda _: client.zpopmin(DELAYED, 7))
    assert meanwhile.requests >= MANY // survey.STEP
    assert len(found) == len(set(found)) and found == [each for each in expected if each in found]
    assert set(map(bytes.decode, client.zrange(DELAYED, 0, -1))) <= set(found)


def test_due_at_the_very_same_time(jq: JobQueue, client: redis.Redis) -> None:
    """Where more are due at one moment than a step gives, each is listed once."""
    client.zadd(DELAYED, {f"{number}x": number // 800 for number in range(MANY)})
    expected = [raw.decode() for raw in client.zrange(DELAYED, 0, -1)]
    for limit in (1, 499, 500, 501, 1600, 2299, MANY, MANY + 1):
        assert expected[:limit] == jq.due(limit)


def test_due_takes_many(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Any number is taken off in short steps, also by two at once: none twice, none left."""
    expected = {f"{number}x" for number in range(MANY)}
    client.zadd(DELAYED, dict.fromkeys(expected, 5))
    callers = [Caller(lambda: jq.due(MANY, remove=True)).start() for _ in range(2)]
    found = [job_id for caller in callers for job_id in caller.get()]
    assert (MANY, expected) == (len(found), set(found))
    assert not client.exists(DELAYED)
    assert add_many(jq, 1) == [claimed(owner).id]
