"""The states of Redis that were recorded: load one into a server, and hold two side by side.

Two states are the same if they hold the same jobs and entries, whatever the
ids, the time of day and the order of a hash in an image.
"""

from __future__ import annotations

import re
import time
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import attrs
import redis
from support.recordings import Row
from support.tagged import same

from recorded.compare import time_to_live
from redis_jobqueue.metadata import FIELDS
from redis_jobqueue.storable import thaw

PREFIX = b"JobQueue:"
QUEUE = b"JobQueue:queue:"
ENTRY = b"__id_in_queue__"
PLAIN = {name.encode() for name in FIELDS} - {b"workload", b"result"} | {ENTRY}
TIMES = {b"created", b"updated", b"started", b"completed", b"failed"}
HINTS = b"\x00PYH"


@attrs.define
class State:
    """What stands in Redis.

    Attributes:
        jobs: id -> fields.
        queues: name -> entries.
        ttl: id -> time to live when it was set, seconds; -1 for none.
        since, until: between which moments it was made, seconds since 1970.
    """

    jobs: dict[bytes, dict[bytes, bytes]]
    queues: dict[bytes, list[bytes]]
    ttl: dict[bytes, Any]
    since: float
    until: float

    @classmethod
    def recorded(cls, row: Row) -> State:
        """Give the state that a row recorded."""
        state = cls({}, {}, {}, row["recorded_at"] - 5, row["recorded_at"] + 1)
        for each in row["state"]:
            key = each["key"].encode("latin-1")
            if each["type"] == "hash":
                job_id = key.removeprefix(PREFIX)
                fields = {f["field"].encode("latin-1"): b64decode(f["b64"]) for f in each["hash"]}
                state.jobs[job_id] = fields
                state.ttl[job_id] = int(each["ttl"])
            else:
                entries = [entry.encode("latin-1") for entry in each["list"]]
                state.queues[key.removeprefix(QUEUE)] = entries
        return state

    @classmethod
    def found(cls, client: redis.Redis, since: float) -> State:
        """Give the state of a server; ``since`` is when its making began."""
        state = cls({}, {}, {}, since, time.time())
        begun = time.monotonic() - (time.time() - since)
        for key in client.keys("*"):
            if key.startswith(QUEUE):
                state.queues[key.removeprefix(QUEUE)] = client.lrange(key, 0, -1)
            else:
                job_id = key.removeprefix(PREFIX)
                state.jobs[job_id] = client.hgetall(key)
                state.ttl[job_id] = time_to_live(client, key, begun)
        return state

    def load(self, client: redis.Redis) -> None:
        """Make a server hold this state."""
        for job_id, fields in self.jobs.items():
            client.hset(PREFIX + job_id, mapping=fields)
            if self.ttl[job_id] >= 0:
                client.expire(PREFIX + job_id, self.ttl[job_id])
        for queue, entries in self.queues.items():
            client.rpush(QUEUE + queue, *entries)

    def plainly(self) -> dict[str, Any]:
        """Give all of it but the frozen fields, with ids numbered and times of now made alike."""
        numbers = {job_id: number for number, job_id in enumerate(self.in_order())}
        return {
            "jobs": [
                {name: self._plain(name, fields[name], numbers) for name in PLAIN & {*fields}}
                for fields in map(self.jobs.__getitem__, numbers)
            ],
            "frozen": [sorted({*self.jobs[job_id]} - PLAIN) for job_id in numbers],
            "ttl": [self.ttl[job_id] for job_id in numbers],
            "queues": {
                queue: [self._plain(ENTRY, entry, numbers) for entry in entries]
                for queue, entries in self.queues.items()
            },
        }

    def in_order(self) -> list[bytes]:
        """Give the ids in the order in which the jobs were made."""
        waiting = [entry.split()[0] for entries in self.queues.values() for entry in entries]
        place = {job_id: number for number, job_id in enumerate(waiting)}
        made = {job_id: _made(fields) for job_id, fields in self.jobs.items()}
        return sorted(self.jobs, key=lambda job_id: (made[job_id], place.get(job_id, 0)))

    def _plain(self, name: bytes, value: bytes, numbers: Mapping[bytes, int]) -> Any:
        if name in TIMES and re.fullmatch(rb"\d+(\.\d{1,5})?", value):
            return "now" if self.since <= float(value) <= self.until else value
        if name == ENTRY:
            job_id, _, epoch = value.partition(b" ")
            expire = int(self.jobs.get(job_id, {}).get(b"expire", 0))
            on_time = bool(epoch) and self.since - 1 <= int(epoch) - expire <= self.until
            return numbers.get(job_id, "gone"), "on time" if on_time else epoch and "its time"
        return numbers.get(value, value)


def _made(fields: Mapping[bytes, bytes]) -> tuple[float, float]:
    return float(fields[b"created"]), float(fields[b"updated"])


def image_difference(theirs: bytes, ours: bytes) -> str | None:
    """Say where our image is not what Perl wrote; hints behind it are left aside."""
    image, rest = ours[: len(theirs)], ours[len(theirs) :]
    if rest and not rest.startswith(HINTS):
        return f"{len(ours)} bytes instead of {len(theirs)}"
    return None if image == theirs else same(thaw(theirs), thaw(image))
