"""What an operation may ask of its driver.

A reply is what Redis answers: bytes, int, None, or a list of these.  An error
is thrown into the operation as an exception of `redis_jobqueue.errors`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import attrs

T = TypeVar("T")


@attrs.frozen(slots=True)
class Script:
    """Run a script of `redis_jobqueue.lua`.

    Attributes:
        name: the name of its file without the ending.
        keys, args: its KEYS and ARGV.
        job_id: the job that it is about, for `NetworkError`.
    """

    name: str
    keys: Sequence[bytes]
    args: Sequence[bytes]
    job_id: bytes | None = None


@attrs.frozen(slots=True)
class Command:
    """Send one command."""

    args: Sequence[bytes | int]


@attrs.frozen(slots=True)
class Wait:
    """Send one command that blocks in the server for up to ``seconds``."""

    args: Sequence[bytes | int]
    seconds: float


@attrs.frozen(slots=True)
class Pipeline:
    """Send several requests in one write; the reply is the list of their replies.

    If any of them fails, all replies are read and the first error is thrown.
    """

    requests: Sequence[Script | Command]


Request = Script | Command | Wait | Pipeline
Operation = Generator[Request, Any, T]
"""An operation whose result is a ``T``."""
