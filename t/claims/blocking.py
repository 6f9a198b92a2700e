"""What the tests of blocking claims share: to see that somebody waits, and to push as Perl does."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import redis
from support.server import Server, eventually

from claims.tools import HEARTBEAT, LONG, PREFIX, Caller, queue_key
from redis_jobqueue import Owner
from redis_jobqueue.lua import SCRIPTS

MODES = ("tracking", "blmove", "poll")
WOKEN = ("tracking", "blmove")
"""The ways in which something wakes the owner; the third one looks by itself."""
FOREVER = 600.0


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
