"""Who an owner is: an id that nobody else ever has, and what is held under it."""

from __future__ import annotations

import os
import socket
import threading
import uuid
import weakref
from collections.abc import Sequence

from redis_jobqueue.address import refused
from redis_jobqueue.checks import Text
from redis_jobqueue.job import Job
from redis_jobqueue.keys import octets
from redis_jobqueue.operations.claims import held_by


class Identity:
    """An id, the tokens given out under it, and the jobs that are held under them.

    A token lives from before its request is sent until the claim gave up; then
    each job that it brought lives for as long as somebody refers to the Job.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = name.encode()
        self._lock = threading.Lock()
        self._highest = 0
        self._asking: set[int] = set()
        self._held: weakref.WeakValueDictionary[bytes, Job] = weakref.WeakValueDictionary()

    def take_token(self) -> int:
        """Give out the next token, which lives until `claimed` is told of it."""
        with self._lock:
            self._highest += 1
            self._asking.add(self._highest)
            return self._highest

    def claimed(self, token: int, jobs: Sequence[Job]) -> None:
        """Let the jobs live on, and the token die."""
        with self._lock:
            for job in jobs:
                self._held[held_by(job).field] = job
            self._asking.discard(token)

    def ended(self, field: bytes) -> None:
        """Let the claim under a field die: it was finished, or lost."""
        with self._lock:
            self._held.pop(field, None)

    def snapshot(self) -> tuple[int, list[bytes]]:
        """Give the highest token given out, and all living tokens and fields."""
        with self._lock:
            living = [b"%d" % token for token in self._asking]
            return self._highest, living + list(self._held.keys())

    def jobs(self) -> list[Job]:
        """Give the jobs that are held."""
        with self._lock:
            # What is ended right now, by another thread, has no claim any more.
            held = [(job, job._claim) for job in self._held.values()]
        held = [(job, claim) for job, claim in held if claim is not None]
        return [job for job, _ in sorted(held, key=lambda pair: int(pair[1].number))]

    def cancel(self, ids: Sequence[bytes]) -> None:
        """Tell held jobs that somebody asked them to stop."""
        if not ids:
            return
        for job in self.jobs():
            claim = job._claim
            if claim is not None and claim.job_id in ids:
                claim.cancelled = True


def new_identity(prefix: str) -> Identity:
    """Make an identity; without a prefix the id says host and process."""
    return Identity(f"{prefix or _here()}-{uuid.uuid4().hex[:8]}")


def _here() -> str:
    host = "".join(c if c.isalnum() or c in ".-" else "-" for c in socket.gethostname())
    return f"{host.encode('ascii', 'replace').decode().replace('?', '-')}-{os.getpid()}"


def prefix_of(name: Text | None) -> str:
    """Check the prefix that a caller wants for the id of an owner."""
    if name is None:
        return ""
    prefix = octets(name, "id")
    if not prefix or b":" in prefix or b" " in prefix or not prefix.isascii():
        raise refused("the id of an owner must be ASCII text without colons and spaces")
    return prefix.decode()
