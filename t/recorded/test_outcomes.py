"""Every recorded call of the real module has the same outcome in Python.

Rows of failing servers are in `test_scenarios`; rows whose accident is not to
be kept are in `test_fixed`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from support.recordings import Row
from support.server import Server
from support.tagged import value_of

from recorded.bridge import Perl, python
from recorded.meaning import Run, run
from recorded.rows import LISTED, NOT_APPLICABLE, ROWS, is_contract, made, recorded, world_of
from recorded.syntax import Unreadable, parse
from redis_jobqueue import JobQueueError
from redis_jobqueue.errors import ERROR

CALLS = [row for row in ROWS if row["group"] != "scenario" and is_contract(row)]
ALONE = [
    row
    for row in CALLS
    if row["group"].startswith(("Job.", "constants")) and "$jq" not in row["setup"] + row["call"]
]
"""Calls of a job that no server has a part in."""
NAMED = {row["name"]: row for row in ROWS}
REASONS = ["no such type in Python", "odd arguments", "private", "differs by design"]
RECORDED_PORT = 7811
_OBJECT = re.compile(r"sub \{|STDOUT|->new\(id|[^\w;]\$(job|jq|redis)\b")
"""Arguments that are no data."""


@pytest.fixture
def client(_shared_server: Server) -> Iterator[redis.Redis]:
    """Return a client of an empty server.

    A full reset between two rows would take longer than all their calls.
    """
    with _shared_server.client() as found:
        found.flushall()
        found.config_set("maxmemory", 0)
        yield found


def outcome(row: Row, client: redis.Redis, server: Server) -> Row:
    """Set a row up, make its call, and give what came of it."""
    world = world_of(server.port, client)
    try:
        run(row["setup"], world)
        return made(row, world, client)
    finally:
        world.variables["$jq"].quit()


def _named(rows: list[Row]) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in rows]


@pytest.mark.parametrize("row", _named([row for row in ALONE if row["name"] not in LISTED]))
def test_row_of_a_job(row: Row) -> None:
    """What a call of a job returns, raises and leaves in it is what was recorded."""
    world = Perl()
    run(row["setup"], world)
    assert recorded(row) == made(row, world)


@pytest.mark.parametrize(
    "row", _named([row for row in CALLS if row["name"] not in LISTED and row not in ALONE])
)
def test_row(row: Row, client: redis.Redis, _shared_server: Server) -> None:
    """What a row that applies returns, raises and leaves is what was recorded."""
    assert recorded(row) == outcome(row, client, _shared_server)


@pytest.mark.parametrize("row", _named([row for row in CALLS if row["name"] in LISTED]))
def test_listed_row(row: Row, client: redis.Redis, _shared_server: Server) -> None:
    """A row that is listed as one that cannot apply does not pass."""
    try:
        actual = outcome(row, client, _shared_server)
    except (JobQueueError, Unreadable):
        return  # not even its setup can be made
    assert recorded(row) != actual


def test_list() -> None:
    """Each listed name is a row's, stands there once, for one of the four reasons."""
    assert [] == [name for name in LISTED if name not in NAMED or not is_contract(NAMED[name])]
    for recording in ("outcomes", "hashes"):
        reasons = NOT_APPLICABLE[recording]
        assert REASONS == list(reasons)
        counts = Counter(name for names in reasons.values() for name in names)
        assert {1} == set(counts.values())


def test_names_are_unique() -> None:
    """A row is known by its name."""
    assert len(ROWS) == len(NAMED)


def test_reading_of_perl() -> None:
    """The arguments that a call is read to have are those that Perl recorded."""
    world = Perl()
    world.variables |= {"$port": RECORDED_PORT, "$s": "abc"}
    read = 0
    for row in ROWS:
        if "args" in row and not _OBJECT.search(row["call"]):
            call = parse(row["call"])[1][-1]
            given = [python(value) for value in Run(world).many(call[3])]
            assert [value_of(tag) for tag in row["args"]] == given, row["name"]
            read += 1
    assert read > 900


def test_texts_of_errors() -> None:
    """`last_error` has Perl's text for each of Perl's codes."""
    rows = [row for row in ROWS if row["name"].startswith("last_error of code")]
    texts = {row["last_errorcode"]: row["last_error"] for row in rows if row["last_error"]}
    assert texts == {code: ERROR[code] for code in texts}
    assert [0, 1, 2, 3, 4, 6] == sorted(texts)
