"""Child processes for jobs: one job at a time each, killed without harm to the rest.

The `Nursery` is forked before the worker has any thread, and forks the
children from then on: a fork of a process with threads can inherit a lock that
nobody will ever release.  What a child does, and what it says, is `child`.

What is no fault of a job costs it nothing: where no child can be started it is
put back, and a worker whose nursery is gone ends.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from redis_jobqueue.child import Channel, flush, packed, serve, unpacked
from redis_jobqueue.errors import ClaimLostError, JobQueueError
from redis_jobqueue.handle import MAX_DATASIZE
from redis_jobqueue.handlers import Bury, Died, Drop, Handler, Retry, Table, TimeLimit
from redis_jobqueue.job import Job, unwrap
from redis_jobqueue.metadata import FIELDS
from redis_jobqueue.record import apply_changes, fields_of, metadata_of
from redis_jobqueue.storable import thaw
from redis_jobqueue.waiting import ready

log = logging.getLogger("redis_jobqueue.worker")


class NoChild(ClaimLostError):
    """There is no child to run the job, which was not begun: it is to be put back."""


class Ended(ClaimLostError):
    """The worker ended and has put the job back, before the child was killed."""


class Failed(Exception):
    """A handler failed in a child; carries what it was there.

    It is raised as a subclass that has the name of the exception's class, so
    that who tells of ``type(error)`` tells the same as of a thread.
    """

    def __init__(self, words: str, line: str, trace: str) -> None:
        super().__init__(words)
        self.line = line
        self.trace = trace


class Nursery:
    """Makes children, from a process that has no threads.

    Args:
        table: the handlers, which the children have by being forked.

    Attributes:
        gone: whether its process was seen to be gone: no job will be run any more.
    """

    def __init__(self, table: Table) -> None:
        self.gone = False
        self._lock = threading.RLock()
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._closed = False
        self._failing = False
        mine, theirs = socket.socketpair()
        flush()
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

    def run(self, handler: Handler, job: Job, max_datasize: int) -> Any:
        """Run a held job in a child; what it changed is applied to the Job.

        Returns:
            What the handler returned.

        Raises:
            NoChild: it was not begun.
            Ended: `close` has killed the child.
            Died: the child is gone.
            TimeLimit: it ran too long, and was killed.
            Retry, Bury, Drop: the handler raised them.
            ClaimLostError, JobDeletedError: a save said so, and that ended the handler.
            Failed: the handler raised something else.
        """
        fields = fields_of(job, FIELDS, MAX_DATASIZE) + metadata_of(job, job._meta, MAX_DATASIZE)
        claim = job._claim
        task = {"job": fields, "strings": job._strings, "queue": claim.queue,
                "attempts": claim.attempts, "max_datasize": max_datasize}  # fmt: skip
        child = self._take()
        try:
            answer = child.run(handler, job, task)
        except BaseException as error:
            self._forget(child)
            if self._closed:
                raise Ended("the worker ends") from error
            raise
        with self._lock:
            if self._closed:
                self._forget(child)
            else:
                self._idle.append(child)
        return _come_of(job, answer)

    def close(self) -> None:
        """Kill all children and the nursery."""
        with self._lock:
            self._closed = True
            for child in self._all:
                child.kill()  # its channel is closed by the thread that waits for it
            while self._idle:
                self._forget(self._idle.pop())
            # At its end of file the nursery kills what is left.  Not close() alone:
            # any fork of this process holds the socket as well.
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._control.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _take(self) -> _Child:
        try:
            with self._lock:
                self._check()
                while self._idle:
                    child = self._idle.pop()
                    if not child.channel.readable(0):
                        return child
                    self._forget(child)  # it is dead, or says what nobody asked
                channel = self._ask()
            child = _Child(channel)
        except OSError as error:
            with self._lock:
                if not self._failing:
                    log.error("no child process can be started; trying again: %s", error)
                self._failing = True
            raise NoChild(str(error)) from error
        with self._lock:
            self._all.add(child)
            if self._closed:
                self._forget(child)
                raise Ended("the worker ends")
            if self._failing:
                log.warning("child processes can be started again")
            self._failing = False
        return child

    def _check(self) -> None:
        if self._closed:
            raise Ended("the worker ends")
        if not self.gone and ready(0, self._control):  # it says nothing, so this is its end
            self.gone = True
            log.error("the process that starts the child processes is gone: the worker ends")
        if self.gone:
            raise NoChild("the process that starts them is gone")

    def _ask(self) -> Channel:
        mine, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [b"x"], [theirs.fileno()])
        except BaseException:
            mine.close()
            raise
        return Channel(mine)

    def _forget(self, child: _Child) -> None:
        with self._lock:
            self._all.discard(child)
            child.kill()
            child.channel.sock.close()


class _Child:
    """The parent's end of one child.

    Raises:
        OSError: it was not started.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        hello = channel.receive() or {"failed": "it ended at once"}
        if "failed" in hello:
            channel.sock.close()
            raise ChildProcessError(hello["failed"])
        self.pid = int(hello["pid"])

    def kill(self) -> None:
        """Kill it, whatever it does, unless it has ended: its number may be another's by now."""
        if not self.channel.ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def run(self, handler: Handler, job: Job, task: dict[str, Any]) -> dict[str, Any]:
        """Let it run a job; give its last message, which says what came of it."""
        ends = None if handler.timeout is None else time.monotonic() + handler.timeout
        told = False
        try:
            self.channel.send(task)
            while True:
                if ends is not None and time.monotonic() >= ends:
                    raise TimeLimit(f"it ran longer than {handler.timeout:g} seconds")
                if job.cancelled and not told:
                    told = True
                    self.channel.send({"cancelled": 1})
                if not self.channel.readable(0.1):
                    continue
                message = self.channel.receive()
                if message is None:
                    raise Died("the process that ran it is gone")
                if "save" not in message:
                    return message
                self.channel.send(_save(job, message["save"]))
        except OSError as error:
            raise Died("the process that ran it is gone") from error


def _save(job: Job, changes: Any) -> dict[str, Any]:
    apply_changes(job, *changes)
    try:
        return {"saved": job.save()}
    except JobQueueError as error:
        return {"refused": packed(error)}


def _come_of(job: Job, answer: dict[str, Any]) -> Any:
    if "done" in answer:
        apply_changes(job, *answer["done"])
        # Of the image, and not as the job shows it: that would be frozen anew, or could
        # not be read, though the handler has done its work.
        return unwrap(thaw(job._images["result"])) if answer["returned"] else None
    if "refused" in answer:
        raise unpacked(answer["refused"])
    apply_changes(job, *answer["changes"])
    raise _error_of(answer)


def _error_of(answer: dict[str, Any]) -> Exception:
    kind, words = answer["error"], str(answer["text"])
    if kind == "retry":
        return Retry(words, delay=answer["delay"])
    if kind == "bury":
        return Bury(words)
    if kind == "drop":
        return Drop(words)
    if kind == "unreadable":
        return Bury(f"its data cannot be read: {words}")
    named: type[Failed] = type(answer["class"], (Failed,), {})
    return named(words, answer["line"], answer["trace"])


def _nurse(control: socket.socket, table: Table) -> None:
    # One message is one wish for a child, with the socket that it is to serve.
    parent = os.getppid()
    signal.set_wakeup_fd(-1)  # it is the parent's, who would take our signals for its own
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    children: set[int] = set()
    # The end of file does not come while another fork of a parent that is gone has the socket.
    while os.getppid() == parent:
        _reap(children)
        if not ready(1.0, control):
            continue
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            break
        for descriptor in descriptors:  # none if there was no room here: the parent sees its end
            with socket.socket(fileno=descriptor) as sock:
                try:
                    pid = os.fork()
                except OSError as error:
                    with suppress(OSError):
                        Channel(sock).send({"failed": str(error)})
                    continue
                if pid == 0:
                    control.close()
                    try:
                        serve(sock, table)
                    finally:
                        os._exit(0)
                children.add(pid)
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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
