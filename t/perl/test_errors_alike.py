"""The same mistake leaves the same error state, and raises or does not, on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from support.server import Server

from perl.forms import Given
from perl.peer import PATIENT, PerlPeer, PerlQueue
from perl.sides import Outcome, PerlSide, PythonSide, Side
from redis_jobqueue import (
    E_DATA_TOO_LARGE,
    E_JOB_DELETED,
    E_MAX_MEMORY_LIMIT,
    E_MISMATCH_ARG,
    E_NETWORK,
    E_NO_ERROR,
    E_REDIS,
    JobQueue,
)

GOOD = {"queue": "q", "expire": 600}
METHODS = {
    "add_job": (GOOD,),
    "load_job": ("id",),
    "get_job_data": ("id",),
    "get_job_data of a field": ("id", "status"),
    "get_job_meta_fields": ("id",),
    "delete_job": ("id",),
    "get_job_ids": (),
    "queue_status": ("q",),
    "queue_length": ("q",),
}
"""A good call of each method; what stands behind the first space only tells them apart."""


def call(side: Side, name: str, *args: Any, **options: Any) -> Outcome:
    """Make a call of the tables below."""
    return side.attempt(name.partition(" ")[0], *args, **options)


def good_calls(side: Side) -> dict[str, Outcome]:
    """Make each good call, get_next_job and an update of a job that was taken before."""
    outcomes = {name: call(side, name, *args) for name, args in METHODS.items()}
    for name in ("get_next_job", "get_next_job_id"):
        outcomes[name] = side.attempt(name, queue="q")
        outcomes[f"{name} blocking"] = side.attempt(name, queue=["q", "r"], blocking=1)
    return outcomes


Mistake = tuple[int, str, tuple[Any, ...], dict[str, Any]]  # code, method, arguments, options


def _mistakes() -> Iterator[tuple[str, Mistake]]:
    """Mistakes in arguments: code, method, positional and named arguments."""

    def mistake(code: int, method: str, *args: Any, **options: Any) -> tuple[str, Mistake]:
        words = [*map(repr, args), *(f"{name}={value!r}" for name, value in options.items())]
        return f"{method}({', '.join(words)})", (code, method, args, options)

    jobs: list[Any] = [5, "", "text", [], None]
    for job in jobs:
        yield mistake(E_MISMATCH_ARG, "add_job", job)
    yield mistake(E_MISMATCH_ARG, "add_job")
    for name in ("queue", "job", "status", "message"):
        yield mistake(E_MISMATCH_ARG, "add_job", {**GOOD, name: "\u20ac"})
    incomplete: list[dict[str, Any]] = [{}, {"queue": "q"}, {"expire": 5}]
    for attributes in incomplete:
        yield mistake(E_NO_ERROR, "add_job", attributes)
    unfit: list[tuple[str, Any]] = [
        ("id", "with space"),
        ("id", []),
        ("queue", []),
        ("queue", {}),
        ("job", []),
        ("status", []),
        ("status", None),
        ("message", {}),
        ("expire", -1),
        ("expire", "abc"),
        ("expire", 0.5),
        ("expire", ""),
        ("expire", []),
        ("progress", 2),
        ("progress", -0.5),
        ("progress", "half"),
        ("progress", None),
        ("created", -1),
        ("updated", "now"),
        ("started", []),
        ("completed", None),
        ("failed", "x"),
        ("meta_data", []),
        ("meta_data", "text"),
    ]
    for name, value in unfit:
        yield mistake(E_NO_ERROR, "add_job", {**GOOD, name: value})
    no_names: list[Any] = ["", None, [], {}]
    for method in ("load_job", "get_job_data", "get_job_meta_fields", "delete_job"):
        for job_id in no_names:
            yield mistake(E_MISMATCH_ARG, method, job_id)
        yield mistake(E_MISMATCH_ARG, method)
        yield mistake(E_NO_ERROR, method, "no such job")
    for no_job in (*no_names, "id", 5):
        yield mistake(E_MISMATCH_ARG, "update_job", no_job)
    for method in ("queue_status", "queue_length"):
        for queue in no_names:
            yield mistake(E_MISMATCH_ARG, method, queue)
        yield mistake(E_NO_ERROR, method, "no such queue")
    no_queues: list[Any] = ["", [""], ["q", ""], ["q", None], [[]]]
    for method in ("get_next_job", "get_next_job_id"):
        for queues in no_queues:
            yield mistake(E_MISMATCH_ARG, method, queue=queues)
            yield mistake(E_MISMATCH_ARG, method, queue=queues, blocking=1)
        yield mistake(E_NO_ERROR, method, queue={})
        yield mistake(E_NO_ERROR, method)
        yield mistake(E_NO_ERROR, method, blocking=1)
        yield mistake(E_NO_ERROR, method, queue=[])
        yield mistake(E_NO_ERROR, method, queue="empty")


MISTAKES = dict(_mistakes())


@pytest.fixture
def sides(perl: PerlQueue, jq: JobQueue) -> list[Side]:
    """Return both sides on one server."""
    return [PerlSide(perl), PythonSide(jq)]


@pytest.mark.parametrize("name", MISTAKES)
def test_arguments(name: str, sides: list[Side], raw: redis.Redis) -> None:
    """A bad argument raises with Perl's code; what is only not there does not raise."""
    code, method, args, options = MISTAKES[name]
    theirs, ours = (side.attempt(method, *args, **options) for side in sides)
    assert theirs == ours
    assert code == ours.code
    assert [] == raw.keys()


def both(sides: list[Side], raw: redis.Redis, run: Callable[[Side], Any]) -> Any:
    """Run the same on both sides, each on an empty server; what both saw."""
    seen = []
    for side in sides:
        raw.flushdb()
        seen.append(run(side))
    assert seen[0] == seen[1]
    return seen[1]


def test_too_large(peer: PerlPeer, jq: JobQueue, server: Server, raw: redis.Redis) -> None:
    """An image over max_datasize is refused with code 2, and nothing is written."""
    sides: list[Side] = [
        PerlSide(peer.queue(f"127.0.0.1:{server.port}", max_datasize=50, **PATIENT)),
        PythonSide(JobQueue(jq, max_datasize=50)),
    ]
    long = "x" * 51
    too_large: list[dict[str, Any]] = [
        {"workload": long},
        {"result": [long]},
        {"meta_data": {"m": long}},
    ]
    for attributes in too_large:
        seen = both(sides, raw, lambda side: side.attempt("add_job", {**GOOD, **attributes}))
        assert Outcome(True, E_DATA_TOO_LARGE, "Data is too large") == seen
        assert [] == raw.keys()

    def update(side: Side) -> Any:
        job = side.add(GOOD)
        side.change(job, "result", "x" * 51)
        seen = side.attempt("update_job", job)
        return seen, raw.hget(f"JobQueue:{side.id(job)}", "result")

    seen, stored = both(sides, raw, update)
    assert (E_DATA_TOO_LARGE, b"\x05\x0b\x04\n\x00") == (seen.code, stored)


def test_job_is_gone(sides: list[Side], raw: redis.Redis) -> None:
    """An entry whose job was deleted raises with code 5, and is consumed."""
    for method in ("get_next_job", "get_next_job_id"):
        for options in ({}, {"blocking": 1}):
            for entry in ("gone", "gone 9999999999"):

                def run(side: Side) -> Any:
                    raw.rpush("JobQueue:queue:q", entry, "next")
                    return side.attempt(method, queue="q", **options), raw.lrange(
                        "JobQueue:queue:q", 0, -1
                    )

                seen, left = both(sides, raw, run)
                assert Outcome(True, E_JOB_DELETED, "job was removed prior to use") == seen
                assert [b"next"] == left


def test_a_success_resets_the_code(sides: list[Side], raw: redis.Redis) -> None:
    """After an error the next good call leaves 0 again."""

    def run(side: Side) -> Any:
        bad = side.attempt("load_job", "")
        return bad.code, side.attempt("queue_length", "q").code

    assert (E_MISMATCH_ARG, E_NO_ERROR) == both(sides, raw, run)


def test_wrong_type_of_a_job(sides: list[Side], raw: redis.Redis) -> None:
    """Where a list has the key of a job, every way to it raises with code 6."""
    for name in ("load_job", "get_job_data", "get_job_data of a field", "get_job_meta_fields"):

        def run(side: Side) -> Outcome:
            raw.rpush("JobQueue:id", "x")
            return call(side, name, *METHODS[name])

        assert Outcome(True, E_REDIS, "Redis error") == both(sides, raw, run), name

    def update(side: Side) -> Outcome:
        job = side.add(GOOD)
        side.change(job, "message", "m")
        raw.delete(f"JobQueue:{side.id(job)}")
        raw.rpush(f"JobQueue:{side.id(job)}", "x")
        return side.attempt("update_job", job)

    assert E_REDIS == both(sides, raw, update).code


def test_wrong_type_of_a_queue(sides: list[Side], raw: redis.Redis) -> None:
    """Where a string has the key of a queue, every use of it raises with code 6."""
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "queue_length": (("q",), {}),
        "queue_status": (("q",), {}),
        "get_next_job": ((), {"queue": "q"}),
        "get_next_job_id": ((), {"queue": "q"}),
        "get_next_job blocking": ((), {"queue": "q", "blocking": 1}),
        "get_job_ids": ((), {"queue": "q", "queued": 1}),
    }
    for name, (args, options) in calls.items():

        def run(side: Side) -> Outcome:
            raw.set("JobQueue:queue:q", "x")
            return call(side, name, *args, **options)

        assert Outcome(True, E_REDIS, "Redis error") == both(sides, raw, run), name


def test_a_full_server(sides: list[Side], raw: redis.Redis) -> None:
    """At maxmemory a write raises with code 4, and reading works."""
    jobs = [side.add({**GOOD, "queue": f"q{number}"}) for number, side in enumerate(sides)]
    raw.config_set("maxmemory", 1)
    for side, job in zip(sides, jobs):
        side.change(job, "message", "m")
        added = side.attempt("add_job", GOOD)
        updated = side.attempt("update_job", job)
        expected = Outcome(True, E_MAX_MEMORY_LIMIT, added.error)
        assert [expected, expected] == [added, updated]
        assert added.error.startswith("Command not allowed when used memory > 'maxmemory'")
    raw.config_set("maxmemory", 0)


def test_a_read_only_server(peer: PerlPeer, own_server: Server) -> None:
    """A replica refuses to write with code 6 and lets read."""
    sides: list[Side] = [
        PerlSide(peer.queue(f"127.0.0.1:{own_server.port}", **PATIENT)),
        PythonSide(JobQueue(f"127.0.0.1:{own_server.port}")),
    ]
    jobs = [side.add(GOOD) for side in sides]
    with own_server.client() as client:
        client.replicaof("127.0.0.1", 1)
    for side, job in zip(sides, jobs):
        side.change(job, "message", "m")
    theirs, ours = (
        {
            "add": side.attempt("add_job", GOOD),
            "update": side.attempt("update_job", job),
            "take": side.attempt("get_next_job", queue="q"),
            "load": side.attempt("load_job", side.id(job)),
        }
        for side, job in zip(sides, jobs)
    )
    assert theirs == ours
    assert [E_REDIS, E_REDIS, E_REDIS, E_NO_ERROR] == [seen.code for seen in ours.values()]


def test_no_server(peer: PerlPeer, own_server: Server) -> None:
    """Once the server is gone every call raises with code 3, and ping says no without raising."""
    address = f"127.0.0.1:{own_server.port}"
    sides: list[Side] = [
        PerlSide(peer.queue(address, **PATIENT)),
        PythonSide(JobQueue(address, reconnect_on_error=False)),
    ]
    own_server.kill()
    theirs, ours = (good_calls(side) for side in sides)
    assert theirs == ours
    expected = Outcome(True, E_NETWORK, "Error in connection to Redis server")
    assert {name: expected for name in ours} == ours
    assert [False, False] == [side.attempt("ping").raised for side in sides]


def test_undef_and_code_are_no_workload(sides: list[Side], peer: PerlPeer) -> None:
    """What Perl has no form for is refused as a type error: code 0, nothing sent."""
    perl, python = sides
    assert 0 == perl.attempt("add_job", {**GOOD, "workload": Given({"t": "undef"})}).code
    assert 0 == python.attempt("add_job", {**GOOD, "workload": {1, 2}}).code
