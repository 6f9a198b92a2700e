"""How claims end: complete, fail, retry, bury, requeue and release.

A finishing call names owner, token, number and id, so that what arrives late
or twice is recognised by the script.  What it writes is frozen once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from redis_jobqueue.errors import NetworkError, RedisError
from redis_jobqueue.job import Job
from redis_jobqueue.keys import Keys
from redis_jobqueue.operations.claims import (
    SLICE,
    Claim,
    Claimed,
    held_by,
    read_claimed,
)
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


def slices(
    verb: str, jobs: Iterable[Job], max_size: int
) -> Iterator[tuple[list[Job], list[Sequence[bytes]]]]:
    """Freeze what a finishing call writes to these jobs, which are held, in bounded parts.

    A part is of one owner id.  Everything is frozen before the first part is
    given, so that bad data ends no claim.
    """
    parts: dict[bytes, list[tuple[list[Job], list[Sequence[bytes]]]]] = {}
    sizes: dict[bytes, int] = {}
    for job in jobs:
        owner, args = held_by(job).owner, _content_once(job, verb, max_size)
        mine, size = parts.setdefault(owner, [([], [])]), sum(map(len, args))
        if len(mine[-1][0]) >= SLICE or (mine[-1][0] and sizes[owner] + size > SLICE_BYTES):
            mine.append(([], []))
            sizes[owner] = 0
        mine[-1][0].append(job)
        mine[-1][1].append(args)
        sizes[owner] = sizes.get(owner, 0) + size
    for mine in parts.values():
        yield from mine


def finish(
    verb: str,
    jobs: Sequence[Job],
    keys: Keys,
    *,
    contents: Sequence[Sequence[bytes]] | None = None,
    delay: int = 0,
    limit: int = 0,
    max_size: int,
) -> Operation[list[int | RedisError]]:
    """End the claims of jobs of one owner id, at most `SLICE`; returns the script's answers.

    ``delay`` is in ms.  After an answer the jobs' claims are over, but for that of a
    job whose answer is an error; after a `NetworkError` they stand, and the next
    call of this verb is marked as a repeat.
    """
    if contents is None:
        contents = [_content_once(job, verb, max_size) for job in jobs]
    claims = [held_by(job) for job in jobs]
    request = _finish_request(verb, claims, contents, keys, delay, limit)
    for claim, args in zip(claims, contents):
        claim.tried[verb] = args
    try:
        reply = yield request
    except NetworkError:
        reply = yield _finish_request(verb, claims, contents, keys, delay, limit)
    return [RedisError(f"[finish] {one}") if isinstance(one, Exception) else one for one in reply]


def _content_once(job: Job, verb: str, max_size: int) -> Sequence[bytes]:
    # A repeat carries what the first request carried.
    tried = held_by(job).tried
    return tried[verb] if verb in tried else content(job, verb, max_size)


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


def _job_args(claim: Claim, verb: str, content: Sequence[bytes]) -> tuple[bytes, ...]:
    again = b"1" if _is_repeat(claim, verb) else b"0"
    return (claim.field, claim.number, claim.job_id, again, *content)


def _finish_request(
    verb: str,
    claims: Sequence[Claim],
    contents: Sequence[Sequence[bytes]],
    keys: Keys,
    delay: int,
    limit: int,
) -> Script:
    return Script(
        "finish",
        (
            keys.claims(claims[0].owner), keys.attempts, keys.cancelled, keys.retry, keys.dead,
            *(key for claim in claims for key in _job_keys(claim, keys)),
        ),  # fmt: skip
        (
            verb.encode(), b"%d" % delay, b"%d" % limit,
            *(arg for claim, args in zip(claims, contents) for arg in _job_args(claim, verb, args)),
        ),  # fmt: skip
        claims[0].job_id,
    )


def complete_next(
    job: Job, token: int, owner: bytes, queues: Sequence[bytes], mark: bool, keys: Keys,
    *, holder: Any, strings: str, max_size: int,
) -> Operation[tuple[int, Claimed]]:  # fmt: skip
    """Complete a job and claim the next; returns the answer to the first and the second.

    Only for a job that was claimed under the owner's present id.
    """
    claim = held_by(job)
    args = _content_once(job, "complete", max_size)
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
                keys.cancelled, *_job_keys(claim, keys), *lists,
            ),  # fmt: skip
            (
                keys.prefix, owner, b"%d" % token, b"1" if mark else b"0",
                b"%d" % len(queues), *queues, *_job_args(claim, "complete", args),
            ),  # fmt: skip
            claim.job_id,
        )

    first = request()
    claim.tried["complete"] = args
    try:
        done, *rest = yield first
    except NetworkError:
        done, *rest = yield request()
    if isinstance(done, Exception):
        raise RedisError(str(done))
    return done, read_claimed(rest, owner, holder, strings)
