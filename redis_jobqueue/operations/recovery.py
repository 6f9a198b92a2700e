"""Recovery: bring back what dead owners held.

First the fence, after which nothing of the owner counts; then its entries, in
slices, to the head of their queues, the oldest claim next.  Every step can be
repeated, and a recovery that stops half-way is finished by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs

from redis_jobqueue.checks import Text
from redis_jobqueue.errors import RedisError
from redis_jobqueue.keys import Keys, text
from redis_jobqueue.operations.request import Operation, Script


@attrs.define(slots=True)
class Recovered:
    """What a recovery did.

    Attributes:
        jobs: entries that went back to their queue.
        buried: jobs at their limit of attempts, now among the dead.
        dropped: entries whose job was gone.
        owners: ids of the dead owners of which nothing is left to bring back (where
            a queue was named: nothing of that).
        stuck: queues to which nothing could go back, because a key of theirs
            holds something else; what dead owners held of them stays in its list.
    """

    jobs: int = 0
    buried: int = 0
    dropped: int = 0
    owners: list[str] = attrs.field(factory=list)
    stuck: list[Text] = attrs.field(factory=list)


def turn(who: bytes, interval: int, keys: Keys) -> Operation[bool]:
    """Ask for the right to look for orphans now; ``interval`` is in ms."""
    return bool(
        (yield Script("reap_turn", (keys.reaper, keys.about), (who, b"%d" % interval)))
    )


def suspects(keys: Keys) -> Operation[dict[bytes, list[bytes]]]:
    """Give the owners that have no good beat, and the queues of their registered lists."""
    found: dict[bytes, list[bytes]] = {}
    cursor = b"0"
    while True:
        cursor, lists, owners = yield Script(
            "lapsed", (keys.heartbeat, keys.lists, keys.about), (cursor,)
        )
        for owner in owners:
            found.setdefault(owner, [])
        for member in lists:
            queue, _, owner = member.rpartition(b":")
            if queue not in found.setdefault(owner, []):
                found[owner].append(queue)
        if cursor == b"0":
            return found


def recover(
    queue: bytes | None, owner: bytes | None, limit: int, keys: Keys
) -> Operation[Recovered]:
    """Recover what dead owners hold: of one queue, of one owner, or all.

    ``limit`` is the number of attempts at which a job is buried where its
    owner did not say; 0 for none.  With a queue its list without an owner is
    looked at too, but moved back only while no owner lives at all.
    """
    done = Recovered()
    found = yield from suspects(keys)
    for suspect, queues in found.items():
        if owner is not None and suspect != owner:
            continue
        alive, limit_of = yield from _fence(suspect, limit, keys)
        if alive:
            continue
        mine = [name for name in queues if queue is None or name == queue]
        emptied = 0
        for name in mine:
            emptied += yield from _slices(name, suspect, limit_of, keys, done)
        if emptied == len(mine):
            done.owners.append(suspect.decode("latin-1"))
        if emptied == len(queues):
            yield Script("forget_owner", (keys.heartbeat, keys.about), (suspect,))
    if queue is not None and owner is None:
        yield from _slices(queue, None, limit, keys, done)
    return done


def _fence(owner: bytes, limit: int, keys: Keys) -> Operation[tuple[bool, int]]:
    fenced, *about = yield Script(
        "fence", (keys.heartbeat, keys.claims(owner), keys.attempts, keys.about), (owner,)
    )
    return not fenced, limit if not fenced else _limit_of(about, limit)


def _limit_of(about: Sequence[bytes], limit: int) -> int:
    said = read_about(about[0] if about else b"")
    own = said.get("max_attempts")
    return own if isinstance(own, int) and own > 0 else limit


def read_about(raw: bytes) -> dict[str, Any]:
    """Read what an owner said of itself; {} if it is not there or is damaged."""
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _slices(
    queue: bytes, owner: bytes | None, limit: int, keys: Keys, done: Recovered
) -> Operation[bool]:
    # One list, which bars the way to no other; returns whether it was emptied.
    name = owner.decode("latin-1") if owner is not None else "an unknown owner"
    why = f"its attempts are used up: {name} died while it worked on the job"
    more = True
    while more:
        try:
            reply = yield Script(
                "recover",
                (
                    keys.heartbeat, keys.lists, keys.attempts, keys.dead,
                    keys.processing(queue, owner), keys.queue(queue), keys.stats(queue),
                    keys.cancelled,
                ),  # fmt: skip
                (keys.prefix, queue, owner or b"", b"%d" % limit, why.encode("ascii", "replace")),
            )
        except RedisError as error:
            if "WRONGTYPE" not in str(error):
                raise
            if text(queue) not in done.stuck:
                done.stuck.append(text(queue))
            return False
        if reply[0] == -1:  # the owner lives after all
            return False
        moved, buried, dropped, rest = reply
        done.jobs += moved
        done.buried += buried
        done.dropped += dropped
        more = bool(rest)
    return True
