"""Blocking claims: three ways to wait, woken by everybody, spinning never.

The times after which a waiting owner looks by itself are made so long here
that only what should wake it can.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import attrs
import pytest
import redis
from support.server import Server, eventually
from support.watching import watched

from claims.blocking import MODES, WOKEN, blocked, is_waiting, perl_push
from claims.tools import (
    HEARTBEAT,
    LONG,
    Caller,
    add,
    add_many,
    claimed,
    held_key,
    ids,
    let_die,
    make_due,
    places,
    queue_key,
)
from redis_jobqueue import Job, JobDeletedError, JobQueue, Owner

pytestmark = [pytest.mark.connections, pytest.mark.usefixtures("known_scripts")]


@pytest.mark.parametrize("mode", MODES)
def test_which_way(mode: str, jq: JobQueue, new_owner: Callable[..., Owner]) -> None:
    """``wait_mode`` says how an owner waits, before and after it did."""
    owner = new_owner(wait_modes=[mode])
    assert mode == owner.wait_mode
    assert owner.claim("q", blocking=True, timeout=0.01) is None
    assert mode == owner.wait_mode
    assert "tracking" == new_owner().wait_mode


# What wakes.


@attrs.frozen
class Scene:
    """A queue, and another owner that holds one of its jobs."""

    jq: JobQueue
    client: redis.Redis
    other: Owner
    held: Job


def resume(scene: Scene) -> str:
    """Let a paused queue run again."""
    scene.jq.pause("q")
    job = add(scene.jq)
    scene.jq.resume("q")
    return str(job.id)


def promote(scene: Scene) -> str:
    """Promote a delayed job."""
    job = scene.jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    make_due(scene.client)
    scene.jq.promote_due()
    return str(job.id)


def revive(scene: Scene) -> str:
    """Revive a dead job."""
    scene.other.bury(scene.held)
    scene.jq.revive(scene.held)
    return str(scene.held.id)


def recover(scene: Scene) -> str:
    """Bring back what a dead owner held."""
    let_die(scene.other, scene.client)
    scene.jq.recover()
    return str(scene.held.id)


def give_back(scene: Scene, verb: str) -> str:
    """Let the other owner give its job back."""
    getattr(scene.other, verb)(scene.held)
    return str(scene.held.id)


WAKERS: dict[str, Callable[[Scene], str]] = {
    "RPUSH": lambda scene: perl_push(scene.client),
    "LPUSH": lambda scene: perl_push(scene.client, front=True),
    "add_job": lambda scene: str(add(scene.jq).id),
    "add_jobs": lambda scene: add_many(scene.jq, 3)[0],
    "resume": resume,
    "requeue": lambda scene: give_back(scene, "requeue"),
    "release": lambda scene: give_back(scene, "release"),
    "recover": recover,
    "promote_due": promote,
    "revive": revive,
}
PAIRS = [(name, mode) for name in WAKERS for mode in MODES if (name, mode) != ("resume", "blmove")]
"""Where it blocks in a command, paused queues are looked at once a second: a test of its own."""


@pytest.mark.parametrize("name, mode", PAIRS)
def test_woken(
    name: str, mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner],
    patient: None,
) -> None:  # fmt: skip
    """Whoever brings a job wakes the owner that waits for one of its queues."""
    add(jq)
    owner, other = new_owner(wait_modes=[mode]), new_owner()
    scene = Scene(jq, client, other, claimed(other))
    caller = blocked(owner, client)
    expected = WAKERS[name](scene)
    job = caller.get()
    assert expected == job.id
    assert [expected] == ids(client, held_key(owner))
    owner.complete(job)


@pytest.mark.parametrize("mode", MODES)
def test_resume_wakes_in_every_mode(
    mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """A filled queue that was paused is served soon after it runs again."""
    owner = new_owner(wait_modes=[mode])
    jq.pause("q")
    job = add(jq)
    caller = Caller(lambda: owner.claim("q", blocking=True, timeout=60)).start()
    eventually(lambda: owner._wakes, "it waits")
    assert caller.running
    jq.resume("q")
    assert job.id == caller.get().id


def test_everything_is_flushed(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner], patient: None
) -> None:
    """FLUSHALL forgets owners and what the server tells; the wait goes on under a new id."""
    owner = new_owner(wait_modes=["tracking"])
    caller, first = blocked(owner, client), owner.id
    client.flushall()
    eventually(lambda: owner.id != first, "a new id")
    eventually(lambda: client.zscore(HEARTBEAT, owner.id), "it is registered")
    is_waiting(client, owner, "tracking")
    expected = perl_push(client)
    assert expected == caller.get().id


@pytest.mark.parametrize("count", [1, 5, 50])
def test_many_queues(
    count: int, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner], patient: None
) -> None:
    """Of any number of queues each wakes, the first and the last."""
    owner = new_owner(wait_modes=["tracking"])
    names = [f"q{number}" for number in range(count)]
    for name in dict.fromkeys([names[0], names[-1], *random.sample(names, min(count, 3))]):
        caller = blocked(owner, client, names)
        expected = perl_push(client, name)
        job = caller.get()
        assert (expected, name) == (job.id, job.queue)
        owner.complete(job)


@pytest.mark.parametrize("mode", WOKEN)
def test_several_queues_in_every_mode(
    mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Also where only one queue at a time can be waited for each is served within a turn."""
    owner = new_owner(wait_modes=[mode])
    names = ["a", "b", "c"]
    for name in names:
        caller = blocked(owner, client, names)
        expected = perl_push(client, name)
        assert expected == caller.get().id


def test_the_order_of_queues(jq: JobQueue, owner: Owner) -> None:
    """Listed: a queue is looked at only if those before it are empty.  Random: none starves."""
    for name in ("a", "b"):
        add_many(jq, 60, name)
    assert ["b"] * 5 == [claimed(owner, ["b", "a"], order="listed").queue for _ in range(5)]
    waited = [claimed(owner, ["b", "a"], blocking=True, order="listed") for _ in range(5)]
    assert ["b"] * 5 == [job.queue for job in waited]
    mixed = [claimed(owner, ["a", "b"], blocking=number % 2 == 0).queue for number in range(60)]
    assert {"a", "b"} == set(mixed)


def test_timeouts(jq: JobQueue, owner: Owner) -> None:
    """A wait that brings nothing ends after its time, also that of the queue object."""
    begins = time.monotonic()
    assert owner.claim("q", blocking=True, timeout=0.2) is None
    jq.timeout = 0.2
    assert owner.claim("q", blocking=True) is None
    assert time.monotonic() - begins >= 0.4


def test_hardly_any_time(jq: JobQueue, owner: Owner) -> None:
    """Less than a ms is not 0, which means without end: of a claim, of a queue, of `wait`."""
    job, short = add(jq, "other"), 0.0004
    jq.timeout = short
    for call in (
        lambda: owner.claim("q", blocking=True, timeout=short),
        lambda: owner.claim("q", blocking=True),
        lambda: jq.get_next_job(queue="q", blocking=True),
    ):
        assert Caller(call).start().get() is None
    assert job.id == Caller(lambda: jq.wait(job, timeout=short)).start().get().id


def test_a_dangling_entry_ends_the_wait(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A blocking claim tells of an entry whose job is gone, as the Perl module does."""
    caller = blocked(owner, client)
    client.rpush(queue_key(), "gone")
    with pytest.raises(JobDeletedError) as caught:
        caller.get()
    assert "gone" == caught.value.job_id


# What it costs.


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("mode, most", [("tracking", 6), ("blmove", 8), ("poll", 6)])
def test_idle(
    mode: str, most: int, filled: bool, server: Server, jq: JobQueue,
    new_owner: Callable[..., Owner],
) -> None:  # fmt: skip
    """An idle owner sends a few commands, also before a filled queue that is paused."""
    owner = new_owner(wait_modes=[mode], interval=50, lifetime=100)
    if filled:
        add_many(jq, 3)
        jq.pause("q")
    assert owner.claim("q", blocking=True, timeout=0.01) is None  # the connections are open
    with watched(server) as seen:
        assert owner.claim("q", blocking=True, timeout=1.2) is None
    assert 1 <= len(seen.names) <= most


def test_idle_for_longer(server: Server, new_owner: Callable[..., Owner]) -> None:
    """Arming anew, every five seconds, is all that an owner sends: under one command a second."""
    owner = new_owner(wait_modes=["tracking"], interval=50, lifetime=100)
    assert owner.claim("q", blocking=True, timeout=0.01) is None
    with watched(server) as seen:
        assert owner.claim("q", blocking=True, timeout=6) is None
    # At the beginning, after five seconds, and at the end.
    # (The MONITOR of Redis 6.2 does not show CLIENT CACHING.)
    assert ["EVAL", "EVALSHA"] * 3 == [name for name in seen.names if name != "CLIENT"]


def test_jobs_of_paused_queues_wake_nobody_into_spinning(
    server: Server, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner],
    patient: None,
) -> None:  # fmt: skip
    """Each push to a paused queue costs one look, and starts nothing."""
    owner = new_owner(wait_modes=["tracking"])
    jq.pause("q")
    caller = blocked(owner, client)
    with watched(server) as seen:
        pushed = [perl_push(client) for _ in range(10)]
        time.sleep(0.2)  # for the looks; more of them would be a fault, fewer is none
    assert seen.names.count("EVALSHA") <= 10
    assert caller.running
    jq.resume("q")
    assert pushed[0] == caller.get().id


@pytest.mark.parametrize("mode", MODES)
def test_paused_while_many_wait(
    mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Ten owners wait, the queue is paused, ten jobs come: none starts until it runs again."""
    owners = [new_owner(wait_modes=[mode]) for _ in range(10)]
    callers = [blocked(owner, client) for owner in owners]
    assert jq.pause("q", expected=False)
    expected = [perl_push(client) for _ in range(10)]
    eventually(lambda: all(client.zscore(HEARTBEAT, owner.id) for owner in owners), "they live")
    assert {job_id: ["queue:q"] for job_id in expected} == places(client)
    assert all(caller.running for caller in callers)
    jq.resume("q")
    assert sorted(expected) == sorted(caller.get().id for caller in callers)
