"""What is executed in a `World`: one request, what it may move, and whether it was refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from chaos.wire import State

Move = tuple[str, str]

MOVES: dict[str, set[Move]] = {
    # which request may move a job from where to where
    "add_job": {("gone", "waiting")},
    "add_jobs": {("gone", "waiting")},
    "add_delayed": {("gone", "delayed")},
    "claim": {("waiting", "held")},
    "complete_next": {("held", "nowhere"), ("waiting", "held")},
    "complete": {("held", "nowhere")},
    "fail": {("held", "nowhere")},
    "bury": {("held", "dead")},
    "retry": {("held", "retrying"), ("held", "dead")},
    "requeue": {("held", "waiting")},
    "release": {("held", "waiting")},
    "beat": {("held", "waiting")},
    "owner_stop": {("held", "waiting")},
    "recover": {("held", "waiting"), ("held", "dead"), ("shared", "waiting"), ("shared", "dead")},
    "promote": {("delayed", "waiting"), ("retrying", "waiting")},
    "due": {("delayed", "nowhere")},
    "revive": {("dead", "waiting")},
    "purge_dead": {("dead", "gone")},
    "cancel": {("waiting", "gone"), ("delayed", "gone"), ("retrying", "gone")},
    "clear_queue": {("waiting", "gone")},
    "next_job": {("waiting", "nowhere")},
    "perl pop": {("waiting", "nowhere")},
    "perl share": {("waiting", "shared")},
    "perl unshare": {("shared", "nowhere")},
}
for _kind in ("delete_job", "perl delete", "clock"):
    _anywhere = ("waiting", "held", "shared", "delayed", "retrying", "dead", "nowhere")
    MOVES[_kind] = {(place, "gone") for place in _anywhere}

GROWS = {
    "add_job", "add_jobs", "add_delayed", "save", "update_job", "perl update", "perl push",
    "perl share",
}  # fmt: skip
"""What a full server may refuse; all else must drain it."""

TAKES = ("due", "next_job", "perl pop", "perl unshare")
"""What leaves a job to its caller."""

PARKED = ("held", "delayed", "retrying", "dead")
"""Where a job has no time to live."""


@attrs.frozen(slots=True)
class Event:
    """One executed request."""

    kind: str
    args: Sequence[bytes]
    keys: Sequence[bytes]
    reply: Any
    before: State
    after: State
    now: int

    @property
    def verb(self) -> str:
        """The kind, or what a finishing call does."""
        return self.args[0].decode() if self.kind == "finish" else self.kind


@attrs.frozen(slots=True)
class Belief:
    """A claim that a living process holds, as far as it knows."""

    owner: bytes
    field: bytes
    number: bytes
    job_id: bytes
    unsure: bool
    """A finishing call was sent and not answered."""


@attrs.frozen(slots=True)
class Ending:
    """One job of a finishing request."""

    owner: bytes
    field: bytes
    number: bytes
    job_id: bytes


def endings(event: Event) -> Iterator[Ending]:
    """Read the claims that a finishing request names."""
    args = event.args
    if event.kind == "finish":
        owner, place = event.keys[0].rpartition(b":")[2], 3
    else:
        owner, place = args[1], 5 + int(args[4])
    while place < len(args):
        yield Ending(owner, args[place], args[place + 1], args[place + 2])
        place += 4
        for _ in ("fields to delete", "fields and values"):
            place += 1 + int(args[place])


def refused(event: Event) -> bool:
    """Tell whether a request was answered with a no, so that it may have changed nothing."""
    reply = event.reply
    if isinstance(reply, Exception):
        return True
    if event.kind in ("claim", "complete_next"):
        return reply[0] not in (b"good", 1, -1)
    if event.kind in ("finish", "begun"):
        return not any(reply)
    if event.kind in ("beat", "fence"):
        return reply[0] == 0
    if event.kind == "recover":
        return reply[0] == -1
    if event.kind == "save":
        return reply in (0, -1, -2)
    if event.kind == "add_jobs":
        return bool(reply != 0)
    return event.kind != "delete_job" and reply == 0
