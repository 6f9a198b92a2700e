"""What the methods of a queue and an owner take, checked and made into octets.

A bad one raises `ArgumentError` with code `E_MISMATCH_ARG`, unless Perl leaves
another code.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from redis_jobqueue.checks import Text
from redis_jobqueue.errors import E_NO_ERROR, ArgumentError
from redis_jobqueue.job import Job
from redis_jobqueue.keys import octets

Name = Text | int | float
"""What stands for a name or an id: a number is its decimal text."""

NAMES = (list, tuple, set, frozenset)
"""What may hold several names."""


def name_of(value: Any, what: str) -> bytes:
    """Give a name or an id, which is not empty."""
    name = octets(value, what)
    if not name:
        raise ArgumentError(f"Invalid argument ({what} is empty)")
    return name


def field_of(value: Any) -> bytes | None:
    """Give the name of a field; None for what can be no name."""
    if isinstance(value, bool) or not isinstance(value, (str, bytes, int, float)):
        return None
    return octets(value, "name of a field") or None


def id_of(job: Any) -> bytes:
    """Give the id of a Job, or an id."""
    return octets(job.id, "id") if isinstance(job, Job) else name_of(job, "id")


def queue_of(queue: Any) -> bytes:
    """Give the queue of a Job, or a queue's name."""
    return name_of(queue.queue if isinstance(queue, Job) else queue, "queue")


def names_of(value: Any, what: str) -> list[bytes]:
    """Give one name or several, each once, in their order."""
    if value is not None and not isinstance(value, (*NAMES, str, bytes, int, float)):
        raise ArgumentError(f"{what} must be a name or a list of names", code=E_NO_ERROR)
    return list(dict.fromkeys(_each(value, what)))


def filter_of(value: Any, what: str) -> set[bytes] | None:
    """Give the names that a filter lets through; None if all."""
    return None if value is None else set(_each(value, what)) or None


def _each(value: Any, what: str) -> Iterator[bytes]:
    for name in value if isinstance(value, NAMES) else [value]:
        yield name_of(name, what)


def ms_of(seconds: Any, what: str) -> int:
    """Give a number of seconds, 0 or more, in ms; what is more than 0 stays so."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        kind = type(seconds).__name__
        raise ArgumentError(f"Invalid argument ({what} must be a number of seconds, not {kind})")
    if not 0 <= seconds < 1e11:
        raise ArgumentError(f"Invalid argument ({what} must be 0 or more seconds)")
    return max(round(seconds * 1000), 1 if seconds else 0)


def count_of(value: Any, what: str, *, least: int = 1) -> int:
    """Give a whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"Invalid argument ({what} must be a whole number, {least} or more)")
    return value


def new_id() -> str:
    """Make an id: an upper-case UUID, as Perl's are."""
    return str(uuid.uuid4()).upper()
