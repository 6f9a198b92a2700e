"""Where everything is: counts, listings, and every place that holds a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from redis_jobqueue.checks import Text
from redis_jobqueue.errors import RedisError
from redis_jobqueue.job import Job
from redis_jobqueue.keys import Entry, Keys, read_whole, text
from redis_jobqueue.operations.control import Concurrency, read_concurrency
from redis_jobqueue.operations.recovery import read_about
from redis_jobqueue.operations.request import Command, Operation, Pipeline, Script
from redis_jobqueue.operations.survey import STEP, pages, scan_lists
from redis_jobqueue.record import job_of

COUNTERS = ("claimed", "completed", "failed", "retried", "dead", "recovered")
"""What is counted for each queue, since the counting began."""


@attrs.frozen(slots=True)
class QueueCounts:
    """One queue at one moment.

    Attributes:
        waiting: entries in the queue.
        processing: entries that owners hold.
        paused: whether claims skip it.
        concurrency: how many workers it should have, None if nobody said.
        oldest_age: seconds since the first or the last job that waits was created,
            the older of the two; None if none waits.
        counters: the `COUNTERS`.
    """

    waiting: int
    processing: int
    paused: bool
    concurrency: Concurrency | None
    oldest_age: float | None
    counters: dict[str, int]


@attrs.frozen(slots=True)
class Counts:
    """A namespace at one moment.

    Attributes:
        queues: name -> `QueueCounts`.
        delayed, retrying, dead: jobs of all queues.
        owners: how many owners are live.
        now: the server's time, seconds since 1970.
    """

    queues: dict[Text, QueueCounts]
    delayed: int
    retrying: int
    dead: int
    owners: int
    now: float


def split_member(member: bytes) -> tuple[bytes, bytes]:
    """Give queue and owner of a member of ``owners:lists``: the owner has no colon."""
    queue, _, owner = member.rpartition(b":")
    return queue, owner


def counts(queues: Sequence[bytes] | None, keys: Keys) -> Operation[Counts]:
    """Count everything, all queues in one pipelined read."""
    lists, paused, wanted = yield Pipeline(
        [
            Command((b"SMEMBERS", keys.lists)),
            Command((b"SMEMBERS", keys.paused)),
            Command((b"HGETALL", keys.concurrency)),
        ]
    )
    holders: dict[bytes, list[bytes]] = {}
    for member in lists:
        queue, owner = split_member(member)
        holders.setdefault(queue, []).append(owner)
    desired = dict(zip(wanted[::2], wanted[1::2]))
    if queues is None:
        filled = yield from scan_lists(keys)
        prefix = len(keys.queue(b""))
        names = sorted({key[prefix:] for key in filled} | set(holders) | set(paused) | set(desired))
    else:
        names = list(queues)
    read: list[Script | Command] = [
        Script("moment", (keys.delayed, keys.retry, keys.dead, keys.heartbeat), ())
    ]
    for name in names:
        held = [keys.processing(name, owner) for owner in holders.get(name, ())]
        if name not in lists:  # else this very key is the list of another queue's owner
            held.append(keys.processing(name, None))
        read.append(
            Script("count_queue", (keys.queue(name), keys.stats(name), *held), (keys.prefix,))
        )
    (now, delayed, retrying, dead, owners), *answers = yield Pipeline(read)
    moment = int(now) / 1000
    return Counts(
        {
            text(name): _counted(answer, name in paused, desired.get(name), moment)
            for name, answer in zip(names, answers)
        },
        delayed,
        retrying,
        dead,
        owners,
        moment,
    )


def _counted(
    answer: Sequence[Any], paused: bool, desired: bytes | None, now: float
) -> QueueCounts:
    waiting, processing, created, stats = answer
    counted = {name: read_whole(count) for name, count in zip(stats[::2], stats[1::2])}
    try:
        age = max(now - float(created), 0.0) if created else None
    except ValueError:
        age = None
    return QueueCounts(
        waiting, processing, paused, read_concurrency(desired), age,
        {name: counted.get(name.encode(), 0) for name in COUNTERS},
    )  # fmt: skip


@attrs.frozen(slots=True)
class Place:
    """A place that holds a job.

    Attributes:
        kind: ``waiting``, ``processing``, ``delayed``, ``retrying`` or ``dead``.
        queue: the queue, for ``waiting`` and ``processing``.
        owner: the owner, for ``processing``; None for the list without one.
        score: for the others when the job is due, or when it died, seconds
            since 1970.
    """

    kind: str
    queue: Text | None = None
    owner: str | None = None
    score: float | None = None


def locate(job_id: bytes, keys: Keys) -> Operation[list[Place]]:
    """Give every place that holds a job; looks through its queue and all held lists.

    It looks twice where it does not find exactly one: a job may have moved meanwhile.
    """
    places = yield from _places(job_id, keys)
    if len(places) != 1:
        places = yield from _places(job_id, keys)
    return places


def _places(job_id: bytes, keys: Keys) -> Operation[list[Place]]:
    # In the order in which a job moves on: from its queue to an owner, then into a set.
    places: list[Place] = []
    (queue,) = yield Command((b"HMGET", keys.job(job_id), b"queue"))
    # A job whose hash is gone, or whose queue was changed, may stand in any queue.
    lists = {keys.queue(queue)} if queue else set()
    lists |= set((yield from scan_lists(keys)))
    prefix = len(keys.queue(b""))
    for key in sorted(lists):
        count = yield from _occurrences(key, job_id)
        places += [Place("waiting", text(key[prefix:]))] * count
    members = yield Command((b"SMEMBERS", keys.lists))
    held = [split_member(member) for member in members]
    shared = [(name, None) for name in {*([queue] if queue else []), *(q for q, _ in held)}]
    for name, owner in [*sorted(held), *shared]:
        if owner is None and name in members:
            continue  # this very key is the list of another queue's owner
        count = yield from _occurrences(keys.processing(name, owner), job_id)
        shown = None if owner is None else owner.decode("latin-1")
        places += [Place("processing", text(name), shown)] * count
    sets = (keys.delayed, keys.retry, keys.dead)
    scores = yield Pipeline([Command((b"ZSCORE", key, job_id)) for key in sets])
    for kind, score in zip(("delayed", "retrying", "dead"), scores):
        if score is not None:
            places.append(Place(kind, score=float(score) / 1000))
    return places


def _occurrences(key: bytes, job_id: bytes) -> Operation[int]:
    found: set[bytes] = set()
    for first, last in pages():
        page = yield Command((b"LRANGE", key, first, last))
        found.update(raw for raw in page if Entry.parse(raw).id == job_id)
        if len(page) < STEP:
            break
    if not found:
        return 0
    # Pages may show an entry twice: this is one moment.
    places = yield Pipeline([Command((b"LPOS", key, raw, b"COUNT", b"0")) for raw in found])
    return sum(map(len, places))


@attrs.frozen(slots=True)
class Listed:
    """One row of a listing.

    Attributes:
        id: the job's id.
        queue, owner: where it waits or is held.
        score: when it is due, or died, seconds since 1970; None in lists.
    """

    id: Text
    queue: Text | None = None
    owner: str | None = None
    score: float | None = None


def waiting(queue: bytes, page: int, size: int, keys: Keys) -> Operation[list[Listed]]:
    """List a page of a queue, the next job first."""
    first = (page - 1) * size
    raw = yield Command(
        (b"LRANGE", keys.queue(queue), b"%d" % first, b"%d" % (first + size - 1))
    )
    return [Listed(text(Entry.parse(entry).id), text(queue)) for entry in raw]


def processing(
    queue: bytes | None, page: int, size: int, keys: Keys
) -> Operation[list[Listed]]:
    """List a page of what owners hold, by queue and owner, the latest claim first."""
    members = yield Command((b"SMEMBERS", keys.lists))
    held: list[tuple[bytes, bytes | None]] = sorted(map(split_member, members))
    if queue is not None:
        held = [(name, owner) for name, owner in held if name == queue]
        if queue not in members:
            held.append((queue, None))
    rows: list[Listed] = []
    skip = (page - 1) * size
    lengths = yield Pipeline([Command((b"LLEN", keys.processing(*each))) for each in held])
    for (name, owner), length in zip(held, lengths):
        if skip >= length:
            skip -= length
            continue
        last = skip + size - len(rows) - 1
        raw = yield Command(
            (b"LRANGE", keys.processing(name, owner), b"%d" % skip, b"%d" % last)
        )
        shown = None if owner is None else owner.decode("latin-1")
        rows += [Listed(text(Entry.parse(entry).id), text(name), shown) for entry in raw]
        skip = 0
        if len(rows) >= size:
            break
    return rows


def scored(key: bytes, page: int, size: int, keys: Keys) -> Operation[list[Listed]]:
    """List a page of a sorted set, the earliest first."""
    first = (page - 1) * size
    raw = yield Command(
        (b"ZRANGE", key, b"%d" % first, b"%d" % (first + size - 1), b"WITHSCORES")
    )
    ids, scores = raw[::2], raw[1::2]
    if not ids:
        return []
    found: list[bytes | None] = []
    for at in range(0, len(ids), STEP):
        part = [keys.job(each) for each in ids[at : at + STEP]]
        found += yield Script("field_of_jobs", part, (b"queue",))
    return [
        Listed(text(job_id), text(queue) if queue else None, None, float(score) / 1000)
        for job_id, score, queue in zip(ids, scores, found)
    ]


def find_jobs(ids: Sequence[bytes], keys: Keys, strings: str) -> Operation[dict[Text, Job | None]]:
    """Load jobs by their ids; None for those that are gone."""
    found: dict[Text, Job | None] = {}
    for first in range(0, len(ids), 100):
        part = ids[first : first + 100]
        found |= dict.fromkeys(map(text, part))
        kinds = yield Pipeline([Command((b"TYPE", keys.job(job_id))) for job_id in part])
        part = [job_id for job_id, kind in zip(part, kinds) if kind == b"hash"]
        replies = yield Pipeline([Command((b"HGETALL", keys.job(job_id))) for job_id in part])
        for job_id, reply in zip(part, replies):
            found[text(job_id)] = job_of(reply, strings) if reply else None
    return found


def status_of(job_id: bytes, keys: Keys) -> Operation[bytes | None]:
    """Give the status of a job, without its data; None if it is gone."""
    raw: bytes | None = yield Command((b"HGET", keys.job(job_id), b"status"))
    return raw


@attrs.frozen(slots=True)
class OwnerInfo:
    """What is known of an owner.

    Attributes:
        id: its id.
        live: whether its beat is good.
        lapses_in: seconds until it lapses, negative if it has; None if it has no beat.
        host, pid, since, queues: what it said of itself at its start.
        holding: how many claims it holds.
        about: all that it said.
    """

    id: str
    live: bool
    lapses_in: float | None
    host: str
    pid: int
    since: float
    queues: tuple[str, ...]
    holding: int
    about: dict[str, Any]


# Whatever an owner said of itself may be damaged, or of another version.

_MOST = 1e15
"""Times, processes and counts are smaller."""


def said_number(said: Any) -> float:
    """Give a number that an owner said; 0 if it is none."""
    fits = isinstance(said, (int, float)) and -_MOST < said < _MOST
    return float(said) if fits else 0.0


def said_texts(said: Any) -> tuple[str, ...]:
    """Give the texts of a list that an owner said; none if it is no list."""
    return tuple(map(str, said)) if isinstance(said, list) else ()


def owners(keys: Keys) -> Operation[list[OwnerInfo]]:
    """Describe every owner that left a trace; reading never prunes."""
    now, beats, said, members = yield Pipeline(
        [
            Command((b"TIME",)),
            Command((b"ZRANGE", keys.heartbeat, b"0", b"-1", b"WITHSCORES")),
            Command((b"HGETALL", keys.about)),
            Command((b"SMEMBERS", keys.lists)),
        ]
    )
    moment = int(now[0]) * 1000 + int(now[1]) // 1000
    scores = dict(zip(beats[::2], beats[1::2]))
    abouts = dict(zip(said[::2], said[1::2]))
    names = sorted({*scores, *(split_member(m)[1] for m in members), *abouts} - {b""})
    if not names:
        return []
    held = yield Pipeline([Command((b"HLEN", keys.claims(name))) for name in names])
    rows = []
    for name, fields in zip(names, held):
        about = read_about(abouts.get(name, b""))
        score = scores.get(name)
        left = None if score is None else (float(score) - moment) / 1000
        rows.append(
            OwnerInfo(
                name.decode("latin-1"), left is not None and left > 0, left,
                str(about.get("host", "")), int(said_number(about.get("pid"))),
                said_number(about.get("since")), said_texts(about.get("queues")),
                max(fields - 1, 0), about,
            )  # fmt: skip
        )
    return rows


@attrs.frozen(slots=True)
class Health:
    """How the server is.

    Attributes:
        latency: seconds that one PING took.
        version: the server's, as text.
        role: ``master`` or ``slave``.
        used_memory, maxmemory: bytes; 0 for no limit.
        policy: the eviction policy; anything but ``noeviction`` endangers jobs.
        persistent: whether jobs survive a restart (append-only file or snapshots);
            None if the server does not say.
        claims: whether the server has what claims need (``LMOVE``).
        pool_size: the limit of this queue's connections, None for none.
        pool_used: how many of them are in use.
    """

    latency: float
    version: str
    role: str
    used_memory: int
    maxmemory: int
    policy: str
    persistent: bool | None
    claims: bool
    pool_size: int | None
    pool_used: int


def info(keys: Keys) -> Operation[dict[str, str]]:
    """Read the server's own report."""
    raw = yield Command((b"INFO",))
    lines = raw.decode("utf-8", "replace").splitlines()
    return dict(line.partition(":")[::2] for line in lines if ":" in line)


def snapshots(keys: Keys) -> Operation[bool | None]:
    """Tell whether the server saves snapshots by itself; None if it does not say."""
    try:
        return bool((yield Command((b"CONFIG", b"GET", b"save")))[1])
    except (RedisError, IndexError):
        return None


def has_lmove(keys: Keys) -> Operation[bool]:
    """Try what claims need on a key that never exists; moves nothing."""
    none = keys.prefix + b"owners:none:none"
    return bool((yield Script("can_move", (none,), ())))
