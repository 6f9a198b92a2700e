"""What is not waiting in a queue: delayed, retrying and dead jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from redis_jobqueue.checks import Text
from redis_jobqueue.errors import JobQueueError
from redis_jobqueue.job import Job
from redis_jobqueue.keys import Keys, text
from redis_jobqueue.operations.jobs import store_new
from redis_jobqueue.operations.request import Operation, Script
from redis_jobqueue.operations.survey import STEP
from redis_jobqueue.record import check_expire


def add_delayed(
    job: Job, keys: Keys, *, new_id: Callable[[], str], now: float, when: bytes, max_size: int
) -> Operation[Job]:
    """Store a job that is due later; ``when`` is ``D<delay>`` or ``A<moment>`` in ms."""
    expire = check_expire(job.expire, now)

    def request(name: bytes, pairs: Sequence[bytes]) -> Script:
        return Script(
            "add_delayed",
            (keys.job(name), keys.delayed),
            (name, b"%d" % expire, when, *pairs),
            name,
        )

    return (yield from store_new(job, request, new_id, max_size))


@attrs.define(slots=True)
class Promoted:
    """What a promotion did.

    Attributes:
        jobs: ids that wait in their queues now, in the order in which they were due.
        buried: ids that can be no job's or have no queue; they are dead now.
        dropped: ids whose job is gone.
    """

    jobs: list[Text] = attrs.field(factory=list)
    buried: list[Text] = attrs.field(factory=list)
    dropped: list[Text] = attrs.field(factory=list)


def promote_due(queue: bytes | None, limit: int, keys: Keys) -> Operation[Promoted]:
    """Put up to ``limit`` jobs that are due into their queues, retries first."""
    done = Promoted()
    only = () if queue is None else (queue,)
    for source in (keys.retry, keys.delayed):
        passed, more = 0, True
        while more and len(done.jobs) < limit:
            jobs, buried, dropped, over, rest = yield Script(
                "promote",
                (source, keys.dead, keys.attempts),
                (keys.prefix, b"%d" % (limit - len(done.jobs)), b"%d" % passed, *only),
            )
            done.jobs += map(text, jobs)
            done.buried += map(text, buried)
            done.dropped += map(text, dropped)
            passed += over
            more = bool(rest)
    return done


def due(limit: int, remove: bool, keys: Keys) -> Operation[list[Text]]:
    """Give ids of delayed jobs that are due, the longest waiting first.

    Where a later slice of a removal fails, what was taken off before is given:
    nobody else will.
    """
    found: dict[bytes, None] = {}
    least, passed = b"-inf", 0
    while len(found) < limit:
        count = min(limit - len(found), STEP)
        try:
            page = yield Script(
                "due",
                (keys.delayed,),
                (keys.prefix, b"%d" % count, b"1" if remove else b"0", least, b"%d" % passed),
            )
        except JobQueueError:
            if found and remove:
                break
            raise
        ids, scores = page[::2], page[1::2]
        found |= dict.fromkeys(ids)
        if len(ids) < count:
            break
        if not remove:
            # From the last score on, not by place: others take jobs off meanwhile.
            same = scores.count(scores[-1])
            passed = same + (passed if same == count and scores[-1] == least else 0)
            least = scores[-1]
    return [text(job_id) for job_id in found]


def revive(job_id: bytes, keys: Keys) -> Operation[bool]:
    """Put a dead job back to the tail of its queue; False if it is not among the dead."""
    done = yield Script(
        "revive", (keys.dead, keys.attempts, keys.job(job_id)), (keys.prefix, job_id), job_id
    )
    return bool(done == 1)


def purge_dead(older_than: int, keep: int, keys: Keys) -> Operation[int]:
    """Delete dead jobs older than so many ms but for the latest ``keep``; returns how many."""
    deleted, more = 0, 1
    while more:
        count, more = yield Script(
            "purge_dead",
            (keys.dead, keys.attempts),
            (keys.prefix, b"%d" % older_than, b"%d" % keep),
        )
        deleted += count
    return deleted


@attrs.define(slots=True)
class Sweep:
    """Where the steps over the sets stand, and what they dropped.

    A step looks at a hundred members of each set, takes times to live off,
    which a Perl update may have started, and drops ids without a job.
    """

    cursors: dict[bytes, bytes] = attrs.field(factory=dict)
    dropped: int = 0


def sweep(state: Sweep, keys: Keys) -> Operation[Sequence[Text]]:
    """Do one step over each of the sets, the counts of attempts and the wishes to cancel."""
    gone: list[Text] = []
    for source in (keys.delayed, keys.retry, keys.dead):
        cursor = state.cursors.get(source, b"0")
        state.cursors[source], _, dropped = yield Script(
            "keep_set", (source, keys.attempts), (keys.prefix, cursor)
        )
        gone += map(text, dropped)
    for source in (keys.attempts, keys.cancelled):
        cursor = state.cursors.get(source, b"0")
        state.cursors[source], _ = yield Script("sweep_gone", (source,), (keys.prefix, cursor))
    state.dropped += len(gone)
    return gone
