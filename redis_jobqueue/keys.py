"""The names of all keys, and the entries of a queue: made and parsed here, nowhere else.

Perl takes every key with exactly one colon-free segment behind the namespace
for a job, and every key below ``<namespace>:queue:`` for a queue.  So each key
that Perl does not know has two segments or more and stands elsewhere.
"""

from __future__ import annotations

import math

import attrs

from redis_jobqueue.errors import E_NO_ERROR, ArgumentError

NAMESPACE = "JobQueue"
"""The first segment of every key, as in Perl."""

_ENDLESS = {b"inf": b"Inf", b"-inf": b"-Inf", b"nan": b"NaN"}
"""How Perl writes what has no digits."""

_GLOB = b"\\[]*?"


def octets(value: object, what: str) -> bytes:
    """Give the bytes of a name or a plain field, as Redis and Perl keep them.

    Args:
        value: ASCII text, bytes, or a number, which stands for its decimal text.
        what: the name of the argument, for the message.

    Raises:
        ArgumentError: code `E_MISMATCH_ARG`; text beyond ASCII, which Perl
            refuses too, or another type.
    """
    if isinstance(value, str):
        try:
            return value.encode("ascii")
        except UnicodeEncodeError:
            raise ArgumentError(f"Invalid argument (utf8 in {what})") from None
    if isinstance(value, bytes):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return b"%d" % value
    if isinstance(value, float):
        digits = b"%.15g" % value
        return digits if math.isfinite(value) else _ENDLESS[digits]
    raise ArgumentError(f"Invalid argument ({what} must be text, not {type(value).__name__})")


def text(value: bytes) -> str | bytes:
    """Give octets as callers see them: ``str`` if they are ASCII, else ``bytes``."""
    return value.decode("ascii") if value.isascii() else value


_DIGITS = 20
"""Digits of a whole number that are read: a time or a count with more is beyond all others."""


def read_whole(raw: bytes) -> int:
    """Read a whole number that anybody may have written; what is none counts as 0, as in Perl.

    Python reads no more than 4,300 digits; of so long a number the first ones are enough.
    """
    return int(raw.lstrip(b"0")[:_DIGITS] or b"0") if raw.isdigit() else 0


@attrs.frozen(slots=True)
class Entry:
    """One element of a queue's list: ``id`` or ``id epoch``.

    Attributes:
        id: the job's id.
        epoch: the second at which the job's time to live ends, None for never.
    """

    id: bytes
    epoch: int | None = None

    @classmethod
    def parse(cls, raw: bytes) -> Entry:
        """Read an element as Perl does: the first word is the id, the second the time.

        A time that is no number counts as 0, and one of more digits than any
        time has lies far ahead.  An element without a word has the empty id.
        """
        words = raw.split(None, 2)
        if len(words) < 2:
            return cls(words[0] if words else b"")
        return cls(words[0], read_whole(words[1]))

    def encode(self) -> bytes:
        """Give the element as it stands in the list."""
        return self.id if self.epoch is None else b"%b %d" % (self.id, self.epoch)


def _namespace(value: object) -> bytes:
    try:
        name = octets(value, "namespace")
    except ArgumentError as error:
        raise ArgumentError(str(error), code=E_NO_ERROR) from None
    if not name:
        raise ArgumentError("namespace must not be empty", code=E_NO_ERROR)
    return name


@attrs.frozen(slots=True)
class Keys:
    """All keys of one namespace.

    Attributes:
        namespace: the first segment, as bytes; on a Redis Cluster it must be
            one hash tag, as in ``{JobQueue}``.
    """

    namespace: bytes = attrs.field(converter=_namespace)

    @property
    def prefix(self) -> bytes:
        """What every key starts with."""
        return self.namespace + b":"

    @property
    def pattern(self) -> bytes:
        """The glob of all keys of this namespace and of no other."""
        plain = b"".join(b"\\%c" % c if c in _GLOB else b"%c" % c for c in self.prefix)
        return plain + b"*"

    def job(self, job_id: bytes) -> bytes:
        """The hash of a job."""
        return self.namespace + b":" + job_id

    def queue(self, name: bytes) -> bytes:
        """The list of the waiting entries of a queue; the head is next."""
        return self.namespace + b":queue:" + name

    # The keys below are ours: two segments or more, so that Perl does not see them.

    def processing(self, queue: bytes, owner: bytes | None) -> bytes:
        """The list of what an owner holds of a queue; without an owner the shared list."""
        tail = b"" if owner is None else b":" + owner
        return self.namespace + b":processing:" + queue + tail

    def claims(self, owner: bytes) -> bytes:
        """The hash of an owner's claims: token -> number, queue, entry; ``#`` counts them."""
        return self.namespace + b":claims:" + owner

    def stats(self, queue: bytes) -> bytes:
        """The hash of a queue's counters."""
        return self.namespace + b":stats:" + queue

    @property
    def heartbeat(self) -> bytes:
        """The sorted set owner -> the moment its beat lapses, ms of the server's clock."""
        return self.namespace + b":owners:heartbeat"

    @property
    def lists(self) -> bytes:
        """The set of ``<queue>:<owner>`` of every processing list that may hold something."""
        return self.namespace + b":owners:lists"

    @property
    def about(self) -> bytes:
        """The hash owner -> what it says of itself, JSON."""
        return self.namespace + b":owners:about"

    @property
    def reaper(self) -> bytes:
        """The key whose lifetime limits how often orphans are looked for."""
        return self.namespace + b":owners:reaper"

    @property
    def attempts(self) -> bytes:
        """The hash id -> deliveries that failed."""
        return self.namespace + b":attempts:jobs"

    @property
    def cancelled(self) -> bytes:
        """The sorted set of held jobs that somebody asked to stop -> when, ms."""
        return self.namespace + b":cancelled:jobs"

    @property
    def delayed(self) -> bytes:
        """The sorted set id -> due, ms."""
        return self.namespace + b":delayed:jobs"

    @property
    def retry(self) -> bytes:
        """The sorted set id -> due, ms, of jobs that failed and come again."""
        return self.namespace + b":retry:jobs"

    @property
    def dead(self) -> bytes:
        """The sorted set id -> time of death, ms."""
        return self.namespace + b":dead:jobs"

    @property
    def paused(self) -> bytes:
        """The set of queues that claims skip."""
        return self.namespace + b":paused:queues"

    @property
    def concurrency(self) -> bytes:
        """The hash queue -> desired workers and when that was set."""
        return self.namespace + b":concurrency:queues"
