"""The life of an owner among threads, and what it says of itself."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import redis
from support.proxy import Proxy
from support.server import Server, eventually

from claims.tools import HEARTBEAT, Caller, add, claimed, queue_key
from redis_jobqueue import E_MISMATCH_ARG, ArgumentError, JobQueue, Owner
from redis_jobqueue.lua import SCRIPTS

# A stop, and beats of other threads.


def test_a_stop_while_it_takes_a_new_id(server: Server, client: redis.Redis) -> None:
    """A thread that found it fenced registers it anew when it is stopped: nobody is left."""
    with Proxy(server) as proxy, JobQueue(proxy.url) as jq:
        owner = jq.owner(interval=60, lifetime=180).start()
        client.zrem(HEARTBEAT, owner.id)
        starting = proxy.hold(SCRIPTS["owner_start"].sha)
        beating = Caller(owner.beat).start()
        starting.wait()
        stopping = Caller(owner.stop).start()
        eventually(lambda: owner._heart._thread is None, "the stop is under way")
        starting.release()
        assert beating.get() is False
        stopping.get()
        assert ([], "") == (jq.live_owners(), owner.id)


def test_fenced_while_it_stops(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """An owner that claims nothing more takes no new id."""
    owner = new_owner()
    name = owner.id
    owner.interrupt()
    client.zrem(HEARTBEAT, name)
    assert owner.beat() is False
    assert name == owner.id
    owner.stop()
    assert [] == jq.owners()


def test_two_stops_at_once(jq: JobQueue, client: redis.Redis) -> None:
    """One puts back what is held, the other finds nothing to do; neither fails."""
    for _ in range(10):
        owner = jq.owner().start()
        job = add(jq)
        held = claimed(owner)
        callers = [Caller(owner.stop).start() for _ in range(3)]
        assert 1 <= sum(caller.get() for caller in callers)
        assert [] == jq.owners()
        assert job.id == held.id
        assert 1 == client.llen(queue_key())
        client.delete(queue_key())


def test_two_starts_at_once(jq: JobQueue) -> None:
    """It is registered once."""
    owner = jq.owner()
    callers = [Caller(owner.start).start() for _ in range(5)]
    assert {owner} == {caller.get() for caller in callers}
    assert [owner.id] == [each.id for each in jq.owners()]
    owner.stop()


# What it says of itself.


def circle() -> list[object]:
    """Make a list that holds itself."""
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "bad", [object(), {"x"}, b"octets", {("a", "b"): 1}, circle()], ids=lambda bad: str(type(bad))
)
def test_facts_that_are_no_json(bad: object, jq: JobQueue, owner: Owner) -> None:
    """They are refused by name, nothing of the call is kept, and later ones work."""
    owner.describe(kind="threads")
    with pytest.raises(ArgumentError, match="load") as caught:
        owner.describe(kind="processes", load=bad)
    assert E_MISMATCH_ARG == caught.value.code == jq.last_errorcode
    owner.describe(slots=3)
    (info,) = jq.owners()
    assert ("threads", 3, None) == tuple(
        info.about.get(name) for name in ("kind", "slots", "load")
    )


def test_facts_are_those_of_the_call(jq: JobQueue, owner: Owner) -> None:
    """What is done to a value later is not told, and spoils no later description."""
    current: list[object] = ["a"]
    owner.describe(current=current, self="me")
    current.append(object())
    claimed_nothing = owner.claim("another")
    assert claimed_nothing is None and owner.beat()
    (info,) = jq.owners()
    assert (["a"], "me", ("another",)) == (info.about["current"], info.about["self"], info.queues)


def test_a_description_while_a_claim_adds_a_queue(owner: Owner) -> None:
    """The thread of the heart describes the owner whatever other threads add."""
    def add_queues() -> None:
        for number in range(100_000):
            owner._seen.setdefault(b"%d" % number)

    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        caller = Caller(add_queues).start()
        while caller.running:
            assert owner._about()
        caller.get()
    finally:
        sys.setswitchinterval(pause)
    owner._seen.clear()


# Beats.


@pytest.mark.parametrize("seconds", [None, 0, 0.5, 60])
def test_beats_have_short_deadlines(seconds: float | None, jq: JobQueue) -> None:
    """Whatever the queue allows, several beats fit into a lifetime, also where none connects."""
    jq.connection_timeout = jq.operation_timeout = seconds
    beats = jq.owner(interval=1, lifetime=6)._beats
    for deadline in (beats.connection_timeout, beats.operation_timeout):
        assert deadline is not None and 0 < deadline <= 2
        assert deadline == (seconds if seconds and seconds < 2 else 2)
