"""Claims: what an owner sends to live, to take jobs and to hold them.

A claim is owner, token and number: see `Claim`.  Everything here names them,
so that what arrives late or twice is recognised by the script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from redis_jobqueue.checks import Text
from redis_jobqueue.errors import (
    ArgumentError,
    ClaimLostError,
    JobDeletedError,
    NetworkError,
    RedisError,
)
from redis_jobqueue.job import Job
from redis_jobqueue.keys import Entry, Keys, text
from redis_jobqueue.operations.request import Operation, Request, Script
from redis_jobqueue.record import changes_of, job_of

SLICE = 100
"""Jobs that one script handles at most, so that Redis is never held for long."""

GOOD, LAPSED, FENCED = "good", "lapsed", "fenced"
"""How the server sees an owner: see ``standing`` in ``lua/_take.lua``."""


@attrs.define(slots=True, eq=False)
class Claim:
    """What one held job stands under.

    Attributes:
        owner: the id of the owner when it was claimed; it is finished under it.
        field: its field in ``claims:<owner>``: the token, or token and place.
        number: the number that the script gave it.
        queue: the queue that it came from.
        entry: its entry, unchanged.
        attempts: deliveries that failed before.
        saves: the number of the last `save`.
        cancelled: whether somebody asked for an end.
        tried: verb -> content of the finishing calls that were sent; they
            stay while no answer comes.
        holder: the Owner object, which `Job.save` and `Job.begun` call.
    """

    owner: bytes
    field: bytes
    number: bytes
    queue: bytes
    entry: bytes
    attempts: int
    holder: Any
    saves: int = 0
    cancelled: bool = False
    tried: dict[str, Sequence[bytes]] = attrs.field(factory=dict)

    @property
    def job_id(self) -> bytes:
        """The id of the job, as it stands in the entry."""
        return Entry.parse(self.entry).id


@attrs.frozen(slots=True)
class Claimed:
    """What a claim call brought.

    Attributes:
        standing: `GOOD`, or why nothing was done.
        jobs: the jobs that are held now.
        dangling: ids of entries whose job was gone before its time; taken off.
        bad: entries that can be no job's; taken off.
        more: whether the call stopped early to be short: call again.
        unfit: queues that were left out: a key of theirs holds something else.
    """

    standing: str
    jobs: list[Job] = attrs.field(factory=list)
    dangling: list[Text] = attrs.field(factory=list)
    bad: list[bytes] = attrs.field(factory=list)
    more: bool = False
    unfit: Sequence[bytes] = ()


def start(owner: bytes, about: bytes, lifetime: int, keys: Keys) -> Operation[bool]:
    """Register an owner; False if there is one of this id.  ``lifetime`` is in ms."""
    none = keys.prefix + b"owners:none:none"
    try:
        return bool(
            (
                yield Script(
                    "owner_start",
                    (keys.heartbeat, keys.about, none),
                    (owner, b"%d" % lifetime, about),
                )
            )
        )
    except RedisError as error:
        # The last words are those of servers before Redis 5, about what the script writes.
        if any(
            words in str(error)
            for words in ("nknown", "can't run this command", "non deterministic commands")
        ):
            raise RedisError(
                "claims need a server that has LMOVE (Redis 6.2 or later); this one answers: "
                + str(error)
            ) from error
        raise


def describe(owner: bytes, about: bytes, keys: Keys) -> Operation[bool]:
    """Replace what an owner says of itself; False if it has no beat."""
    return bool((yield Script("describe", (keys.heartbeat, keys.about), (owner, about))))


@attrs.frozen(slots=True)
class Beat:
    """What the server answered to a beat.

    Attributes:
        fenced: the owner was recovered: it has to take a new id.
        put_back: entries that nobody held and that wait again.
        more: whether there are more of them: beat again.
        now_ms: the server's time.
        cancelled: ids of held jobs that are to stop.
    """

    fenced: bool
    put_back: int = 0
    more: bool = False
    now_ms: int = 0
    cancelled: Sequence[bytes] = ()


def beat(
    owner: bytes, lifetime: int, highest: int, living: Iterable[bytes], keys: Keys
) -> Operation[Beat]:
    """Say that an owner lives, and which of its tokens do."""
    request = Script(
        "beat",
        (keys.heartbeat, keys.claims(owner), keys.cancelled),
        (keys.prefix, owner, b"%d" % lifetime, b"%d" % highest, *living),
    )
    reply = yield from repeated(request, request)
    if not reply[0]:
        return Beat(True)
    return Beat(False, reply[1], bool(reply[2]), int(reply[3]), reply[4])


def stop(
    owner: bytes, highest: int, living: Sequence[bytes], queues: Iterable[bytes], keys: Keys
) -> Operation[int]:
    """End an owner's beat; returns how many entries nobody held were put back."""
    back = 0
    request = Script(
        "owner_stop",
        (keys.heartbeat, keys.claims(owner), keys.lists, keys.about),
        (keys.prefix, owner, b"%d" % highest, b"%d" % len(living), *living, *queues),
    )
    while True:
        moved, more = yield from repeated(request, request)
        back += moved
        if not more:
            return int(back)


def claim_request(
    owner: bytes, token: int, queues: Sequence[bytes], count: int, mark: bool, keys: Keys
) -> Script:
    """Ask for up to ``count`` jobs under one token."""
    lists = [
        key
        for queue in queues
        for key in (keys.queue(queue), keys.processing(queue, owner), keys.stats(queue))
    ]
    return Script(
        "claim",
        (keys.heartbeat, keys.claims(owner), keys.lists, keys.attempts, keys.paused, *lists),
        (keys.prefix, owner, b"%d" % token, b"%d" % count, b"1" if mark else b"0", *queues),
    )


def read_claimed(
    reply: Sequence[Any], owner: bytes, holder: Any, strings: str
) -> Claimed:
    """Read the reply of a claim."""
    standing = reply[0].decode()
    if len(reply) == 1:  # nothing was looked for
        return Claimed(standing)
    _, taken, dangling, bad, more, unfit = reply
    jobs = []
    for field, number, queue, entry, attempts, fields in taken:
        if not fields:
            # Deleted before the repeat of a request; the next beat takes the entry off.
            dangling.append(entry)
            continue
        job = job_of(fields, strings)
        job._claim = Claim(owner, field, number, queue, entry, int(attempts), holder)
        jobs.append(job)
    gone = [text(Entry.parse(entry).id) for entry in dangling]
    return Claimed(GOOD, jobs, gone, bad, bool(more), unfit)


def take(request: Script, owner: bytes, holder: Any, strings: str) -> Operation[Claimed]:
    """Claim; asks once more under the same token if the answer was lost."""
    reply = yield from repeated(request, request)
    return read_claimed(reply, owner, holder, strings)


def repeated(request: Request, again: Request) -> Operation[Any]:
    """Send a request, and once more if the answer was lost, or the server is no master any more.

    Safe: the script recognises what it has done already.
    """
    try:
        return (yield request)
    except NetworkError:
        pass
    except RedisError as error:
        if "READONLY" not in str(error):
            raise
    return (yield again)


def held_by(job: Job) -> Claim:
    """Give the claim of a job.

    Raises:
        ClaimLostError: the job is not held through this object.
    """
    if not isinstance(job, Job):
        raise ArgumentError(f"Invalid argument (a Job, not {type(job).__name__})")
    claim = job._claim
    if not isinstance(claim, Claim):
        raise ClaimLostError(f"{job!r} is not held: its claim has ended", job_id=_shown(job))
    return claim


def _shown(job: Job) -> str:
    return job.id if isinstance(job.id, str) else job.id.decode("latin-1")


def judge(job: Job, answer: int) -> None:
    """Raise what a script's answer to a finishing call or a save means.

    Raises:
        ClaimLostError: the claim is gone, or a later save came first.
        JobDeletedError: the job is gone.
    """
    job_id = _shown(job)
    if answer == -1:
        raise JobDeletedError(job_id=job_id)
    if answer == -2:
        raise ClaimLostError(f"{job_id}: a later save came first", job_id=job_id)
    if answer == 0:
        raise ClaimLostError(f"{job_id} is held by nobody here: the claim was lost", job_id=job_id)


def save(job: Job, keys: Keys, *, max_size: int) -> Operation[int]:
    """Write what was changed in a held job; returns how many fields."""
    claim = held_by(job)
    if not job._modified and not job._meta._modified:
        return 0
    gone, pairs = changes_of(job, max_size, {"queue"})
    claim.saves += 1
    request = Script(
        "save",
        (keys.claims(claim.owner), keys.job(claim.job_id)),
        (
            claim.field, claim.number, claim.job_id, b"%d" % claim.saves,
            b"%d" % len(gone), *gone, *pairs,
        ),  # fmt: skip
        claim.job_id,
    )
    answer = yield from repeated(request, request)
    judge(job, answer)
    job.clear_modified()
    return len(gone) + len(pairs) // 2


def begun(jobs: Sequence[Job], keys: Keys) -> Operation[list[int]]:
    """Mark jobs of one owner id as begun; returns 1 or 0 for each."""
    claims = [held_by(job) for job in jobs]
    request = Script(
        "begun",
        (keys.claims(claims[0].owner),),
        [arg for claim in claims for arg in (claim.field, claim.number, claim.job_id)],
        claims[0].job_id,
    )
    return list((yield from repeated(request, request)))


def arm(queues: Sequence[bytes], keys: Keys) -> Sequence[bytes]:
    """Give the keys that a waiting owner wants to hear of."""
    return (keys.paused, *(keys.queue(queue) for queue in queues))
