"""Jobs at the edges: many fields, odd numbers, times that must stay as they are."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
from sizes import Size

from redis_jobqueue import (
    E_NO_ERROR,
    STATUS_COMPLETED,
    ArgumentError,
    DataTooLargeError,
    Job,
    JobQueue,
)

JOB: dict[str, Any] = {"queue": "q", "expire": 60}


@pytest.mark.parametrize("count", [1_000, 3_900, 4_000, 20_000])
def test_many_metadata_fields(jq: JobQueue, client: redis.Redis, count: int) -> None:
    """Any number of fields goes in, comes out by every call, and changes at once."""
    meta = {f"field {number}": number for number in range(count)}
    job = jq.add_job(JOB | {"meta_data": meta})
    assert count + 15 == client.hlen(f"JobQueue:{job.id}")
    loaded, taken = jq.load_job(job), jq.get_next_job("q")
    assert loaded is not None and taken is not None
    assert meta == dict(loaded.meta_data) == dict(taken.meta_data)
    assert set(meta) == set(jq.get_job_meta_fields(job))
    assert list(range(count)) == jq.get_job_data(job, *meta)
    taken.meta_data({name: -number for name, number in meta.items()})
    assert count == len(taken.meta_data)
    jq.update_job(taken)
    assert -5 == jq.get_job_data(job, "field 5")
    for name in meta:
        del taken.meta_data[name]
    jq.update_job(taken)
    assert [] == jq.get_job_meta_fields(job)
    assert 15 == client.hlen(f"JobQueue:{job.id}")


def test_large_data(jq: JobQueue, size: Size) -> None:
    """Megabytes in one field go in and out; more than max_datasize is refused, unwritten."""
    data = bytes(range(256)) * 4 * 1024 * min(size.rounds, 8)
    job = jq.add_job(JOB | {"workload": data, "meta_data": {"copy": [data, data]}})
    taken = jq.get_next_job("q")
    assert taken is not None
    assert data == taken.workload
    assert [data, data] == taken.meta_data["copy"]
    jq.max_datasize = len(data)
    for field in ("workload", "result", "meta_data"):
        value = {"copy": data} if field == "meta_data" else data
        with pytest.raises(DataTooLargeError, match="copy" if field == "meta_data" else field):
            jq.add_job(JOB | {field: value})
        assert (2, "Data is too large") == (jq.last_errorcode, jq.last_error)
    assert [job.id] == jq.get_job_ids()
    assert [] == jq.get_job_ids(queued=True)


NUMBERS: list[tuple[str, Any, bytes]] = [
    ("expire", 60, b"60"),
    ("expire", 60.0, b"60"),
    ("expire", "60", b"60"),
    ("expire", 0, b"0"),
    ("progress", 1.0, b"1"),
    ("progress", 1, b"1"),
    ("progress", 0.1 + 0.2, b"0.3"),
    ("progress", 1 / 3, b"0.333333333333333"),
    ("progress", 1e-7, b"1e-07"),
    ("started", 1700000000.123456789, b"1700000000.12346"),
    ("created", 2**31, b"2147483648"),
    ("completed", 1e9, b"1000000000"),
]


@pytest.mark.parametrize(("name", "value", "text"), NUMBERS)
def test_numbers_are_text_that_perl_takes(
    jq: JobQueue, client: redis.Redis, name: str, value: object, text: bytes
) -> None:
    """A number is written as Perl would write it, by adding and by updating."""
    job = jq.add_job(JOB | {name: value})
    assert text == client.hget(f"JobQueue:{job.id}", name)
    if name != "expire":
        other = jq.add_job(JOB)
        setattr(other, name, value)
        jq.update_job(other)
        assert text == client.hget(f"JobQueue:{other.id}", name)


BAD: list[tuple[str, Any]] = [
    ("expire", 0.5), ("expire", "60.0"), ("expire", "None"), ("expire", ""), ("expire", -1),
    ("expire", True), ("expire", float("inf")), ("expire", [60]),
    ("progress", 1 + 1e-10), ("progress", -0.1), ("progress", "None"), ("progress", None),
    ("progress", float("nan")), ("started", -1), ("created", "now"), ("completed", float("nan")),
    ("status", None), ("status", []), ("job", {}), ("message", print), ("id", "a b"),
    ("workload", print), ("result", {1, 2}), ("meta_data", [1]), ("meta_data", {"status": 1}),
    ("meta_data", {"__x": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD, ids=repr)
def test_what_does_not_fit_is_refused(
    jq: JobQueue, client: redis.Redis, name: str, value: object
) -> None:
    """A value that does not fit is refused with code 0 before anything is written."""
    with pytest.raises(ArgumentError) as caught:
        jq.add_job(JOB | {name: value})
    assert E_NO_ERROR == caught.value.code == jq.last_errorcode
    assert 0 == client.dbsize()


REFUSED: list[tuple[str, Any]] = [
    ("expire", None), ("expire", 1 << 63), ("expire", 10**16), ("queue", None), ("queue", ""),
    ("queue", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"), ("status", "\N{SNOWMAN}"),
    ("job", "\N{SNOWMAN}"), ("message", "\xff"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=repr)
def test_what_redis_or_perl_would_choke_on_is_refused(
    jq: JobQueue, client: redis.Redis, name: str, value: object
) -> None:
    """What a Job may hold and a hash may not is refused with code 1, nothing written."""
    job = Job(JOB | {name: value})
    with pytest.raises(ArgumentError) as caught:
        jq.add_job(job)
    assert 1 == caught.value.code == jq.last_errorcode
    assert ("", 0) == (job.id, client.dbsize())


def test_octets_in_plain_fields(jq: JobQueue) -> None:
    """Bytes beyond ASCII go through all plain fields, and name queues, as Perl's octets do."""
    octets = "caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode()
    job = jq.add_job(JOB | {"queue": octets, "job": octets, "status": octets, "message": octets})
    assert {"length": 1, "all_jobs": 1}.items() <= jq.queue_status(octets).items()
    assert [job.id] == jq.get_job_ids(queue=octets, status=octets)
    assert [octets] * 4 == jq.get_job_data(job, "queue", "job", "status", "message")
    taken = jq.get_next_job(octets)
    assert taken is not None
    assert (octets, octets, octets, octets) == (
        taken.queue, taken.job, taken.status, taken.message
    )  # fmt: skip


def test_loading_keeps_the_times(jq: JobQueue) -> None:
    """A finished job is loaded with the times that are stored, and they are never written back."""
    job = jq.add_job(JOB)
    job.status = "__working__"
    job.started = time.time() - 10
    job.status = STATUS_COMPLETED
    job.completed = time.time() - 5
    jq.update_job(job)
    stored = jq.get_job_data(job)
    loaded = jq.load_job(job)
    assert loaded is not None
    for name in ("created", "updated", "started", "completed", "failed"):
        assert stored[name] == getattr(loaded, name)
    assert stored["elapsed"] == loaded.elapsed == stored["completed"] - stored["started"]
    assert [] == loaded.modified_attributes()
    assert 0 == jq.update_job(loaded)
    assert stored == jq.get_job_data(job)
    loaded.message = "seen"
    assert 2 == jq.update_job(loaded)
    again = jq.get_job_data(job)
    changed = {name for name in stored if stored[name] != again[name]}
    assert {"message", "updated"} == changed
