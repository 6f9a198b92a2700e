"""Reading a whole namespace in bounded steps, and what stands where in it.

The steps collect a `Chart`; they are not one moment, so whatever looks wrong
in it is looked at again, one job at a time, by `look`: that is one moment.
`diagnosis` says what is wrong with what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from redis_jobqueue.errors import StorableError
from redis_jobqueue.keys import Entry, Keys
from redis_jobqueue.operations.overview import split_member
from redis_jobqueue.operations.request import Command, Operation, Pipeline, Script
from redis_jobqueue.operations.survey import STEP
from redis_jobqueue.record import ENTRY_FIELD, FROZEN, read_plain
from redis_jobqueue.metadata import FIELDS as STANDARD
from redis_jobqueue.storable import thaw

FIELDS = (b"id", b"queue", b"status", b"created", b"updated", b"started", b"expire", ENTRY_FIELD)
KEYS = 200
"""Keys that one step looks at: a job costs more here than in a search."""
SLICE_JOBS = 50
SLICE_BYTES = 1_000_000
"""Jobs, and octets of their data, that one step reads at most (one job always)."""


@attrs.frozen(slots=True)
class Spot:
    """A place that holds a job.

    Attributes:
        kind: ``waiting``, ``processing``, ``delayed``, ``retrying`` or ``dead``.
        text: what stands there: the entry, or the id.
        queue, owner: for ``waiting`` and ``processing``; ``b""`` for none.
        lives: whether the owner's beat is good.
    """

    kind: str
    text: bytes
    queue: bytes = b""
    owner: bytes = b""
    lives: bool = False

    def key(self, keys: Keys) -> bytes:
        """The list or set in which it stands."""
        if self.kind == "waiting":
            return keys.queue(self.queue)
        if self.kind == "processing":
            return keys.processing(self.queue, self.owner or None)
        return {"delayed": keys.delayed, "retrying": keys.retry, "dead": keys.dead}[self.kind]


@attrs.define(slots=True)
class Seen:
    """A job, or an id without one, and everything that is known of it.

    Attributes:
        id: the id.
        there: whether its hash is.
        life: seconds that it has to live, -1 for no limit.
        values: the `FIELDS`, ``b""`` for one that is not there.
        spots: the places that hold it.
        unreadable: names of fields that do not thaw -> why.
        size: octets of workload and result.
    """

    id: bytes
    there: bool = False
    life: int = -1
    values: dict[bytes, bytes] = attrs.field(factory=dict)
    spots: list[Spot] = attrs.field(factory=list)
    unreadable: dict[bytes, str] = attrs.field(factory=dict)
    size: int = 0

    def number(self, name: bytes) -> float:
        """Give a time or ``expire`` as a number, 0 if it is none."""
        try:
            return float(read_plain(name.decode(), self.values.get(name, b"")))
        except OverflowError:
            return math.inf


@attrs.define(slots=True)
class Chart:
    """What the steps have seen.

    Attributes:
        keys: the names of the namespace's keys.
        now: the server's time when the reading began, seconds since 1970.
        seen: id -> `Seen`.
        kinds: the name behind the namespace -> type, of every key but jobs.
        members: ``<queue>:<owner>`` of the registered processing lists.
        strays: the same of those that are there and not registered.
        living: owners whose beat is good.
        steps: how many steps were done.
    """

    keys: Keys
    now: float = 0.0
    seen: dict[bytes, Seen] = attrs.field(factory=dict)
    kinds: dict[bytes, str] = attrs.field(factory=dict)
    members: set[bytes] = attrs.field(factory=set)
    strays: set[bytes] = attrs.field(factory=set)
    living: set[bytes] = attrs.field(factory=set)
    steps: int = 0

    def at(self, job_id: bytes) -> Seen:
        """Give what is known of an id, made if there is nothing yet."""
        return self.seen.setdefault(job_id, Seen(job_id))

    def put(self, raw: bytes, spot: Spot) -> None:
        """Note what stands in a place."""
        self.at(Entry.parse(raw).id).spots.append(spot)


def begin(chart: Chart) -> Operation[None]:
    """Read what is small: the time, and who lives."""
    keys = chart.keys
    now, kind = yield Pipeline([Command((b"TIME",)), Command((b"TYPE", keys.heartbeat))])
    chart.now = int(now[0]) + int(now[1]) / 1e6
    if kind == b"zset":
        least = b"(%d" % (chart.now * 1000)
        chart.living = set((yield Command((b"ZRANGEBYSCORE", keys.heartbeat, least, b"+inf"))))


def registered(chart: Chart) -> Operation[None]:
    """Read which lists are registered, after the scan: owners went on claiming meanwhile."""
    keys = chart.keys
    if (yield Command((b"TYPE", keys.lists))) == b"set":
        chart.members = set((yield Command((b"SMEMBERS", keys.lists))))
    for name, kind in sorted(chart.kinds.items()):
        head, _, member = name.partition(b":")
        if head == b"processing" and kind == "list" and member and member not in chart.members:
            # Emptied, or registered, since it was seen?  Both are looked at in one moment.
            if (yield Script("doctor_stray", (keys.prefix + name, keys.lists), (member,))):
                chart.strays.add(member)


def scan(chart: Chart, cursor: bytes) -> Operation[bytes]:
    """Do one step over all keys; gives the next cursor, ``0`` at the end."""
    keys = chart.keys
    cursor, rows = yield Script(
        "doctor_scan",
        (),
        (cursor, keys.pattern, b"%d" % len(keys.prefix), b"%d" % KEYS, *FIELDS),
    )
    for name, kind, *rest in rows:
        if rest:
            life, size, *values = rest
            job = chart.at(name)
            job.there, job.life, job.size = True, life, size
            job.values = {field: value or b"" for field, value in zip(FIELDS, values)}
        else:
            chart.kinds[name] = kind.decode()
    chart.steps += 1
    return bytes(cursor)


def lists(chart: Chart) -> list[tuple[Spot, bytes]]:
    """Give every list that the scan found, each as a `Spot` without text, and its key."""
    found = []
    for name, kind in sorted(chart.kinds.items()):
        head, _, tail = name.partition(b":")
        if kind != "list" or not tail:
            continue
        if head == b"queue":
            spot = Spot("waiting", b"", tail)
        elif head == b"processing":
            queue, owner = split_member(tail) if tail in chart.members else (tail, b"")
            spot = Spot("processing", b"", queue, owner, owner in chart.living)
        else:
            continue
        found.append((spot, spot.key(chart.keys)))
    return found


def read_list(chart: Chart, spot: Spot, key: bytes, first: int) -> Operation[int]:
    """Do one step over a list; gives the next place, 0 at the end."""
    page = yield Command((b"LRANGE", key, b"%d" % first, b"%d" % (first + STEP - 1)))
    for raw in page:
        chart.put(raw, attrs.evolve(spot, text=raw))
    chart.steps += 1
    return first + STEP if len(page) == STEP else 0


def read_set(chart: Chart, kind: str, first: int) -> Operation[int]:
    """Do one step over the delayed, retrying or dead jobs; gives the next place, 0 at the end."""
    key = Spot(kind, b"").key(chart.keys)
    if (yield Command((b"TYPE", key))) != b"zset":
        return 0
    page = yield Command((b"ZRANGE", key, b"%d" % first, b"%d" % (first + STEP - 1)))
    for job_id in page:
        chart.at(job_id).spots.append(Spot(kind, job_id))
    chart.steps += 1
    return first + STEP if len(page) == STEP else 0


def slices(chart: Chart) -> Iterator[list[Seen]]:
    """Put the jobs into slices whose data is bounded, for `read_data`."""
    part: list[Seen] = []
    size = 0
    for job in chart.seen.values():
        if not job.there:
            continue
        if part and (len(part) >= SLICE_JOBS or size + job.size > SLICE_BYTES):
            yield part
            part, size = [], 0
        part.append(job)
        size += job.size
    if part:
        yield part


def read_data(jobs: Sequence[Seen], keys: Keys) -> Operation[None]:
    """Read the data of some jobs and note which fields do not thaw."""
    replies = yield Pipeline([Command((b"HGETALL", keys.job(job.id))) for job in jobs])
    for job, reply in zip(jobs, replies):
        for field, value in zip(reply[::2], reply[1::2]):
            if (reason := why_unreadable(field, value)) is not None:
                job.unreadable[field] = reason


_PLAIN = frozenset(name.encode() for name in STANDARD) - {name.encode() for name in FROZEN}
_NOT_READ = _PLAIN | {ENTRY_FIELD, b"meta_data"}


def why_unreadable(field: bytes, value: bytes) -> str | None:
    """Say why a field does not thaw; None if it does, or need not."""
    if field in _NOT_READ or value in (b"", b"0"):
        return None
    try:
        thaw(value)
    except StorableError as error:
        return str(error)
    return None


def look(old: Seen, keys: Keys) -> Operation[Seen]:
    """Look again at one id, now at one moment, wherever it was seen before."""
    queues = sorted({spot.queue for spot in old.spots if spot.queue})
    texts = sorted({spot.text for spot in old.spots})
    _, kind, life, values, places = yield Script(
        "doctor_look",
        (keys.job(old.id), keys.lists, keys.heartbeat, keys.delayed, keys.retry, keys.dead),
        (keys.prefix, old.id, b"%d" % len(FIELDS), *FIELDS, b"%d" % len(queues), *queues, *texts),
    )
    there = kind == b"hash" and old.id != b"" and b":" not in old.id
    spots = [
        Spot(what.decode(), raw, queue, owner, bool(lives))
        for what, queue, owner, raw, lives in places
    ]
    unreadable = dict(old.unreadable)
    if there and unreadable:
        again = yield Command((b"HMGET", keys.job(old.id), *unreadable))
        unreadable = {
            field: reason
            for field, value in zip(unreadable, again)
            if (reason := why_unreadable(field, value or b"")) is not None
        }
    read = _pairs(values) if there else {}
    return Seen(old.id, there, life if there else -1, read, spots, unreadable, old.size)


def _pairs(values: Sequence[Any]) -> dict[bytes, bytes]:
    return {field: value or b"" for field, value in zip(FIELDS, values)}
