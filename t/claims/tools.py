"""What the tests of claims share: a look at every place of a namespace, and the death of owners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import redis

from redis_jobqueue import Job, JobQueue, Owner
from redis_jobqueue.operations.finishing import Ending

PREFIX = "JobQueue:"
HEARTBEAT = PREFIX + "owners:heartbeat"
LISTS = PREFIX + "owners:lists"
ABOUT = PREFIX + "owners:about"
ATTEMPTS = PREFIX + "attempts:jobs"
CANCELLED = PREFIX + "cancelled:jobs"
DELAYED = PREFIX + "delayed:jobs"
RETRY = PREFIX + "retry:jobs"
DEAD = PREFIX + "dead:jobs"

LONG = 600
"""Seconds: an ``expire`` that no test outlives."""


def queue_key(queue: str = "q") -> str:
    """The list of a queue."""
    return f"{PREFIX}queue:{queue}"


def held_key(owner: Owner | str, queue: str = "q") -> str:
    """The list of what an owner holds of a queue."""
    return f"{PREFIX}processing:{queue}:{owner if isinstance(owner, str) else owner.id}"


def claims_key(owner: Owner | str) -> str:
    """The hash of an owner's claims."""
    return f"{PREFIX}claims:{owner if isinstance(owner, str) else owner.id}"


def add(jq: JobQueue, queue: str = "q", expire: int = LONG, **values: Any) -> Job:
    """Add a job."""
    return jq.add_job({"queue": queue, "expire": expire, **values})


def add_many(jq: JobQueue, count: int, queue: str = "q") -> list[str]:
    """Add jobs and give their ids, in order."""
    jobs = jq.add_jobs([{"queue": queue, "expire": LONG, "workload": n} for n in range(count)])
    return [str(job.id) for job in jobs]


def claimed(owner: Owner, queue: Any = "q", **options: Any) -> Job:
    """Claim a job that must be there."""
    job = owner.claim(queue, **options)
    assert job is not None
    return job


def stored(client: redis.Redis, job: Job | str) -> dict[str, str]:
    """Read the hash of a job as text, bytes as latin-1."""
    found = client.hgetall(PREFIX + str(job.id if isinstance(job, Job) else job))
    return {k.decode("latin-1"): v.decode("latin-1") for k, v in found.items()}


def entries(client: redis.Redis, key: str) -> list[str]:
    """Read a list as text."""
    return [raw.decode("latin-1") for raw in client.lrange(key, 0, -1)]


def ids(client: redis.Redis, key: str) -> list[str]:
    """Read the ids of the entries of a list."""
    return [entry.split(" ")[0] for entry in entries(client, key)]


def places(client: redis.Redis) -> dict[str, list[str]]:
    """Find every place of every id: names of keys without the namespace, one for each time."""
    found: dict[str, list[str]] = {}
    for raw in client.scan_iter(PREFIX + "*", count=1000):
        key = raw.decode("latin-1")
        name = key.removeprefix(PREFIX)
        if name.startswith(("queue:", "processing:")):
            members = ids(client, key)
        elif name in ("delayed:jobs", "retry:jobs", "dead:jobs"):
            members = [raw.decode("latin-1") for raw in client.zrange(key, 0, -1)]
        else:
            continue
        for job_id in members:
            found.setdefault(job_id, []).append(name)
    return found


def let_die(owner: Owner, client: redis.Redis) -> None:
    """Let an owner look as if its process had been killed a lifetime ago."""
    owner._heart.stop()
    client.zadd(HEARTBEAT, {owner.id: 1}, xx=True)


def endings(verb: str, *jobs: Job) -> list[Ending]:
    """What a finishing call sends of these held jobs."""
    return [Ending.of(verb, job, job._claim, 1 << 20) for job in jobs]


def make_due(client: redis.Redis, *keys: str) -> None:
    """Let everything that is delayed be due, in the order that it has."""
    for key in keys or (DELAYED, RETRY):
        for place, job_id in enumerate(client.zrange(key, 0, -1), 1):
            client.zadd(key, {job_id: place})


@attrs.define(eq=False)
class Caller:
    """A thread that makes one call, and what came of it."""

    call: Callable[[], Any]
    result: Any = None
    error: BaseException | None = None
    _thread: threading.Thread | None = None

    def _run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:
            self.error = error

    def start(self) -> Caller:
        """Begin the call."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def get(self, seconds: float = 30.0) -> Any:
        """Wait for its end; give what it returned, or raise what it raised."""
        assert self._thread is not None
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the call did not come back"
        if self.error is not None:
            raise self.error
        return self.result

    @property
    def running(self) -> bool:
        """Whether it has not come back."""
        return self._thread is not None and self._thread.is_alive()


def calls(client: redis.Redis) -> dict[str, int]:
    """Count the calls of each command since the server's start, those of scripts too."""
    found: dict[str, Any] = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in found.items()}


def drain(owner: Owner, *queues: str) -> Iterator[Job]:
    """Claim and complete everything that waits."""
    while jobs := owner.claim_many(list(queues) or ["q"], 100, order="listed"):
        yield from jobs
        owner.complete_many(jobs)
