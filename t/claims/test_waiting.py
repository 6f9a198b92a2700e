"""Blocking claims: three ways to wait, woken by everybody, spinning never, ended at once.

The times after which a waiting owner looks by itself are made so long here
that only what should wake it can.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from sizes import Size
from support.proxy import Proxy
from support.server import Server, eventually
from support.watching import watched

from claims.tools import (
    HEARTBEAT,
    LONG,
    PREFIX,
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
from redis_jobqueue import (
    JobDeletedError,
    JobQueue,
    JobQueueError,
    NetworkError,
    Owner,
    RedisError,
    waiting,
)
from redis_jobqueue.lua import SCRIPTS

pytestmark = pytest.mark.connections

MODES = ("tracking", "blmove", "poll")
WOKEN = ("tracking", "blmove")
"""The ways in which something wakes the owner; the third one looks by itself."""
FOREVER = 600.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no owner look by itself in time."""
    monkeypatch.setattr(waiting, "ARMED", FOREVER)
    monkeypatch.setattr(waiting, "TURN", FOREVER)


@pytest.fixture(autouse=True)
def known_scripts(client: redis.Redis) -> None:
    """Let the server know all scripts, so that what a client did last tells whether it waits."""
    load_scripts(client)


def load_scripts(client: redis.Redis) -> None:
    """Load all scripts."""
    for body in SCRIPTS.values():
        client.script_load(body.text)


def is_waiting(client: redis.Redis, owner: Owner, mode: str, count: int = 1) -> None:
    """Wait until so many claims of the owner wait in the server, or at all where they poll."""
    seen: set[str] = set()

    def found() -> bool:
        nonlocal seen
        if len(owner._wakes) < count:
            return False  # what the server shows is left from the wait before
        clients = client.client_list()
        if mode == "blmove":  # twice, for one that tries whether it may blocks for a ms
            before, seen = seen, {each["id"] for each in clients if "b" in each["flags"]}
            return len(before & seen) >= count
        if mode == "tracking":
            return sum("t" in each["flags"] and each["cmd"] == "evalsha"
                       for each in clients) >= count  # fmt: skip
        return True

    eventually(found, f"the owner waits by {mode}")


def blocked(owner: Owner, client: redis.Redis, queue: object = "q", **options: object) -> Caller:
    """Let a thread claim, and wait until it waits."""
    options.setdefault("timeout", 60)
    caller = Caller(lambda: owner.claim(queue, blocking=True, **options)).start()
    is_waiting(client, owner, owner._wait_modes[0])
    return caller


def perl_push(client: redis.Redis, queue: str = "q", front: bool = False) -> str:
    """Add a job as the Perl module does: in a transaction, by RPUSH or LPUSH."""
    job_id = f"{random.getrandbits(128):032X}"
    entry = f"{job_id} {int(time.time()) + LONG}"
    with client.pipeline() as pipe:
        pipe.hset(PREFIX + job_id, mapping={
            "id": job_id, "queue": queue, "expire": LONG, "status": "__created__", "job": "",
            "created": "1", "updated": "1", "started": "0", "completed": "0", "failed": "0",
            "progress": "0", "message": "", "workload": "", "result": "",
        })  # fmt: skip
        pipe.expire(PREFIX + job_id, LONG)
        pipe.hset(PREFIX + job_id, "__id_in_queue__", entry)
        (pipe.lpush if front else pipe.rpush)(queue_key(queue), entry)
        pipe.execute()
    return job_id


@pytest.mark.parametrize("mode", MODES)
def test_which_way(mode: str, jq: JobQueue, new_owner: Callable[..., Owner]) -> None:
    """``wait_mode`` says how an owner waits, before and after it did."""
    owner = new_owner(wait_modes=[mode])
    assert mode == owner.wait_mode
    assert owner.claim("q", blocking=True, timeout=0.01) is None
    assert mode == owner.wait_mode
    assert "tracking" == new_owner().wait_mode


# What wakes.


def by_resume(jq: JobQueue, client: redis.Redis, other: Owner) -> str:
    """A paused queue runs again."""
    jq.pause("q")
    job = add(jq)
    jq.resume("q")
    return str(job.id)


def by_requeue(jq: JobQueue, client: redis.Redis, other: Owner, ending: str = "requeue") -> str:
    """Another owner gives a job back."""
    job = claimed(other, "kept")
    jq.redis.hset(PREFIX + str(job.id), "x", "y")
    job._claim.queue = "kept"
    getattr(other, ending)(job)
    return str(job.id)


def by_promotion(jq: JobQueue, client: redis.Redis, other: Owner) -> str:
    """A delayed job is due."""
    job = jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    make_due(client)
    jq.promote_due()
    return str(job.id)


def by_revival(jq: JobQueue, client: redis.Redis, other: Owner) -> str:
    """A dead job is revived."""
    job = jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    client.zrem("JobQueue:delayed:jobs", str(job.id))
    client.zadd("JobQueue:dead:jobs", {str(job.id): 1})
    jq.revive(job)
    return str(job.id)


def by_recovery(jq: JobQueue, client: redis.Redis, other: Owner) -> str:
    """A dead owner's job comes back."""
    job = claimed(other, "kept")
    let_die(other, client)
    jq.recover()
    return str(job.id)


WAKERS: dict[str, Callable[[JobQueue, redis.Redis, Owner], str]] = {
    "RPUSH": lambda jq, client, other: perl_push(client),
    "LPUSH": lambda jq, client, other: perl_push(client, front=True),
    "add_job": lambda jq, client, other: str(add(jq).id),
    "add_jobs": lambda jq, client, other: add_many(jq, 3)[0],
    "resume": by_resume,
    "requeue": by_requeue,
    "release": lambda jq, client, other: by_requeue(jq, client, other, "release"),
    "recover": by_recovery,
    "promote_due": by_promotion,
    "revive": by_revival,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WAKERS)
def test_woken(
    name: str, mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner],
    patient: None,
) -> None:  # fmt: skip
    """Whoever brings a job wakes the owner that waits for one of its queues."""
    if (name, mode) == ("resume", "blmove"):
        pytest.skip("paused queues are looked at once a second: see the test of it")
    owner, other = new_owner(wait_modes=[mode]), new_owner()
    if name in ("requeue", "release", "recover"):
        add(jq, "kept")
        queue = "kept"
        held = other.claim("kept")
        assert held is not None
        caller = blocked(owner, client, queue)
        if name == "recover":
            let_die(other, client)
            jq.recover()
        else:
            getattr(other, name)(held)
        expected = str(held.id)
    else:
        caller = blocked(owner, client)
        expected = WAKERS[name](jq, client, other)
    job = caller.get()
    assert expected == job.id
    assert [expected] == ids(client, held_key(owner, job.queue))
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


# What ends it.


@pytest.mark.parametrize("mode", MODES)
def test_closed_by_another_thread(
    mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner], patient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Stopping the owner ends every wait at once, with an error that says so."""
    monkeypatch.setattr(waiting, "POLL", FOREVER)
    owner = new_owner(wait_modes=[mode])
    callers = [Caller(lambda: owner.claim(["q", "r"], blocking=True)).start() for _ in range(3)]
    is_waiting(client, owner, mode, 3)
    owner.stop()
    for caller in callers:
        with pytest.raises(JobQueueError, match="stopped"):
            caller.get()
    add(jq)
    assert 1 == jq.queue_length("q")


@pytest.mark.parametrize("mode", MODES)
def test_nudged(
    mode: str, client: redis.Redis, new_owner: Callable[..., Owner], patient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A nudge ends a wait with None; the next claim waits again."""
    monkeypatch.setattr(waiting, "POLL", FOREVER)
    owner = new_owner(wait_modes=[mode])
    for _ in range(2):
        caller = blocked(owner, client)
        owner.nudge()
        assert caller.get() is None


PROGRAM = """
import signal, sys
from redis_jobqueue import JobQueue, JobQueueError
url, mode, how = sys.argv[1:]
with JobQueue(url) as jq, jq.owner(wait_modes=[mode]) as owner:
    def leave(number, frame):
        if how == "interrupt":
            owner.interrupt()
        else:
            sys.exit(7)
    signal.signal(signal.SIGTERM, leave)
    try:
        owner.claim(["q", "r"], blocking=True)
    except JobQueueError as error:
        print(error)
        sys.exit(5)
"""


def program(server: Server, mode: str, how: str) -> subprocess.Popen[str]:
    """Run a program that waits for a job without end."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.url, mode, how], stdout=subprocess.PIPE, text=True
    )


def process_waits(client: redis.Redis, mode: str) -> None:
    """Wait until the only other process waits."""
    flag = {"tracking": "t", "blmove": "b"}.get(mode)
    if flag:
        eventually(lambda: any(flag in each["flags"] for each in client.client_list()), "it waits")
    else:
        eventually(lambda: client.zcard(HEARTBEAT), "it lives")
        before = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
        eventually(lambda: client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
                   > before, "it polls")  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how, code", [("interrupt", 5), ("exit", 7)])
def test_sigterm(mode: str, how: str, code: int, server: Server, client: redis.Redis) -> None:
    """A signal handler ends the wait of its process, by a call or by an exception."""
    with program(server, mode, how) as process:
        process_waits(client, mode)
        process.send_signal(signal.SIGTERM)
        assert code == process.wait(20)
    assert not client.exists(HEARTBEAT)


class Interrupted(Exception):
    """What a signal handler raises."""


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="needs the main thread"
)
@pytest.mark.parametrize("mode", MODES)
def test_an_exception_out_of_a_wait(
    mode: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner],
    interrupting: Callable[[], None],
) -> None:  # fmt: skip
    """A wait that an exception ended leaves no answer behind for the next one."""
    owner = new_owner(wait_modes=[mode])
    for number in range(5):
        def interrupt() -> None:
            is_waiting(client, owner, mode)
            interrupting()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(Interrupted):
            owner.claim(["q", "r"], blocking=True)
        thread.join()
        expected = perl_push(client, "qr"[number % 2])
        job = claimed(owner, ["q", "r"], blocking=True, timeout=20)
        assert expected == job.id
        owner.complete(job)


@pytest.fixture
def interrupting() -> Iterator[Callable[[], None]]:
    """Return a function that raises `Interrupted` in the main thread."""
    def handler(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


# Connections that end.


@pytest.mark.parametrize("flag", ["t", "P"])
def test_killed_connections(
    flag: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner], patient: None
) -> None:
    """Whichever of its two connections is killed, the wait goes on over new ones."""
    owner = new_owner(wait_modes=["tracking"])
    caller = blocked(owner, client)
    killed: set[str] = set()

    def one() -> list[str]:
        return [each["id"] for each in client.client_list()
                if flag in each["flags"] and each["id"] not in killed]  # fmt: skip

    for _ in range(3):
        (number,) = eventually(one, "its connection")
        killed.add(number)
        client.client_kill_filter(_id=number)
        eventually(lambda: number not in {each["id"] for each in client.client_list()}, "its end")
    eventually(one, "a new connection")
    is_waiting(client, owner, "tracking")
    expected = perl_push(client)
    assert expected == caller.get().id


def test_killed_while_it_blocks(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """The same where it blocks in a command."""
    owner = new_owner(wait_modes=["blmove"])
    caller = blocked(owner, client)
    client.client_kill_filter(_type="normal", skipme=True)
    is_waiting(client, owner, "blmove")
    expected = perl_push(client)
    assert expected == caller.get().id


@pytest.mark.parametrize("mode", MODES)
def test_a_restart(mode: str, own_server: Server) -> None:
    """A restart of the server raises or is passed over; a claim made again goes on."""
    with JobQueue(own_server.url, connection_timeout=5) as jq:
        owner = jq.owner(wait_modes=[mode]).start()

        def claim() -> object:
            while True:
                try:
                    return owner.claim(["q", "r"], blocking=True, timeout=60)
                except NetworkError:
                    time.sleep(0.01)
                except RedisError as error:
                    assert "LOADING" in str(error)

        with own_server.client() as client:
            load_scripts(client)
            caller = Caller(claim).start()
            is_waiting(client, owner, mode)
        own_server.restart()
        with own_server.client() as client:
            expected = perl_push(client)
        assert expected == caller.get().id  # type: ignore[attr-defined]
        owner.stop()


@pytest.mark.parametrize("mode", WOKEN)
def test_a_silent_drop(
    mode: str, server: Server, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall swallows both directions: the owner notices in the end, and takes the job."""
    monkeypatch.setattr(waiting, "ARMED", 0.3)
    monkeypatch.setattr(waiting, "TURN", 0.3)
    monkeypatch.setattr(waiting, "ANSWER", 3.0)
    with Proxy(server) as proxy, JobQueue(proxy.url, operation_timeout=1) as jq:
        with jq.owner(wait_modes=[mode]) as owner:
            caller = blocked(owner, client, ["q", "r"], timeout=0)
            proxy.silence()
            expected = perl_push(client)
            assert expected == caller.get().id
            proxy.heal()
            jq.close()


def test_the_bound_of_a_silent_drop() -> None:
    """The time after which a dead connection is noticed, as documented: ten seconds."""
    assert waiting.ARMED + waiting.ANSWER <= 10
    assert waiting.TURN + 2 * waiting.ANSWER <= 12


@pytest.mark.parametrize("mode", MODES)
def test_a_planned_failover(
    mode: str, make_server: Callable[..., Server], server_version: str
) -> None:
    """Its server becomes a replica: the owner ends up on the new master, the job comes once."""
    one, two = (make_server(server_version, repl_diskless_sync_delay=0) for _ in range(2))
    with one.client() as old, two.client() as new, Proxy(one) as proxy:
        with JobQueue(proxy.url) as jq:
            owner = jq.owner(wait_modes=[mode]).start()
            new.replicaof("127.0.0.1", str(one.port))
            eventually(lambda: new.zscore(HEARTBEAT, owner.id), "the copy is complete")

            def claim() -> object:
                while True:
                    try:
                        return owner.claim("q", blocking=True, timeout=60)
                    except NetworkError:
                        pass  # the moment in between

            load_scripts(old)
            caller = Caller(claim).start()
            is_waiting(old, owner, mode)
            proxy.server = two
            new.replicaof("NO", "ONE")
            old.replicaof("127.0.0.1", str(two.port))
            expected = perl_push(new)
            job = caller.get()
            assert expected == job.id  # type: ignore[attr-defined]
            assert [expected] == ids(new, held_key(owner))
            assert not new.exists(queue_key())
            owner.complete(job)  # type: ignore[arg-type]
            eventually(lambda: {} == places(old), "the old one follows")
            assert owner.claim("q", blocking=True, timeout=0.01) is None
            owner.stop()


@pytest.mark.parametrize("mode", MODES)
def test_a_waiter_that_is_killed(
    mode: str, server: Server, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A job that comes when its waiter is dead goes to the next one, and is nowhere else."""
    with program(server, mode, "exit") as process:
        process_waits(client, mode)
        process.kill()
        process.wait()
    expected = perl_push(client)
    assert {expected: ["queue:q"]} == places(client)
    assert expected == claimed(owner, ["q", "r"], blocking=True, timeout=20).id
    assert {expected: [held_key(owner).removeprefix(PREFIX)]} == places(client)


def test_a_waiter_behind_a_dead_network(
    server: Server, jq: JobQueue, client: redis.Redis, owner: Owner, patient: None
) -> None:
    """What the server does for a client that hears nothing takes no job away."""
    with Proxy(server) as proxy, JobQueue(proxy.url) as queue:
        dead = queue.owner(wait_modes=["blmove"]).start()
        blocked(dead, client, timeout=0)
        proxy.silence()
        expected = [perl_push(client) for _ in range(3)]
        assert expected == ids(client, queue_key())
        assert expected == [job.id for job in owner.claim_many("q", 5)]
        proxy.heal()
        dead._heart.stop()
        dead.interrupt()


# Never too late.


def test_no_missed_wake_up(
    size: Size, jq: JobQueue, client: redis.Redis, server: Server,
    new_owner: Callable[..., Owner], patient: None,
) -> None:  # fmt: skip
    """Every push is seen, by an owner that waits or by a Perl-style pop that races with it."""
    owner = new_owner(wait_modes=["tracking"], interval=50, lifetime=100)
    names = ["a", "b", "c"]
    taken: list[str] = []
    popped: list[str] = []
    stop = threading.Event()

    def work() -> None:
        while True:
            job = owner.claim(names, blocking=True)
            while job is not None:
                taken.append(str(job.id))
                job = owner.complete(job, claim_next=names) if len(taken) % 3 else (
                    owner.complete(job))  # fmt: skip

    def pop() -> None:
        with server.client() as other:
            while not stop.is_set():
                name = random.choice(names)
                if random.random() < 0.5:
                    raw = other.lpop(queue_key(name))
                else:
                    reply = other.blpop(queue_key(name), 0.01)
                    raw = reply and reply[1]
                if raw:
                    popped.append(raw.decode().split()[0])
                time.sleep(random.random() * 0.003)

    callers = [Caller(work).start(), Caller(work).start(), Caller(pop).start()]
    pushed: list[str] = []
    script = client.register_script(
        "return redis.call('EXISTS', KEYS[1]) + redis.call('EXISTS', KEYS[2])"
        " + redis.call('EXISTS', KEYS[3])"
    )
    keys = [queue_key(name) for name in names]
    for _ in range(size.pushes):
        pushed.append(perl_push(client, random.choice(names), front=random.random() < 0.3))
        if random.random() < 0.8:  # else the next one comes while this one is there
            eventually(lambda: not script(keys=keys), "somebody takes it")
        if random.random() < 0.3:
            time.sleep(random.random() * 0.003)
    eventually(lambda: len(taken) + len(popped) == len(pushed), "all are taken")
    stop.set()
    callers[2].get()
    owner.interrupt()
    for caller in callers[:2]:
        with pytest.raises(JobQueueError, match="stopped"):
            caller.get()
    assert sorted(pushed) == sorted(taken + popped)
    assert len(taken) > size.pushes / 20 and len(popped) > size.pushes / 20


@pytest.mark.parametrize("mode", MODES)
def test_many_threads_wait(
    mode: str, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Eight threads of one owner wait; eight jobs make all of them go, each with one."""
    owner = new_owner(wait_modes=[mode])
    callers = [Caller(lambda: owner.claim("q", blocking=True, timeout=60)).start()
               for _ in range(8)]  # fmt: skip
    is_waiting(client, owner, mode, 8)
    expected = [perl_push(client) for _ in range(8)]
    assert sorted(expected) == sorted(caller.get().id for caller in callers)


def test_a_process_with_many_open_files(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner], patient: None
) -> None:
    """Numbers of files above 1023 wait as well."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (resource.RLIM_INFINITY,) and hard < 1300:
        pytest.skip("this system allows no more than 1,300 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1300), hard))
    first = os.open(os.devnull, os.O_RDONLY)
    files = [first]
    try:
        while files[-1] < 1100:
            files.append(os.dup(first))
        owner = new_owner(wait_modes=["tracking"])
        caller = blocked(owner, client)
        expected = perl_push(client)
        assert expected == caller.get().id
    finally:
        for number in files:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Ways that the server refuses.


@pytest.mark.parametrize(
    "rules, mode",
    [
        ("+@all", "tracking"),
        ("+@all -client", "blmove"),
        ("+@all -subscribe", "blmove"),
        ("+@all -client -blmove", "poll"),
        ("+@all -subscribe -@blocking", "poll"),
        ("resetchannels +@all", "blmove"),
    ],
)
def test_what_is_refused(rules: str, mode: str, server: Server, client: redis.Redis) -> None:
    """An owner waits in the best way that the server allows."""
    client.execute_command(
        "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", *rules.split()
    )
    url = f"redis://worker:secret@127.0.0.1:{server.port}"
    with JobQueue(url) as jq, jq.owner() as owner:
        assert mode == owner.wait_mode
        caller = Caller(lambda: owner.claim("q", blocking=True, timeout=60)).start()
        is_waiting(client, owner, mode)
        expected = perl_push(client)
        assert expected == caller.get().id
    if mode == "blmove":
        with JobQueue(url) as jq, jq.owner(wait_modes=["tracking"]) as owner:
            with pytest.raises(RedisError):
                owner.claim("q", blocking=True, timeout=5)


def test_a_full_server(own_server: Server) -> None:
    """Where every BLMOVE is refused because memory is full, waiting goes on, and does not spin."""
    with JobQueue(own_server.url, check_maxmemory=False) as jq, own_server.client() as client:
        with jq.owner(wait_modes=["blmove"]) as owner:
            caller = blocked(owner, client, ["q", "r"])
            client.config_set("maxmemory", 1)
            with watched(own_server) as seen:
                eventually(lambda: "blmove" in {
                    each["cmd"] for each in client.client_list() if "b" not in each["flags"]
                }, "it was refused")  # fmt: skip
                time.sleep(1)
            assert seen.names.count("BLMOVE") < 10
            client.config_set("maxmemory", 0)
            expected = perl_push(client)
            assert expected == caller.get().id
