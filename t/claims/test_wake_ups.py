"""No wake-up is missed, however many push, pop and wait at once."""

from __future__ import annotations

import os
import random
import resource
import threading
import time
from collections.abc import Callable

import pytest
import redis
from sizes import Size
from support.server import Server, eventually

from claims.blocking import MODES, blocked, is_waiting, perl_push
from claims.tools import Caller, queue_key
from redis_jobqueue import JobQueue, JobQueueError, Owner

pytestmark = [pytest.mark.connections, pytest.mark.usefixtures("known_scripts")]


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
