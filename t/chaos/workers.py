"""Plain scripts with ``jq.owner()`` and ``owner.jobs``, as processes to be killed and frozen.

``python workers.py`` is a nursery: for each JSON object that it reads, the
name and arguments of `work` or `pop`, it forks a worker and prints its process
id.  When its input ends it kills what is left.

A worker tells what it does in keys beside the namespace: ``chaos:runs:<id>``
has the name of each run of a job and whose it was, ``chaos:done:<id>`` the runs
whose completion was answered, ``chaos:lost`` those whose completion was refused.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from typing import Any

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from redis_jobqueue import ClaimLostError, Job, JobQueue, NetworkError, Owner, RedisError
from redis_jobqueue.storable import nfreeze, thaw

RUNS, DONE, LOST, READY = "chaos:runs:", "chaos:done:", "chaos:lost", "chaos:ready"
CODE_5 = "chaos:code 5"
PAUSE = 0.02
"""Seconds that a job takes."""
TROUBLE = (NetworkError, RedisError)
"""What passes: no answer, or that of a server which is just starting (LOADING)."""


def work(
    url: str, log: str, queue: str, mode: str, interval: float = 0.3, lifetime: float = 2.0,
    shift: float = 0,
) -> None:  # fmt: skip
    """Work until told to stop.

    Args:
        url: the server, perhaps by way of a proxy.
        log: the server without a detour.
        queue: where the jobs are.
        mode: how to wait for them.
        interval, lifetime: seconds between beats, and that one beat lasts.
        shift: seconds by which the clock of this process is wrong.
    """
    if shift:
        real = time.time
        time.time = lambda: real() + shift
    diary = redis.Redis.from_url(log, retry=Retry(ConstantBackoff(0.05), 200))
    with JobQueue(url, connection_timeout=2, operation_timeout=2) as jq:
        owner = jq.owner(interval=interval, lifetime=lifetime, wait_modes=[mode])
        signal.signal(signal.SIGTERM, lambda *_: owner.interrupt())
        stubborn(owner.start)
        diary.sadd(READY, os.getpid())
        while not owner._stopping:
            try:
                for job in owner.jobs(queue):
                    run(owner, job, diary)
            except TROUBLE:
                time.sleep(0.02)
        stubborn(owner.stop)


def run(owner: Owner, job: Job, diary: redis.Redis) -> None:
    """Do a job, and complete it until an answer comes."""
    name = uuid.uuid4().hex
    diary.hset(f"{RUNS}{job.id}", name, job._claim.owner)
    time.sleep(PAUSE)
    number = job.workload.get("number", len(job.workload.get("numbers", ())))
    job.result = {"square": number**2, "run": name}
    try:
        stubborn(lambda: owner.complete(job))
    except ClaimLostError:
        diary.sadd(LOST, name)
    else:
        diary.sadd(f"{DONE}{job.id}", name)


def pop(url: str, log: str, queue: str) -> None:
    """Work as a Perl consumer does, command by command: what is popped is ours alone."""
    redis_py = redis.Redis.from_url(url)
    going = [True]
    signal.signal(signal.SIGTERM, lambda *_: going.clear())
    redis_py.sadd(READY, os.getpid())
    while going:
        popped = redis_py.blpop([f"JobQueue:queue:{queue}"], 1)
        if popped is None:
            continue
        job_id, _, epoch = popped[1].decode().partition(" ")
        key = f"JobQueue:{job_id}"
        fields = redis_py.hgetall(key)
        if not fields:
            if not epoch or int(epoch) > time.time():
                redis_py.rpush(CODE_5, job_id)
            continue
        expire = int(fields[b"expire"])
        if expire:
            redis_py.expire(key, expire)
        name = uuid.uuid4().hex
        redis_py.hset(f"{RUNS}{job_id}", name, "perl")
        time.sleep(PAUSE)
        number = thaw(fields[b"workload"])["number"]
        result = nfreeze({"square": number**2, "run": name})
        with redis_py.pipeline() as transaction:
            if expire:
                transaction.expire(key, expire)
            now = f"{time.time():.15g}"
            changes = {"status": "__completed__", "completed": now, "updated": now}
            transaction.hset(key, mapping={**changes, "result": result})
            transaction.execute()
        redis_py.sadd(f"{DONE}{job_id}", name)


def stubborn(call: Any) -> None:
    """Repeat a call until it is answered."""
    while True:
        try:
            call()
            return
        except TROUBLE:
            time.sleep(0.02)


def nursery() -> None:
    """Fork workers on command."""
    # Nobody waits for them, so the number of a dead one is never another process's.
    children: list[int] = []
    for line in sys.stdin:
        arguments = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.close(0)
            ROLES[arguments.pop("role")](**arguments)
            os._exit(0)
        children.append(pid)
        print(pid, flush=True)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


ROLES = {"work": work, "pop": pop}

if __name__ == "__main__":
    nursery()
