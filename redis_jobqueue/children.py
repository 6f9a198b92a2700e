"""Child processes for jobs: one job at a time each, killed without harm to the rest.

The `Nursery` is forked before the worker has any thread, and forks the
children from then on: a fork of a process with threads can inherit a lock that
nobody will ever release.  Parent and child speak over a socket, in frozen
dicts with a length in front: no pickle.

    parent -> child   {"job": fields, "queue": ..., "attempt": n}   run this
                      {"cancelled": 1}                              somebody asked for an end
    child -> parent   {"pid": n}                                    first of all
                      {"save": changes}                             write this now
                      {"done": changes}                             completed
                      {"error": kind, ...}                          failed

Changes are what `record.changes_of` gives.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

import attrs

from redis_jobqueue.checks import Text
from redis_jobqueue.errors import E_REDIS, ClaimLostError, JobQueueError, StorableError
from redis_jobqueue.handle import MAX_DATASIZE
from redis_jobqueue.handlers import (
    Bury,
    Died,
    Drop,
    Handler,
    Retry,
    Table,
    TimeLimit,
    call,
    describe,
)
from redis_jobqueue.job import Job
from redis_jobqueue.keys import text
from redis_jobqueue.metadata import FIELDS
from redis_jobqueue.record import apply_changes, changes_of, fields_of, job_of, metadata_of
from redis_jobqueue.storable import nfreeze, thaw

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
        return bool(select.select([self.sock], [], [], seconds)[0])

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


@attrs.define(slots=True, eq=False)
class _Held:
    """What a job in a child stands under: its parent's claim, over the channel."""

    channel: Channel
    queue: bytes
    attempts: int
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
        gone, pairs = changes_of(job, MAX_DATASIZE)
        self.channel.send({"save": [gone, pairs]})
        while (answer := self.channel.receive()) is not None:
            if "saved" in answer:
                job.clear_modified()
                return int(answer["saved"])
            if "refused" in answer:
                raise ClaimLostError(str(answer["refused"]), job_id=str(job.id))
            self._cancelled = True
        raise ClaimLostError("the worker is gone", job_id=str(job.id))

    def begun(self, *jobs: Job) -> None:
        """Do nothing: the parent has marked the job."""


def _serve(sock: socket.socket, table: Table) -> None:
    # What a child does until its parent is gone.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the parent decides what a signal means
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = Channel(sock)
    channel.send({"pid": os.getpid()})
    while (message := channel.receive()) is not None:
        if "job" not in message:
            continue
        job = job_of(message["job"], message["strings"])
        job._claim = _Held(channel, message["queue"], message["attempts"])
        channel.send(_outcome(job, table, text(message["queue"])))


def _outcome(job: Job, table: Table, queue: Text) -> dict[str, Any]:
    try:
        call(table.find(queue, job).function, job)
        return {"done": [*changes_of(job, MAX_DATASIZE)]}
    except BaseException as error:
        line, trace = describe(error)
        kind = next((kind for kind in _KINDS if isinstance(error, _KINDS[kind])), "error")
        if isinstance(error, StorableError) and error.code == E_REDIS:
            kind = "unreadable"
        delay = error.delay if isinstance(error, Retry) else None
        try:
            changes: Sequence[Any] = changes_of(job, MAX_DATASIZE)
        except JobQueueError:  # the result that cannot be frozen is the error
            changes = ([], [])
        return {"error": kind, "text": str(error), "line": line, "trace": trace,
                "delay": delay, "changes": [*changes]}  # fmt: skip


_KINDS: dict[str, type[BaseException]] = {"retry": Retry, "bury": Bury, "drop": Drop}


class Failed(Exception):
    """A handler failed in a child; carries what it was there."""

    def __init__(self, line: str, trace: str) -> None:
        super().__init__(line)
        self.line = line
        self.trace = trace


class Nursery:
    """Makes children, from a process that has no threads.

    Args:
        table: the handlers, which the children have by being forked.
    """

    def __init__(self, table: Table) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._closed = False
        mine, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            mine.close()
            try:
                _nurse(theirs, table)
            finally:
                os._exit(0)
        theirs.close()
        self._pid = pid
        self._control = mine

    def run(self, handler: Handler, job: Job) -> None:
        """Run a held job in a child; what it changed is applied to the Job.

        Raises:
            Died: the child is gone.
            TimeLimit: it ran too long, and was killed.
            Retry, Bury, Drop: the handler raised them.
            Failed: the handler raised something else.
        """
        child = self._take()
        try:
            child.run(handler, job)
        except (Died, TimeLimit):
            self._forget(child)
            raise
        except BaseException:
            self._give_back(child)
            raise
        self._give_back(child)

    def close(self) -> None:
        """Kill all children and the nursery."""
        with self._lock:
            self._closed = True
            children, self._all, self._idle = list(self._all), set(), []
        for child in children:
            child.kill()
        self._control.close()  # at its end of file the nursery kills what is left
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass

    def _take(self) -> _Child:
        with self._lock:
            if self._closed:
                raise Died("the worker ends")
            if self._idle:
                return self._idle.pop()
            mine, theirs = socket.socketpair()
            socket.send_fds(self._control, [b"x"], [theirs.fileno()])
            theirs.close()
        child = _Child(Channel(mine))
        with self._lock:
            self._all.add(child)
        return child

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(child)

    def _forget(self, child: _Child) -> None:
        child.kill()
        with self._lock:
            self._all.discard(child)


class _Child:
    """The parent's end of one child."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        hello = channel.receive()
        if hello is None:
            raise Died("a child process could not be started")
        self.pid = int(hello["pid"])

    def kill(self) -> None:
        """Kill it, whatever it does."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._channel.sock.close()

    def run(self, handler: Handler, job: Job) -> None:
        """See `Nursery.run`."""
        claim = job._claim
        ends = None if handler.timeout is None else time.monotonic() + handler.timeout
        told = False
        try:
            self._channel.send(
                {
                    "job": [*fields_of(job, FIELDS, MAX_DATASIZE),
                            *metadata_of(job, job._meta, MAX_DATASIZE)],
                    "queue": claim.queue,
                    "attempts": claim.attempts,
                    "strings": job._strings,
                }  # fmt: skip
            )
            while True:
                if ends is not None and time.monotonic() >= ends:
                    raise TimeLimit(f"it ran longer than {handler.timeout:g} seconds")
                if job.cancelled and not told:
                    told = True
                    self._channel.send({"cancelled": 1})
                if not self._channel.readable(0.1):
                    continue
                message = self._channel.receive()
                if message is None:
                    raise Died("the process that ran it is gone")
                if "save" in message:
                    self._save(job, message["save"])
                elif "done" in message:
                    apply_changes(job, *message["done"])
                    return
                else:
                    apply_changes(job, *message["changes"])
                    raise _error_of(message)
        except (OSError, ValueError) as error:
            raise Died("the process that ran it is gone") from error

    def _save(self, job: Job, changes: Any) -> None:
        apply_changes(job, *changes)
        try:
            self._channel.send({"saved": job.save()})
        except JobQueueError as error:
            self._channel.send({"refused": str(error)})


def _error_of(message: dict[str, Any]) -> Exception:
    kind, words = message["error"], str(message["text"])
    if kind == "retry":
        return Retry(words, delay=message["delay"])
    if kind == "bury":
        return Bury(words)
    if kind == "drop":
        return Drop(words)
    if kind == "unreadable":
        return Bury(f"its data cannot be read: {words}")
    return Failed(str(message["line"]), str(message["trace"]))


def _nurse(control: socket.socket, table: Table) -> None:
    # One message is one wish for a child, with the socket that it is to serve.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    children: set[int] = set()
    while True:
        _reap(children)
        if not select.select([control], [], [], 1.0)[0]:
            continue
        message, sockets, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            try:
                _serve(socket.socket(fileno=sockets[0]), table)
            finally:
                os._exit(0)
        children.add(pid)
        os.close(sockets[0])
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _reap(children: set[int]) -> None:
    while children:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            children.clear()
            return
        if pid == 0:
            return
        children.discard(pid)
