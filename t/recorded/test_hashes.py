"""Every recorded state of Redis reads as Perl read it, and comes of the same calls in Python."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from support.recordings import Row, rows
from support.server import Server
from support.tagged import same, value_of

from recorded.compare import recorded_value, shown_value
from recorded.meaning import run
from recorded.rows import listed, world_of
from recorded.states import ENTRY, PLAIN, TIMES, State, image_difference
from recorded.syntax import Unreadable
from redis_jobqueue import Job, JobQueue, JobQueueError, ScalarRef
from redis_jobqueue.metadata import FIELDS

HASHES = {row["name"]: row for row in rows("hashes")}
LISTED = listed("hashes")


@pytest.fixture
def client(_shared_server: Server) -> Iterator[redis.Redis]:
    """Return a client of an empty server."""
    with _shared_server.client() as found:
        found.flushall()
        yield found


@pytest.fixture
def jq(_shared_server: Server) -> Iterator[JobQueue]:
    """Return a queue on that server."""
    with JobQueue(f"127.0.0.1:{_shared_server.port}") as found:
        yield found


@pytest.fixture(params=HASHES)
def state(request: pytest.FixtureRequest, client: redis.Redis) -> State:
    """Return a recorded state, which the server now holds."""
    found = State.recorded(HASHES[request.param])
    found.load(client)
    return found


@pytest.mark.parametrize("name", HASHES)
def test_reads(name: str, client: redis.Redis, _shared_server: Server) -> None:
    """Each call that Perl made on the state gives in Python what it gave there."""
    row = HASHES[name]
    state = State.recorded(row)
    state.load(client)
    world = world_of(_shared_server.port, client)
    with world.variables["$jq"] as jq:
        for read in row["reads"]:
            values = run("$jq->" + read["call"], world)
            method = read["call"].partition("(")[0]
            assert read["last_errorcode"] == jq.last_errorcode
            if method == "get_job_data" and "', '" in read["call"]:
                for tag, value in zip(read["returned"], values, strict=True):
                    assert same(value_of(tag), value) is None
            elif method in _CHECK:
                for tag, value in zip(read["returned"], values, strict=True):
                    _CHECK[method](tag, value, state)
            elif read["call"] == "get_job_ids(queued => 1)":
                # Perl takes what follows the last colon for the queue, and misses some.
                waiting = {entry.split()[0] for each in state.queues.values() for entry in each}
                assert sorted(job_id.decode() for job_id in waiting) == sorted(values)
            else:  # ids, names of fields, a length
                expected = [value_of(tag) for tag in read["returned"]]
                assert sorted(expected, key=repr) == sorted(map(_text, values), key=repr)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


def _check_data(tag: Row, data: dict[str, Any], state: State) -> None:
    expected = {value_of(key): value for key, value in tag["v"]}
    assert sorted(expected) == sorted(data)
    running = data["started"] and not data["completed"] and not data["failed"]
    for field, value in expected.items():
        if field == "elapsed" and running:
            assert data[field] > 0
        elif field in ("workload", "result"):
            assert same(_data(value), data[field]) is None
        elif isinstance(data[field], float):
            assert float(value_of(value)) == data[field]
        else:
            assert value_of(value) == _text(data[field])


def _check_job(tag: Row, job: Job, state: State) -> None:
    assert [] == tag["modified"] == job.modified_attributes()
    fields = state.jobs[str(job.id).encode()]
    for name, value in tag["attributes"].items():
        if name.encode() in TIMES:  # Perl sets some of them anew
            assert float(fields[name.encode()]) == getattr(job, name)
        elif name in ("workload", "result", "meta_data"):
            given = getattr(job, name)
            given = dict(given) if name == "meta_data" else given
            assert same(_data(value), given) is None
        else:
            assert recorded_value(value, name) == shown_value(getattr(job, name), name)


def _check_status(tag: Row, status: dict[str, float], state: State) -> None:
    expected = {value_of(key): value_of(value) for key, value in tag["v"]}
    assert sorted(expected) == sorted(status)
    for name, value in status.items():
        if name in ("max_job_age", "min_job_age"):
            assert isinstance(value, float)
        else:
            assert float(expected[name]) == float(f"{value:.14g}")


_CHECK = {"get_job_data": _check_data, "load_job": _check_job, "queue_status": _check_status}


def _data(tag: Row) -> Any:
    """Give workload or result without the reference that it always has in Perl."""
    value = value_of(tag)
    return value.value if isinstance(value, ScalarRef) else value


@pytest.mark.parametrize("name", [name for name in HASHES if name not in LISTED])
def test_calls(name: str, client: redis.Redis, _shared_server: Server) -> None:
    """The same calls return the same and leave the same keys, entries, fields and images."""
    assert [] == _differences(HASHES[name], client, _shared_server)


@pytest.mark.parametrize("name", sorted(LISTED))
def test_listed_calls(name: str, client: redis.Redis, _shared_server: Server) -> None:
    """Calls that are listed as such that cannot apply do not leave the same."""
    try:
        assert [] != _differences(HASHES[name], client, _shared_server)
    except (JobQueueError, Unreadable):
        pass


def _differences(row: Row, client: redis.Redis, server: Server) -> list[Any]:
    world = world_of(server.port, client)
    with world.variables["$jq"] as jq:
        since = time.time()
        returned = [shown_value(value, "") for value in run(row["perl"], world)]
        code = jq.last_errorcode
    expected, found = State.recorded(row), State.found(client, since)
    pairs = [
        ([recorded_value(tag, "") for tag in row["returned"]], returned),
        (row["last_errorcode"], code),
        (expected.plainly(), found.plainly()),
    ]
    differing: list[Any] = [pair for pair in pairs if pair[0] != pair[1]]
    for theirs, ours in zip(expected.in_order(), found.in_order()):
        for field, image in expected.jobs[theirs].items():
            if field not in PLAIN:
                written = found.jobs[ours].get(field, b"")
                differing += filter(None, [image_difference(image, written)])
    return differing


def test_metadata_is_never_lost(state: State, jq: JobQueue) -> None:
    """Every field that is no standard one and not the entry is metadata, and is there."""
    for job_id, fields in state.jobs.items():
        names = set(fields) - {field.encode() for field in FIELDS} - {ENTRY, b"meta_data"}
        loaded = jq.load_job(job_id)
        assert loaded is not None
        assert {name.decode() for name in names} == set(loaded.meta_data)
        assert set(loaded.meta_data) == set(jq.get_job_meta_fields(job_id))
        for name, value in loaded.meta_data.items():
            assert same(value, jq.get_job_data(job_id, name)) is None


@pytest.mark.parametrize("look", [False, True], ids=["unread", "read"])
def test_update_leaves_other_fields(
    look: bool, state: State, jq: JobQueue, client: redis.Redis
) -> None:
    """Updating one attribute writes that and ``updated``: all other bytes stay.

    So it is for a job whose data was read, too.
    """
    for job_id, fields in state.jobs.items():
        job = jq.load_job(job_id)
        assert job is not None
        if look:
            assert job.workload is job.workload and job.result is job.result
            assert list(job.meta_data) == [name for name, _ in job.meta_data.items()]
        job.progress = 0.25
        assert 2 == jq.update_job(job)
        after = client.hgetall(b"JobQueue:" + job_id)
        written = {b"progress": b"0.25", b"updated": after[b"updated"]}
        assert fields | written == after
