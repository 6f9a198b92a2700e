"""Blocking claims end at once when told to, outlive their connections, and know what is refused."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from support.proxy import Proxy
from support.server import Server, eventually
from support.watching import watched

from claims.blocking import (
    FOREVER,
    MODES,
    WOKEN,
    blocked,
    is_waiting,
    load_scripts,
    perl_push,
    process_waits,
    program,
)
from claims.tools import HEARTBEAT, PREFIX, Caller, add, claimed, held_key, ids, places, queue_key
from redis_jobqueue import JobQueue, JobQueueError, NetworkError, Owner, RedisError, waiting

pytestmark = [pytest.mark.connections, pytest.mark.usefixtures("known_scripts")]


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


def lines(client: redis.Redis) -> list[str]:
    """Give the ids of the connections that ask, without those that are only told."""
    me = str(client.client_id())
    return [each["id"] for each in client.client_list()
            if "P" not in each["flags"] and each["id"] != me]  # fmt: skip


def kill_lines(client: redis.Redis) -> None:
    """An operator ends them."""
    for number in lines(client):
        client.client_kill_filter(_id=number)


def time_out(client: redis.Redis) -> None:
    """The server ends what was idle for a second, which spares those that are only told."""
    client.config_set("timeout", 1)
    eventually(lambda: client.ping() and not lines(client), "the server ends them")


@pytest.mark.parametrize("end", [kill_lines, time_out])
@pytest.mark.parametrize("mode", MODES)
def test_lost_while_nobody_waits(
    mode: str, end: Callable[[redis.Redis], None], client: redis.Redis,
    new_owner: Callable[..., Owner],
) -> None:  # fmt: skip
    """Its connections ended between two claims: the next one waits over new ones."""
    owner = new_owner(wait_modes=[mode], interval=60, lifetime=180)
    assert owner.claim("q", blocking=True, timeout=0.01) is None
    end(client)
    caller = blocked(owner, client)
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
