"""One connection over which a test executes requests one by one, and sees all after each.

The scripts are the real ones, but for the time: they read it from a key instead
of the server's clock, so that a test can move it, and times to live pass only
when it does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import redis
from redis import exceptions
from support.server import Server

from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations.request import Command, Script

HERE = Path(__file__).parent
PREFIX = b"JobQueue:"
CLOCK = b"chaos:clock"

_TIME = b"redis.call('TIME')"
_READ_CLOCK = b"redis.call('LRANGE', '%b', 0, 1)" % CLOCK


_LIFE = re.compile(rb"('EXPIRE', [\w\[\]]+|'PX'), ([\w\[\]]+)\)")
SLOWLY = b"000"
"""What makes a time to live a thousand times as long, so that the test's own time is nothing."""
_SLICE = re.compile(rb"local (SLICE|PAGE) = 100\b")
SLICES = (100, 3)
"""Jobs that one script handles: as it is, and so few that steps of others come in between."""


def _bodies(few: int) -> dict[str, bytes]:
    bodies = {file.stem: file.read_bytes() for file in HERE.glob("*.lua")}
    for name, body in SCRIPTS.items():
        text = body.text.replace(_TIME, _READ_CLOCK)
        assert b"'TIME'" not in text
        text = _LIFE.sub(rb"\1, \2 .. '%b')" % SLOWLY, text)
        assert text.count(b"'EXPIRE'") + text.count(b"'PX'") == text.count(b".. '%b')" % SLOWLY)
        bodies[name] = _SLICE.sub(rb"local \1 = %d" % few, text)
    return bodies


BODIES = {few: _bodies(few) for few in SLICES}
SHAS = {
    few: {name: hashlib.sha1(body).hexdigest().encode() for name, body in bodies.items()}
    for few, bodies in BODIES.items()
}

Key = tuple[Any, ...]
"""A type, whether there is no time to live, and the content."""


@attrs.frozen(slots=True)
class Claim:
    """A field of ``claims:<owner>``."""

    number: bytes
    saves: bytes
    begun: bytes
    queue: bytes
    entry: bytes

    @classmethod
    def read(cls, value: bytes) -> Claim:
        """Read a value as the scripts write it."""
        number, saves, begun, length, rest = value.split(b" ", 4)
        return cls(number, saves, begun, rest[: int(length)], rest[int(length) :])

    @property
    def id(self) -> bytes:
        """The job's id."""
        return self.entry.partition(b" ")[0]


@attrs.frozen(slots=True)
class Stored:
    """What a snapshot has of a job."""

    digest: bytes
    queue: bytes
    entry: bytes
    expire: bytes
    lasting: bool
    """Whether it has no time to live."""


@attrs.frozen(slots=True)
class Place:
    """A place that holds an entry or an id."""

    kind: str
    queue: bytes = b""
    owner: bytes = b""
    entry: bytes = b""


@attrs.define(slots=True)
class State:
    """Everything in the namespace at one moment; ``raw`` compares two of them."""

    raw: dict[bytes, Key] = attrs.field(factory=dict)
    jobs: dict[bytes, Stored] = attrs.field(factory=dict)
    queues: dict[bytes, list[bytes]] = attrs.field(factory=dict)
    held: dict[tuple[bytes, bytes], list[bytes]] = attrs.field(factory=dict)
    shared: dict[bytes, list[bytes]] = attrs.field(factory=dict)
    sets: dict[str, dict[bytes, int]] = attrs.field(factory=dict)
    claims: dict[bytes, dict[bytes, Claim]] = attrs.field(factory=dict)
    beats: dict[bytes, int] = attrs.field(factory=dict)
    lists: set[bytes] = attrs.field(factory=set)
    about: set[bytes] = attrs.field(factory=set)
    paused: set[bytes] = attrs.field(factory=set)
    attempts: dict[bytes, int] = attrs.field(factory=dict)
    cancelled: set[bytes] = attrs.field(factory=set)
    places: dict[bytes, list[Place]] = attrs.field(factory=dict)

    def where(self, job_id: bytes) -> str:
        """Name the one place of a job; "gone" without a hash, "nowhere" without a place."""
        places = self.places.get(job_id, ())
        assert len(places) < 2, f"{job_id!r} is in {places}"
        if job_id not in self.jobs:
            return "gone"
        return places[0].kind if places else "nowhere"


SETS = {b"delayed": "delayed", b"retry": "retrying", b"dead": "dead"}


def read_state(reply: Iterable[list[Any]], shared_queues: frozenset[bytes]) -> State:
    """Read what snapshot.lua answered; a key that nobody knows fails the test.

    ``shared_queues`` are those whose list without an owner is in use.
    """
    state = State()
    for key, kind, left, *content in reply:
        what: Any = content
        if kind == b"hash" and key.count(b":") > 1:  # the order of its fields may change
            what = sorted(zip(content[::2], content[1::2]))
        state.raw[key] = (kind, left < 0, *what)
        _sort(state, key[len(PREFIX) :], kind, left, content, shared_queues)
    for queue, entries in state.queues.items():
        for entry in entries:
            _place(state, entry, Place("waiting", queue, entry=entry))
    for (queue, owner), entries in state.held.items():
        for entry in entries:
            _place(state, entry, Place("held", queue, owner, entry))
    for queue, entries in state.shared.items():
        for entry in entries:
            _place(state, entry, Place("shared", queue, entry=entry))
    for name, members in state.sets.items():
        for job_id in members:
            state.places.setdefault(job_id, []).append(Place(name))
    return state


def _place(state: State, entry: bytes, place: Place) -> None:
    state.places.setdefault(entry.partition(b" ")[0], []).append(place)


def _sort(
    state: State, name: bytes, kind: bytes, left: int, content: list[bytes],
    shared_queues: frozenset[bytes],
) -> None:  # fmt: skip
    head, colon, tail = name.partition(b":")
    if not colon:
        assert kind == b"hash", f"Perl takes {name!r} for a job"
        state.jobs[name] = Stored(*content[:4], left < 0)
    elif head == b"queue":
        state.queues[tail] = content
    elif head == b"processing" and tail in shared_queues:
        state.shared[tail] = content
    elif head == b"processing":
        queue, _, owner = tail.rpartition(b":")
        state.held[queue, owner] = content
    elif head == b"claims":
        values = zip(content[::2], content[1::2])
        state.claims[tail] = {f: Claim.read(value) for f, value in values if f != b"#"}
    elif name == b"owners:heartbeat":
        state.beats = {o: int(score) for o, score in zip(content[::2], content[1::2])}
    elif name == b"owners:lists":
        state.lists = set(content)
    elif name == b"owners:about":
        state.about = set(content[::2])
    elif name == b"attempts:jobs":
        state.attempts = {j: int(count) for j, count in zip(content[::2], content[1::2])}
    elif name == b"paused:queues":
        state.paused = set(content)
    elif name == b"cancelled:jobs":
        state.cancelled = set(content[::2])
    elif head in SETS and tail == b"jobs":
        state.sets[SETS[head]] = {j: int(s) for j, s in zip(content[::2], content[1::2])}
    else:
        assert name == b"owners:reaper" or head == b"stats", f"an unknown key: {name!r}"


class Wire:
    """The connection; every script is loaded beforehand, so each request is one trip.

    Attributes:
        slice: one of `SLICES`.
    """

    def __init__(self, server: Server) -> None:
        self._pool = redis.ConnectionPool(
            connection_class=redis.UnixDomainSocketConnection, path=server.socket_path, protocol=2
        )
        self._connection: Any = self._pool.make_connection()
        self.slice = SLICES[0]
        for bodies in BODIES.values():
            self.send(*([b"SCRIPT", b"LOAD", body] for body in bodies.values()))

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()

    def send(self, *commands: Iterable[bytes | int]) -> list[Any]:
        """Execute commands in one trip; an error is among the replies."""
        packed = [part for words in commands for part in self._connection.pack_command(*words)]
        self._connection.send_packed_command([b"".join(packed)])
        replies = []
        for _ in commands:
            try:
                replies.append(self._connection.read_response(disable_decoding=True))
            except exceptions.ResponseError as error:
                # In a circle with its traceback it would keep the callers' jobs alive.
                replies.append(error.with_traceback(None))
        return replies

    def words(self, request: Script | Command) -> Iterable[bytes | int]:
        """Give a request as a command."""
        if isinstance(request, Command):
            return request.args
        sha = SHAS[self.slice][request.name]
        return (b"EVALSHA", sha, b"%d" % len(request.keys), *request.keys, *request.args)

    @staticmethod
    def clock(now_ms: int, moved_ms: int = 0) -> Iterable[bytes | int]:
        """Give the command that sets the clock, and lets times to live pass if it was moved."""
        seconds, ms = divmod(now_ms, 1000)
        return (
            b"EVALSHA", SHAS[100]["clock"], 1, CLOCK, b"%d" % seconds, b"%d" % (ms * 1000),
            b"%d" % moved_ms, PREFIX,
        )  # fmt: skip

    @staticmethod
    def snapshot() -> Iterable[bytes | int]:
        """Give the command that reads everything."""
        return (b"EVALSHA", SHAS[100]["snapshot"], 0, PREFIX)
