"""How claims end: complete, fail, retry, bury, requeue and release.

A finishing call names owner, token, number and id, so that what arrives late
or twice is recognised by the script.  What it writes is frozen once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs

from redis_jobqueue.errors import MaxMemoryError, NetworkError, RedisError
from redis_jobqueue.job import Job
from redis_jobqueue.keys import Keys
from redis_jobqueue.operations.claims import SLICE, Claim, Claimed, read_claimed
from redis_jobqueue.operations.request import Operation, Script
from redis_jobqueue.record import changes_of

SLICE_BYTES = 1_000_000
"""Bytes that one script handles at most, so that Redis is never held for long."""

FINISHED = {"complete": "__completed__", "fail": "__failed__", "bury": "__failed__"}
"""The status that a verb writes; the other verbs write ``__created__``."""


def content(job: Job, verb: str, max_size: int) -> list[bytes]:
    """Freeze what a finishing call writes: a count and fields to delete, a count and
    ``field, value, ...``.

    The status and the times are the script's: its clock is the server's.
    """
    skipped = {"queue", "created", "updated", "started", "status"}
    if verb in FINISHED:
        skipped |= {"completed", "failed"}
    gone, pairs = changes_of(job, max_size, skipped)
    if verb in FINISHED:
        pairs += (b"status", FINISHED[verb].encode())
    return [b"%d" % len(gone), *gone, b"%d" % len(pairs), *pairs]


@attrs.frozen(slots=True)
class Ending:
    """One claim that is to end.

    Attributes:
        job: the job.
        claim: its claim, which another thread may take off the job at any time.
        content: what is written to the job; a repeat carries what the first request did.
        fresh: whether no request of this verb may have been executed yet.
    """

    job: Job
    claim: Claim
    content: Sequence[bytes]
    fresh: bool

    @classmethod
    def of(cls, verb: str, job: Job, claim: Claim, max_size: int) -> Ending:
        """Freeze what the verb writes to a job."""
        before = claim.tried.get(verb)
        if before is None:
            return cls(job, claim, content(job, verb, max_size), True)
        return cls(job, claim, before, False)


def slices(
    verb: str, held: Iterable[tuple[Job, Claim]], max_size: int
) -> Iterator[list[Ending]]:
    """Freeze what a finishing call writes to these jobs, in bounded parts.

    A part is of one owner id.  Everything is frozen before the first part is
    given, so that bad data ends no claim.
    """
    parts: dict[bytes, list[list[Ending]]] = {}
    sizes: dict[bytes, int] = {}
    for job, claim in held:
        one = Ending.of(verb, job, claim, max_size)
        mine, size = parts.setdefault(claim.owner, [[]]), sum(map(len, one.content))
        if len(mine[-1]) >= SLICE or (mine[-1] and sizes[claim.owner] + size > SLICE_BYTES):
            mine.append([])
            sizes[claim.owner] = 0
        mine[-1].append(one)
        sizes[claim.owner] = sizes.get(claim.owner, 0) + size
    for mine in parts.values():
        yield from mine


def finish(
    verb: str, endings: Sequence[Ending], keys: Keys, *, delay: int = 0, limit: int = 0
) -> Operation[list[int | RedisError]]:
    """End claims of one owner id, at most `SLICE`; returns the script's answers.

    ``delay`` is in ms.  After an answer the claims are over, but for one whose
    answer is an error; after a `NetworkError` they stand, and the next call of
    this verb is marked as a repeat.
    """
    reply = yield from _sent(verb, endings, lambda: _finish_request(
        verb, endings, keys, delay, limit))  # fmt: skip
    return [RedisError(f"[finish] {one}") if isinstance(one, Exception) else one for one in reply]


def _sent(
    verb: str, endings: Sequence[Ending], request: Callable[[], Script]
) -> Operation[list[Any]]:
    # Send a request, and a repeat of it if the answer was lost.
    first = request()
    for one in endings:
        one.claim.tried[verb] = one.content
    try:
        reply = yield first
    except NetworkError:
        return list((yield request()))
    except (RedisError, MaxMemoryError):
        _forget(verb, endings)
        raise
    _forget(verb, [one for one, answer in zip(endings, reply) if isinstance(answer, Exception)])
    return list(reply)


def _forget(verb: str, endings: Iterable[Ending]) -> None:
    # The server has refused it, so nothing was written: the next call is no repeat, and
    # carries what the job says then.
    for one in endings:
        if one.fresh:
            one.claim.tried.pop(verb, None)


def _is_repeat(claim: Claim, verb: str) -> bool:
    # The script knows a repeat of the verbs that finish by what the job says.  Of the
    # others it believes each, so where two verbs were tried none may be called one:
    # the caller is told that the claim is lost, not that the wrong thing was done.
    return verb in claim.tried and (verb in FINISHED or len(claim.tried) == 1)


def _job_keys(claim: Claim, keys: Keys) -> tuple[bytes, ...]:
    return (
        keys.job(claim.job_id),
        keys.processing(claim.queue, claim.owner),
        keys.queue(claim.queue),
        keys.stats(claim.queue),
    )


def _job_args(one: Ending, verb: str) -> tuple[bytes, ...]:
    claim, again = one.claim, b"1" if _is_repeat(one.claim, verb) else b"0"
    return (claim.field, claim.number, claim.job_id, again, *one.content)


def _finish_request(
    verb: str, endings: Sequence[Ending], keys: Keys, delay: int, limit: int
) -> Script:
    first = endings[0].claim
    return Script(
        "finish",
        (
            keys.claims(first.owner), keys.attempts, keys.cancelled, keys.retry, keys.dead,
            *(key for one in endings for key in _job_keys(one.claim, keys)),
        ),  # fmt: skip
        (
            verb.encode(), b"%d" % delay, b"%d" % limit,
            *(arg for one in endings for arg in _job_args(one, verb)),
        ),  # fmt: skip
        first.job_id,
    )


def complete_next(
    one: Ending, token: int, owner: bytes, queues: Sequence[bytes], mark: bool, keys: Keys,
    *, holder: Any, strings: str,
) -> Operation[tuple[int, Claimed]]:  # fmt: skip
    """Complete a job and claim the next; returns the answer to the first and the second.

    Only for a job that was claimed under the owner's present id.
    """
    lists = [
        key
        for queue in queues
        for key in (keys.queue(queue), keys.processing(queue, owner), keys.stats(queue))
    ]

    def request() -> Script:
        return Script(
            "complete_next",
            (
                keys.heartbeat, keys.claims(owner), keys.lists, keys.attempts, keys.paused,
                keys.cancelled, *_job_keys(one.claim, keys), *lists,
            ),  # fmt: skip
            (
                keys.prefix, owner, b"%d" % token, b"1" if mark else b"0",
                b"%d" % len(queues), *queues, *_job_args(one, "complete"),
            ),  # fmt: skip
            one.claim.job_id,
        )

    done, *rest = yield from _sent("complete", [one], request)
    if isinstance(done, Exception):
        raise RedisError(f"[complete_next] {done}")
    return done, read_claimed(rest, owner, holder, strings)
