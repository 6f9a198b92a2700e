"""What a child process does: it runs one job after another for its parent.

They speak over a socket, in frozen dicts with a length in front: no pickle.

    parent -> child   {"job": fields, "queue": ..., ...}    run this
                      {"cancelled": 1}                      somebody asked for an end
                      {"saved": n} or {"refused": error}    what came of a save
    child -> parent   {"pid": n}                            first of all
                      {"save": changes}                     write this now
                      {"done": changes, "returned": flag}   completed
                      {"error": kind, ...}                  failed
                      {"refused": error}                    a save was, and that ended it
    nursery -> parent {"failed": why}                       there will be no child

Changes are what `record.changes_of` gives; an error is what `packed` gives.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import attrs

from redis_jobqueue import errors
from redis_jobqueue.errors import (
    E_REDIS,
    ClaimLostError,
    JobDeletedError,
    JobQueueError,
    StorableError,
)
from redis_jobqueue.handlers import Bury, Drop, Retry, Table, call, describe, words_of
from redis_jobqueue.job import Job
from redis_jobqueue.keys import text
from redis_jobqueue.record import changes_of, job_of
from redis_jobqueue.storable import nfreeze, thaw
from redis_jobqueue.waiting import ready

_LENGTH = struct.Struct(">Q")


class Channel:
    """One end of a socket that carries frozen dicts."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; raises `OSError` if the other end is gone."""
        image = nfreeze(message)
        self.sock.sendall(_LENGTH.pack(len(image)) + image)

    def receive(self) -> dict[str, Any] | None:
        """Read one message; None if the other end is gone."""
        head = self._read(_LENGTH.size)
        image = None if head is None else self._read(_LENGTH.unpack(head)[0])
        return None if image is None else thaw(image)

    def readable(self, seconds: float) -> bool:
        """Wait for a message, or for the other end to go."""
        return bool(ready(seconds, self.sock))

    @property
    def ended(self) -> bool:
        """Whether the other end is gone, also where something of it is still to be read."""
        poll = select.poll()
        poll.register(self.sock, 0)
        return bool(poll.poll(0))

    def _read(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.sock.recv(min(count - len(parts), 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)


def packed(error: JobQueueError) -> dict[str, Any]:
    """Give what `unpacked` makes the same error of, on the other end."""
    return {"class": type(error).__name__, "text": str(error), "code": error.code,
            "job_id": getattr(error, "job_id", None)}  # fmt: skip


def unpacked(told: dict[str, Any]) -> JobQueueError:
    """Give an error of the class, the text and the code that it had."""
    kind: type[JobQueueError] = getattr(errors, told["class"], JobQueueError)
    error = kind(told["text"], code=told["code"])
    if hasattr(error, "job_id"):
        error.job_id = told["job_id"]
    return error


@attrs.define(slots=True, eq=False)
class _Held:
    """What a job in a child stands under: its parent's claim, over the channel."""

    channel: Channel
    queue: bytes
    attempts: int
    max_datasize: int
    refusal: JobQueueError | None = None
    _cancelled: bool = False

    @property
    def holder(self) -> _Held:
        """Give itself: `Job.save` and `Job.begun` go through the parent."""
        return self

    @property
    def cancelled(self) -> bool:
        """Whether the parent has said that somebody asked for an end."""
        while not self._cancelled and self.channel.readable(0):
            message = self.channel.receive()
            self._cancelled = message is None or "cancelled" in message
        return self._cancelled

    def save(self, job: Job) -> int:
        """Let the parent write what was changed."""
        gone, pairs = changes_of(job, self.max_datasize)
        self.channel.send({"save": [gone, pairs]})
        while (answer := self.channel.receive()) is not None:
            if "saved" in answer:
                job.clear_modified()
                return int(answer["saved"])
            if "refused" in answer:
                self.refusal = unpacked(answer["refused"])
                raise self.refusal
            self._cancelled = True
        raise ClaimLostError("the worker is gone", job_id=str(job.id))

    def begun(self, *jobs: Job) -> None:
        """Do nothing: the parent has marked the job."""


def serve(sock: socket.socket, table: Table) -> None:
    """Run what the parent sends, until it is gone."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # The parent decides what a signal means.  Programs that a handler starts would
        # inherit SIG_IGN, and could not be terminated.
        signal.signal(number, _nothing)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # The end of this process is seen by that of the channel: no fork of a handler may hold it.
    os.register_at_fork(after_in_child=sock.close)
    channel = Channel(sock)
    channel.send({"pid": os.getpid()})
    while (message := channel.receive()) is not None:
        if "job" not in message:
            continue
        job = job_of(message["job"], message["strings"])
        job._claim = held = _Held(
            channel, message["queue"], message["attempts"], message["max_datasize"]
        )
        outcome = _outcome(job, table, held)
        flush()  # the end of a child is SIGKILL
        channel.send(outcome)


def flush() -> None:
    """Write out what was printed: no fork may have it twice, and no end may lose it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()


def _nothing(number: int, frame: FrameType | None) -> None:
    pass


def _outcome(job: Job, table: Table, held: _Held) -> dict[str, Any]:
    try:
        value = call(table.find(text(held.queue), job).function, job)
        return {"done": [*changes_of(job, held.max_datasize)], "returned": value is not None}
    except BaseException as error:
        if error is held.refusal and isinstance(error, (ClaimLostError, JobDeletedError)):
            return {"refused": packed(error)}
        line, trace = describe(error)
        kind = next((kind for kind in _KINDS if isinstance(error, _KINDS[kind])), "error")
        if isinstance(error, StorableError) and error.code == E_REDIS:
            kind = "unreadable"
        delay = error.delay if isinstance(error, Retry) else None
        try:
            changes: Sequence[Any] = changes_of(job, held.max_datasize)
        except JobQueueError:  # the result that cannot be frozen is the error
            changes = ([], [])
        return {"error": kind, "class": type(error).__name__, "text": words_of(error), "line": line,
                "trace": trace, "delay": delay, "changes": [*changes]}  # fmt: skip


_KINDS: dict[str, type[BaseException]] = {"retry": Retry, "bury": Bury, "drop": Drop}
