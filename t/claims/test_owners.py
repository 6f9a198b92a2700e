"""Owners: who they are, how they start and leave, and what a fork and a fence do to them."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from support.server import Server, eventually

from claims.tools import (
    ABOUT,
    ATTEMPTS,
    HEARTBEAT,
    LISTS,
    Caller,
    add,
    add_many,
    claimed,
    claims_key,
    entries,
    held_key,
    ids,
    let_die,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import (
    E_CLAIM_LOST,
    E_JOB_DELETED,
    E_MISMATCH_ARG,
    E_NETWORK,
    E_NO_ERROR,
    ArgumentError,
    ClaimLostError,
    JobDeletedError,
    JobQueue,
    JobQueueError,
    NetworkError,
    Owner,
    RedisError,
)

# Who they are.


def test_ids(jq: JobQueue, new_owner: Callable[..., Owner]) -> None:
    """An id says host and process, or the given prefix, and ends in a part of its own."""
    host = re.sub("[^0-9A-Za-z.-]", "-", socket.gethostname())
    assert re.fullmatch(rf"{re.escape(host)}-{os.getpid()}-[0-9a-f]{{8}}", new_owner().id)
    one, two = new_owner(id="worker-7"), new_owner(id="worker-7")
    assert re.fullmatch("worker-7-[0-9a-f]{8}", one.id)
    assert one.id != two.id
    assert {one.id, two.id} <= set(jq.live_owners())
    assert "" == jq.owner().id


@pytest.mark.parametrize("bad", ["", "a:b", "a b", "caf\xe9", b"\xff"])
def test_bad_prefixes(bad: str, jq: JobQueue) -> None:
    """A prefix with a colon, a space or beyond ASCII is refused."""
    with pytest.raises(ArgumentError):
        jq.owner(id=bad)


@pytest.mark.parametrize(
    "options",
    [{"interval": 0}, {"interval": 5, "lifetime": 5}, {"lifetime": -1}, {"max_attempts": -1},
     {"max_attempts": True}, {"wait_modes": []}, {"wait_modes": ["hope"]}],
)  # fmt: skip
def test_bad_settings(options: dict[str, object], jq: JobQueue) -> None:
    """Settings that cannot be are refused with code 0, before anything is sent."""
    with pytest.raises(ArgumentError) as caught:
        jq.owner(**options)  # type: ignore[arg-type]
    assert E_NO_ERROR == caught.value.code


def test_an_id_is_never_used_again(jq: JobQueue) -> None:
    """A new start is a new owner, also of the same object."""
    owner = jq.owner(id="x")
    seen = set()
    for _ in range(3):
        with owner:
            seen.add(owner.id)
    assert 3 == len(seen)
    assert [] == jq.live_owners()


# Start and stop.


def test_a_clean_stop_leaves_nothing(jq: JobQueue, client: redis.Redis) -> None:
    """An owner that finished everything leaves no trace but counters."""
    add(jq)
    with jq.owner() as owner:
        assert client.zscore(HEARTBEAT, owner.id)
        assert client.hexists(ABOUT, owner.id)
        owner.complete(claimed(owner, ["q", "other"]))
    left = {key.decode() for key in client.keys("JobQueue:*:*")}
    assert {"JobQueue:stats:q"} == left


def test_a_stop_deregisters_the_queue_of_a_claim_next(
    jq: JobQueue, client: redis.Redis
) -> None:
    """Also a list that only ``claim_next`` named is deregistered."""
    add(jq, "a"), add(jq, "b")
    with jq.owner() as owner:
        following = owner.complete(claimed(owner, "a"), claim_next="b")
        assert following is not None
        assert "b" == following.queue
        owner.complete(following)
    assert 0 == client.exists(LISTS, ABOUT, HEARTBEAT)


def test_a_stop_releases_what_is_held(jq: JobQueue, client: redis.Redis) -> None:
    """What is held goes back to the head, the first claim next."""
    expected = add_many(jq, 5)
    with jq.owner() as owner:
        jobs = owner.claim_many("q", 3)
        assert 3 == len(jobs)
        assert expected[3:] == ids(client, queue_key())
    assert expected == ids(client, queue_key())
    assert 0 == client.exists(LISTS, ABOUT, HEARTBEAT)
    with pytest.raises(ClaimLostError):
        owner.complete(jobs[0])


def test_a_stop_that_keeps(jq: JobQueue, client: redis.Redis) -> None:
    """With release=False the job stays held and its list registered; recovery takes it at once."""
    add_many(jq, 2)
    owner = jq.owner().start()
    one, two = owner.claim_many("q", 2)
    assert 0 == owner.stop(release=False)
    assert [] == jq.live_owners()
    name = places(client)[str(one.id)][0].removeprefix("processing:")
    assert client.sismember(LISTS, name)
    owner.complete(one)
    assert "__completed__" == stored(client, one)["status"]
    assert 1 == jq.recover().jobs
    assert [two.id] == ids(client, queue_key())
    assert 0 == client.exists(LISTS, ABOUT)


def test_a_stop_waits_for_other_threads(jq: JobQueue, client: redis.Redis) -> None:
    """With wait= other threads may finish what they hold; new claims are refused meanwhile."""
    add_many(jq, 2)
    owner = jq.owner().start()
    job = claimed(owner)
    stopping = Caller(lambda: owner.stop(wait=20)).start()
    eventually(lambda: owner._stopping, "the owner stops")
    with pytest.raises(JobQueueError, match="stopped"):
        owner.claim("q")
    assert stopping.running
    assert owner.complete(job, claim_next=True) is None
    assert 0 == stopping.get()
    assert 1 == client.llen(queue_key())


def test_stop_of_what_never_started(jq: JobQueue) -> None:
    """Stopping twice, or without a start, does nothing."""
    owner = jq.owner()
    assert 0 == owner.stop()
    with owner:
        owner.stop()
    assert 0 == owner.stop()
    with pytest.raises(JobQueueError, match="not started"):
        jq.owner().claim("q")


def test_an_error_in_the_block_is_not_hidden(jq: JobQueue, own_server: Server) -> None:
    """What ended the block comes out, also when the owner cannot be stopped."""
    with pytest.raises(ZeroDivisionError):
        with JobQueue(own_server.url, connection_timeout=1) as queue, queue.owner():
            own_server.kill()
            raise ZeroDivisionError


def test_many_queues_at_stop(jq: JobQueue, client: redis.Redis) -> None:
    """A stop in the middle of 300 held jobs of 60 queues puts all of them back in order."""
    expected = {f"q{n}": add_many(jq, 5, f"q{n}") for n in range(60)}
    with jq.owner() as owner:
        jobs = []
        while taken := owner.claim_many(list(expected), 100):
            jobs += taken
        assert 300 == len(jobs)
    assert expected == {name: ids(client, queue_key(name)) for name in expected}


def test_an_owner_says_what_it_is(jq: JobQueue, new_owner: Callable[..., Owner]) -> None:
    """``owners`` shows host, process, lifetime, queues and claims, dead ones too."""
    owner = new_owner(id="one", lifetime=50, max_attempts=4)
    add_many(jq, 2)
    jobs = owner.claim_many(["q", "r"], 2)
    owner.beat()
    (info,) = jq.owners()
    assert (owner.id, True, os.getpid(), socket.gethostname()) == (
        info.id, info.live, info.pid, info.host
    )  # fmt: skip
    assert {"q", "r"} == set(info.queues)
    assert len(jobs) == info.holding
    assert (50, 4) == (info.about["lifetime"], info.about["max_attempts"])
    assert info.lapses_in is not None
    assert 40 < info.lapses_in <= 50
    assert abs(time.time() - info.since) < 60


# A fork.


def test_a_child_refuses(jq: JobQueue, new_owner: Callable[..., Owner]) -> None:
    """Every method refuses to work in another process, and touches nothing."""
    add_many(jq, 3)
    owner = new_owner()
    job = claimed(owner)
    assert owner.claim("empty", blocking=True, timeout=0.01) is None  # has idle connections
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        refused = 0
        calls: list[Callable[[], object]] = [
            lambda: owner.claim("q"),
            lambda: owner.claim("empty", blocking=True, timeout=0.01),
            lambda: owner.claim_many("q", 2),
            lambda: owner.complete(job),
            lambda: owner.complete(job, claim_next=True),
            lambda: owner.release(job),
            lambda: job.save() or job.begun(),
            lambda: owner.beat(),
            lambda: owner.recover(),
            lambda: owner.upkeep(),
            lambda: owner.start(),
            lambda: owner.stop(),
        ]
        for call in calls:
            try:
                call()
            except JobQueueError as error:
                refused += "after a fork" in str(error)
        os.write(writer, b"%d of %d" % (refused, len(calls)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert b"12 of 12" == answer
    assert owner.claim("empty", blocking=True, timeout=0.01) is None
    owner.complete(job)
    assert [owner.id] == jq.live_owners()


def test_a_child_makes_its_own(jq: JobQueue, new_owner: Callable[..., Owner]) -> None:
    """A child makes an owner of its own from the queue that it has inherited."""
    expected = add_many(jq, 2)
    owner = new_owner(id="same")
    job = claimed(owner)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with jq.owner(id="same") as mine:
            mine.complete(claimed(mine))
            os.write(writer, mine.id.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        other = pipe.read().decode()
    os.waitpid(child, 0)
    assert other.startswith("same-")
    assert other != owner.id
    owner.complete(job)
    assert ["__completed__"] * 2 == [jq.get_job_data(job_id, "status") for job_id in expected]


# The fence.


def test_a_fenced_owner(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """It takes a new id with its next beat; its old job is refused and the new one is not."""
    add_many(jq, 2)
    owner = new_owner()
    old, first = claimed(owner), owner.id
    let_die(owner, client)
    assert 1 == jq.recover().jobs
    assert owner.beat() is False
    assert first != owner.id
    again = claimed(owner)
    assert old.id == again.id
    for call in (owner.complete, owner.fail, owner.retry, owner.bury, owner.requeue, owner.save,
                 owner.begun):  # fmt: skip
        old.message = "late"
        with pytest.raises(ClaimLostError) as caught:
            call(old)  # type: ignore[operator]
        assert str(old.id) == caught.value.job_id
        assert E_CLAIM_LOST == jq.last_errorcode
    assert 0 == owner.release(old)
    assert "" == stored(client, old)["message"]
    owner.beat()
    assert [str(again.id)] == ids(client, held_key(owner))
    owner.complete(again)


def test_an_old_job_does_not_end_the_new_ones_token(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Tokens of two ids may be equal: what ends an old claim leaves the new one alive."""
    add_many(jq, 2)
    owner = new_owner()
    old = claimed(owner)
    client.zrem(HEARTBEAT, owner.id)
    assert owner.beat() is False
    new = claimed(owner)
    assert old._claim.field == new._claim.field
    owner.complete(old)
    assert "__completed__" == stored(client, old)["status"]
    owner.beat()
    assert [str(new.id)] == ids(client, held_key(owner))
    owner.complete(new)


def test_removed_from_the_heartbeat(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Somebody removed the owner's beat: it registers anew, claims on, and finishes its job."""
    add_many(jq, 3)
    owner = new_owner(interval=0.05)
    job, first = claimed(owner), owner.id
    client.zrem(HEARTBEAT, owner.id)
    eventually(lambda: owner.id != first and [owner.id] == jq.live_owners(), "a new id")
    following = owner.complete(job, claim_next=True)
    assert following is not None
    assert "__completed__" == stored(client, job)["status"]
    owner.complete(following)


def test_a_claim_finds_out_that_it_is_fenced(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Without waiting for a beat, the claim itself leads to a new id."""
    add(jq)
    first = owner.id
    client.zrem(HEARTBEAT, owner.id)
    job = claimed(owner)
    assert first != owner.id
    assert [str(job.id)] == ids(client, held_key(owner))
    assert not client.exists(held_key(first))


def test_lapse_is_final_only_with_the_fence(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A lapsed owner whom nobody recovered lives on under its id; its claim beats first."""
    add_many(jq, 2)
    job, first = claimed(owner), owner.id
    client.zadd(HEARTBEAT, {owner.id: 1})
    assert [] == jq.live_owners()
    claimed(owner)
    assert [first] == jq.live_owners()
    owner.complete(job)


@pytest.mark.parametrize(
    "how", ['rename-command LMOVE ""', "user default on nopass ~* &* +@all -lmove"]
)
def test_a_server_without_lmove(
    how: str, make_server: Callable[..., Server], server_version: str, tmp_path: Path
) -> None:
    """A server that cannot move between lists refuses the start, and says why."""
    config = tmp_path / "redis.conf"
    config.write_text(how + "\n")
    server = make_server(server_version, include=config)
    with JobQueue(server.url) as jq:
        with pytest.raises(RedisError, match="(?i)lmove"):
            jq.owner().start()
        assert not jq.health().claims
        assert [] == jq.live_owners()


# The error state.


def test_the_error_state_of_owner_methods(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Owner methods reset ``last_errorcode`` and leave the code of what they raise."""
    add_many(jq, 2)
    job = claimed(owner)
    assert E_NO_ERROR == jq.last_errorcode
    with pytest.raises(ArgumentError):
        owner.claim("q", order="best")
    assert E_MISMATCH_ARG == jq.last_errorcode
    client.delete("JobQueue:" + str(job.id))
    with pytest.raises(JobDeletedError) as caught:
        owner.complete(job)
    assert str(job.id) == caught.value.job_id
    assert E_JOB_DELETED == jq.last_errorcode
    with pytest.raises(ClaimLostError):
        owner.complete(job)
    assert (E_CLAIM_LOST, "The claim on the job was lost") == (jq.last_errorcode, jq.last_error)
    owner.complete(claimed(owner))
    assert E_NO_ERROR == jq.last_errorcode


def test_the_error_state_is_per_thread(jq: JobQueue, owner: Owner) -> None:
    """One thread's error is not another's."""
    with pytest.raises(ArgumentError):
        owner.claim([])
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(jq.last_errorcode))
    thread.start()
    thread.join()
    assert [E_NO_ERROR] == seen
    assert E_MISMATCH_ARG == jq.last_errorcode


def test_network_errors(own_server: Server) -> None:
    """Without a server each call raises NetworkError, with the job's id where there is one."""
    with JobQueue(own_server.url, connection_timeout=1) as jq:
        add(jq)
        owner = jq.owner().start()
        job = claimed(owner)
        own_server.kill()
        for call in (lambda: owner.claim("q"), lambda: owner.claim("q", blocking=True),
                     owner.beat, lambda: owner.complete(job), lambda: job.begun(),
                     lambda: owner.retry(job)):  # fmt: skip
            with pytest.raises(NetworkError):
                call()  # type: ignore[operator]
            assert E_NETWORK == jq.last_errorcode
        with pytest.raises(NetworkError) as caught:
            owner.complete(job)
        assert str(job.id) == caught.value.job_id
        assert [job] == owner.held
        owner._heart.stop()


@pytest.mark.parametrize(
    "arguments",
    [(("q",), {"blocking": True, "timeout": -1}), (("q",), {"blocking": True, "timeout": "x"}),
     (([],), {}), ((None,), {}), (("",), {}), (("caf\xe9",), {}), (("q",), {"order": "x"})],
)  # fmt: skip
def test_bad_claims(
    arguments: tuple[tuple[object, ...], dict[str, object]], owner: Owner
) -> None:
    """Arguments that do not fit are refused by name, with code 1."""
    with pytest.raises(ArgumentError) as caught:
        owner.claim(*arguments[0], **arguments[1])  # type: ignore[arg-type]
    assert E_MISMATCH_ARG == caught.value.code


@pytest.mark.parametrize("name", ["complete", "fail", "retry", "bury", "requeue", "save", "begun"])
def test_what_is_no_held_job(name: str, jq: JobQueue, owner: Owner) -> None:
    """A loaded job is not held, and an id is no job."""
    method = getattr(owner, name)
    with pytest.raises(ClaimLostError):
        method(jq.load_job(add(jq).id))
    with pytest.raises((ArgumentError, AttributeError)):
        method("an id")


def test_odd_queue_names(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Colons, spaces, bytes, and names that start like others are kept apart."""
    names = ["q", "q:x", "q:x:y", "a b", b"caf\xe9", "queue", "processing", "0", "*", "[q]"]
    for name in names:
        add(jq, name)  # type: ignore[arg-type]
    owner = new_owner()
    held = {job.queue: job for name in names if (job := owner.claim(name))}
    assert set(names) == set(held)
    let_die(owner, client)
    done = jq.recover("q")
    assert 1 == done.jobs
    assert 1 == client.llen(queue_key("q"))
    assert len(names) - 1 == jq.recover().jobs
    assert 0 == client.exists(LISTS, ATTEMPTS, claims_key(owner))
    again = new_owner()
    assert len(names) == len(again.claim_many(names, 100))
    assert [] == entries(client, held_key(owner))
