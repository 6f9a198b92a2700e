"""What Perl was recorded to do and what Python does, in one form to be compared.

Times of the day become ``"now"``, ids ``"<id>"``, ages ``"age"``.  A plain
attribute is compared as its text or number, for Perl keeps what it was given
and Python a value of one type; data (workload, result, metadata) is compared
as it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import redis
from support.recordings import Row
from support.tagged import value_of

from recorded.meaning import text
from redis_jobqueue import (
    ArgumentError,
    DataTooLargeError,
    Job,
    JobDeletedError,
    JobQueue,
    JobQueueError,
    MaxMemoryError,
    NetworkError,
    RedisError,
)
from redis_jobqueue.storable import Blessed, ScalarRef

FROZEN = {"workload", "result", "meta_data"}
RECORDED = range(1_796_000_000, 1_797_000_000)
"""The days on which Perl was recorded, in seconds."""

_AGES = {"max_job_age", "min_job_age"}
_ID = re.compile(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", re.IGNORECASE)
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


def plain(value: Any) -> Any:
    """Give a plain scalar as it counts: a number as a float, all else as text."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, (bool, int, float)) or isinstance(value, str) and _NUMBER.fullmatch(value):
        return _moment(float(value))
    return _ID.sub("<id>", value) if isinstance(value, str) else value


def _moment(number: float) -> Any:
    return "now" if int(number) in RECORDED or abs(number - time.time()) < 100 else number


def data(value: Any) -> Any:
    """Give workload, result or metadata, with ids made alike and the types of numbers kept."""
    if isinstance(value, str):
        return _ID.sub("<id>", value)
    if isinstance(value, Mapping):
        return {data(key): data(each) for key, each in value.items()}
    if isinstance(value, list):
        return [data(each) for each in value]
    if isinstance(value, Blessed):
        return Blessed(value.class_name, data(value.value))
    if isinstance(value, ScalarRef):
        return ScalarRef(data(value.value))
    # 1, 1.0 and True are equal in Python, and are not the same data.
    return (type(value).__name__, value) if isinstance(value, (int, float)) else value


def recorded_value(tag: Row, name: str) -> Any:
    """Give a recorded value; ``name`` is the attribute or field that it stands for."""
    if tag["t"] == "job":
        shown = {each: recorded_value(value, each) for each, value in tag["attributes"].items()}
        return shown | {"modified": sorted(tag["modified"])}
    if tag["t"] == "jobqueue":
        return {each: recorded_value(value, each) for each, value in tag["attributes"].items()}
    if tag["t"] == "hash" and not _is_data(name):
        fields = {value_of(key): value for key, value in tag["v"]}
        return {each: recorded_value(value, each) for each, value in fields.items()}
    value = value_of(tag)
    if name in ("workload", "result") and isinstance(value, ScalarRef):
        value = value.value  # the reference that Perl always has there
    return shown_value(value, name)


def shown_value(value: Any, name: str) -> Any:
    """Give a value that Python returned; ``name`` as above."""
    if isinstance(value, Job):
        shown = {each: shown_value(getattr(value, each), each) for each in Job.job_attributes()}
        return shown | {"modified": sorted(map(text, value.modified_attributes()))}
    if isinstance(value, JobQueue):
        return {each: shown_value(getattr(value, each), each) for each in _SETTINGS}
    if name == "server":
        return "<server>"
    if name == "reconnect_on_error":
        return value in (True, 1, "1")
    if name in _AGES:
        assert float(value) >= 0
        return "age"
    if _is_data(name):
        return data(value)
    if isinstance(value, Mapping):
        return {each: shown_value(inner, each) for each, inner in value.items()}
    return plain(value)


def _is_data(name: str) -> bool:
    return name in FROZEN or name.startswith("metadata ")


_SETTINGS = (
    "connection_timeout", "last_errorcode", "max_datasize", "operation_timeout",
    "reconnect_on_error", "server", "timeout",
)  # fmt: skip


# How a call ended badly.


_CODE_OF = (
    (3, "Could not connect"), (3, "Not connected"), (3, "Error while reading"),
    (6, "["), (6, "Redis server authentication"), (6, "unknown answer type"),
)  # fmt: skip
_RAISED = (ArgumentError, ArgumentError, DataTooLargeError, NetworkError, MaxMemoryError,
           JobDeletedError, RedisError)  # fmt: skip
"""What is raised with each code."""

_READ_ONLY = "Cannot assign a value to a read-only accessor"
_EXACT = re.compile(r"Invalid argument \(utf8|Data is too large|\S+ job was removed")
_SAYS = re.compile(r"\b(WRONGTYPE|READONLY|NOAUTH|WRONGPASS|LOADING|CLUSTERDOWN|MAXMEMORY)\b")


def recorded_death(row: Row) -> Row:
    """Give how Perl died: what is raised here for it, the code, and words that must be the same."""
    died = row["died"]
    code = row.get("last_errorcode") or next(
        (code for code, start in _CODE_OF if died.startswith(start)), 0
    )
    if _READ_ONLY in died:
        return {"read only": True}
    return {"raised": _RAISED[code], "code": code, "words": _words(died)}


def shown_death(error: Exception) -> Row:
    """Give the same of an exception."""
    if isinstance(error, AttributeError):
        return {"read only": True}
    if not isinstance(error, JobQueueError):
        return {"python": repr(error)}
    return {"raised": type(error), "code": error.code, "words": _words(str(error))}


def _words(message: str) -> str:
    if _EXACT.match(message):
        return _ID.sub("<id>", message)
    return "".join(_SAYS.findall(message)[:1])


# What stands in Redis.


@attrs.frozen(eq=False)
class Between:
    """A time to live, in seconds, that was set before it was looked at."""

    least: float
    most: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and self.least <= other <= self.most


def time_to_live(client: redis.Redis, key: bytes, since: float) -> Any:
    """Give what a key's time to live can have been set to after a moment; -1 for none.

    The moment is one of `time.monotonic`; Redis counts whole ms.
    """
    left = client.pttl(key)
    if left < 0:
        return left
    return Between(left / 1000 - 0.001, left / 1000 + 0.001 + time.monotonic() - since)


def recorded_keys(rows: Iterable[list[Any]]) -> list[tuple[Any, ...]]:
    """Give the recorded keys: name, type, length, time to live when it was set."""
    return sorted(
        (_ID.sub("<id>", key), kind, int(length), int(ttl)) for key, kind, ttl, length in rows
    )


def shown_keys(client: redis.Redis, since: float) -> list[tuple[Any, ...]]:
    """Give the same of a server; times to live were set after the moment ``since``."""
    found = []
    for key in client.keys("*"):
        kind = client.type(key).decode()
        length = {"hash": client.hlen, "list": client.llen}.get(kind, lambda key: 0)(key)
        name = _ID.sub("<id>", key.decode("latin-1"))
        found.append((name, kind, length, time_to_live(client, key, since)))
    return sorted(found, key=lambda key: key[:3])
