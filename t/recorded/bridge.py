"""Perl's calls made in Python: the methods of the module, of Redis.pm and of the recorder.

Each method takes what Perl passes and gives what Perl would get in list
context: nothing for ``None`` where the module returns nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import redis

import redis_jobqueue
from redis_jobqueue import Job, JobQueue
from redis_jobqueue.storable import Blessed, ScalarRef, nfreeze

from recorded.meaning import Flagged, pairs, text
from recorded.syntax import Unreadable

SETTINGS = {
    "timeout", "max_datasize", "reconnect_on_error", "connection_timeout", "operation_timeout",
    "server", "last_errorcode", "last_error",
}  # fmt: skip
"""Methods of the Perl queue that are attributes here."""

_PAIRED = {"add_job": 1, "get_next_job": 0, "get_next_job_id": 0, "get_job_ids": 0}
"""Methods that take pairs, and how many arguments stand before them."""

_MANY = {"get_job_ids", "get_job_meta_fields", "modified_attributes", "job_attributes"}


def python(value: Any) -> Any:
    """Give a value of the interpreter as a caller of the package would write it."""
    if isinstance(value, str):
        if value.isascii() or isinstance(value, Flagged) or max(value) > "\xff":
            return str(value)
        return value.encode("latin-1")
    if isinstance(value, list):
        return [python(each) for each in value]
    if isinstance(value, dict):
        return {python(key): python(each) for key, each in value.items()}
    if isinstance(value, ScalarRef):
        return ScalarRef(python(value.value))
    if isinstance(value, Blessed):
        return Blessed(value.class_name, python(value.value))
    return value


class Perl:
    """The world of one program.

    Attributes:
        variables: the program's variables, ``$jq`` and ``$redis`` among them.
        functions: what the recorder had beside Perl: ``start``, ``stop``, ``raw``.
        since: when it was made, by the monotonic clock.
    """

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self.variables: dict[str, Any] = {}
        self.functions = functions
        self.since = time.monotonic()

    def function(self, name: str, given: list[Any]) -> Any:
        """Call a function or constant by its Perl name."""
        plain = name.rpartition("::")[2]
        if plain in self.functions:
            return self.functions[plain](*given)
        if plain.isupper() and hasattr(redis_jobqueue, plain):
            return getattr(redis_jobqueue, plain)
        if name == "Storable::nfreeze":
            return nfreeze(python(given[0].value)).decode("latin-1")
        if name == "*STDOUT":
            return sys.stdout
        raise Unreadable(f"the function {name}")

    def method(self, on: Any, name: str, given: list[Any]) -> list[Any]:
        """Call a method of a class, a queue, a job or a client of Redis."""
        if isinstance(on, redis.Redis):
            return _command(on, name, given)
        values = [python(value) for value in given]
        if on in _CLASSES and name == "new":
            return [_made(_CLASSES[on], values)]
        on = _CLASSES.get(on, on) if isinstance(on, str) else on
        if isinstance(on, JobQueue) and name in SETTINGS or isinstance(on, Job) and name in _ATTRS:
            for value in values:
                setattr(on, name, _fields({name: value})[name])
            return [getattr(on, name)]
        if name not in _METHODS:
            raise Unreadable(f"the method {name}")
        before = min(_PAIRED.get(name, len(values)), len(values))
        result = getattr(on, name)(*map(_fields, values[:before]), **_named(values[before:]))
        if name in _MANY or name == "get_job_data" and len(values) > 2:
            return list(result)
        if result is None and not _reads(name, values):
            return []
        if name in ("delete_job", "ping"):
            return [1 if result else _NOT[name]]
        return [result]


_CLASSES: dict[Any, Any] = {"Redis::JobQueue": JobQueue, "Redis::JobQueue::Job": Job}
_ATTRS = set(Job.job_attributes()) - {"meta_data"} | {"elapsed"}
_METHODS = {
    *_PAIRED, *_MANY, "get_job_data", "load_job", "update_job", "delete_job", "ping", "quit",
    "queue_status", "queue_length", "clear_modified", "meta_data",
}  # fmt: skip
_NOT = {"delete_job": None, "ping": 0}


def _fields(value: Any) -> Any:
    """Take the reference off a workload or result: in Python they are the data itself."""
    if not isinstance(value, dict):
        return value
    return {
        name: inner.value
        if name in ("workload", "result") and isinstance(inner, ScalarRef) else inner
        for name, inner in value.items()
    }  # fmt: skip


def _named(values: list[Any]) -> dict[str, Any]:
    if len(values) % 2:
        raise Unreadable("an odd number of arguments")
    return _fields(pairs(values))  # type: ignore[no-any-return]


def _made(kind: Callable[..., Any], values: list[Any]) -> Any:
    """Call a constructor: pairs, or one argument and pairs."""
    if len(values) % 2:
        return kind(_fields(values[0]), **_named(values[1:]))
    return kind(**_named(values))


def _reads(name: str, values: list[Any]) -> bool:
    """Tell whether None is a value that was read, and not the lack of a result."""
    if name == "meta_data":
        return values[1:] in ([], [None]) and not isinstance(values[0], dict)
    return name == "get_job_data" and len(values) > 1


def _command(client: redis.Redis, name: str, given: list[Any]) -> list[Any]:
    """Send a command by the name that Redis.pm gives it."""
    words = [word.upper() for word in name.split("_")]
    reply = client.execute_command(
        *words, *(text(value).encode("latin-1") for value in given), NEVER_DECODE=True
    )
    if name == "info":
        return [client.info()]
    if reply is True:
        return ["OK"]  # redis-py makes a bool of it
    return list(reply) if isinstance(reply, list) else [reply]
