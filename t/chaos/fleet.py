"""A fleet of worker processes, and what must be true of their jobs in the end."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import redis
from support.server import Server, eventually, gone

from chaos.workers import DONE, LOST, READY, RUNS
from redis_jobqueue import STATUS_COMPLETED, Job, JobQueue
from redis_jobqueue.waiting import MODES

WORKERS = Path(__file__).with_name("workers.py")
QUEUE = "jobs of the fleet"


class Fleet:
    """Workers on one server; use as a context manager."""

    def __init__(self, server: Server, seed: int = 0) -> None:
        self.server = server
        self.rng = random.Random(seed)
        self.pids: list[int] = []
        self.immortal: set[int] = set()
        self._modes = itertools.cycle(MODES)  # each waits in another way than the last
        self._nursery: subprocess.Popen[str] | None = None

    def __enter__(self) -> Fleet:
        self._nursery = subprocess.Popen(
            [sys.executable, str(WORKERS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._nursery is not None
        self._nursery.communicate()  # it kills what is left

    def start(self, url: str | None = None, role: str = "work", **options: Any) -> int:
        """Start a worker; give its process id."""
        assert self._nursery is not None and self._nursery.stdin and self._nursery.stdout
        log = self.server.url
        arguments = {"role": role, "url": url or log, "log": log, "queue": QUEUE, **options}
        if role == "work":
            arguments["mode"] = next(self._modes)
        self._nursery.stdin.write(json.dumps(arguments) + "\n")
        self._nursery.stdin.flush()
        self.pids.append(int(self._nursery.stdout.readline()))
        return self.pids[-1]

    def start_all(self, count: int, raw: redis.Redis, **options: Any) -> list[int]:
        """Start workers until there are so many, and wait until they have registered."""
        while len(self.pids) < count:
            self.start(**options)
        eventually(lambda: raw.scard(READY) >= count, "workers start", 60)
        return list(self.pids)

    def kill_one(self) -> None:
        """Kill a worker and start another in its place."""
        mortal = [pid for pid in self.pids if pid not in self.immortal]
        pid = self.rng.choice(mortal)
        self.pids.remove(pid)
        os.kill(pid, signal.SIGKILL)
        self.start()

    def freeze(self, pids: list[int]) -> list[int]:
        """Freeze workers; when this returns they stand still."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            eventually(lambda pid=pid: state_of(pid) == "T", "a worker freezes")
        return pids

    def signal(self, number: int) -> None:
        """Send a signal to all workers."""
        for pid in self.pids:
            os.kill(pid, number)

    def stop(self) -> None:
        """Let all workers stop by themselves."""
        self.signal(signal.SIGTERM)
        for pid in self.pids:
            eventually(lambda pid=pid: gone(pid), "a worker stops", 30)
        self.pids.clear()


def state_of(pid: int) -> str:
    """Give the letter that the system has for what a process does."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def add_work(jq: JobQueue, count: int) -> list[Job]:
    """Add jobs for a fleet."""
    return jq.add_jobs(
        [{"queue": QUEUE, "expire": 3600, "workload": {"number": n}} for n in range(count)]
    )


def completed(jq: JobQueue) -> int:
    """Give how many completions the server has counted."""
    return jq.counts([QUEUE]).queues[QUEUE].counters["completed"]


def judge(jq: JobQueue, raw: redis.Redis, jobs: list[Job]) -> int:
    """Fail unless every job was completed once, by a run of its own; give the duplicates.

    To be called while the workers still live: a run was repeated only if the
    owner of the earlier one is not among the living any more.
    """
    living = set(raw.zrange("JobQueue:owners:heartbeat", 0, -1))
    duplicates = 0
    for number, job in enumerate(jobs):
        done = jq.load_job(job)
        assert done is not None and STATUS_COMPLETED == done.status, done
        assert number**2 == done.result["square"]
        runs = raw.hgetall(f"{RUNS}{job.id}")
        finished = done.result["run"].encode()
        assert finished in runs
        assert raw.smembers(f"{DONE}{job.id}") <= {finished}, "completed twice"
        duplicates += len(runs) - 1
        for name, owner in runs.items():
            if name != finished:
                assert owner not in living, "a job was run again although its owner lives"
    counters = jq.counts([QUEUE]).queues[QUEUE].counters
    assert len(jobs) == counters["completed"]
    assert duplicates <= counters["recovered"]
    assert raw.scard(LOST) <= duplicates
    return duplicates


def nothing_is_left(jq: JobQueue, raw: redis.Redis) -> None:
    """Fail unless all is gone that owners keep, once the killed ones have lapsed."""

    def left() -> set[str]:
        jq.recover()
        return {key.decode() for key in raw.keys("JobQueue:*:*")} - {
            f"JobQueue:stats:{QUEUE}", "JobQueue:owners:reaper",
        }  # fmt: skip

    eventually(lambda: not left(), "all owners are gone")
    assert set() == left()
