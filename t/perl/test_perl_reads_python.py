"""What Python writes, the real module reads: every value, field and key."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from hypothesis import given
from support import strategies
from support.samples import FROM_PYTHON
from support.tagged import same, value_of

from perl.forms import Form, octets, perl_form
from perl.peer import PerlQueue
from redis_jobqueue import STATUS_COMPLETED, STATUS_WORKING, Blessed, Job, JobQueue, ScalarRef


def referenced(value: Any) -> Form:
    """The form of a workload: what is no list, hash or object is behind one reference more."""
    whole = isinstance(value, (list, tuple, dict, Blessed))
    return perl_form(value if whole else ScalarRef(value))


def as_metadata(value: Any) -> Form:
    """The form of a metadata field: the module has the empty string for undef."""
    return perl_form("" if value is None else value)


@pytest.mark.parametrize("name", FROM_PYTHON)
def test_values_of_add_job(name: str, jq: JobQueue, perl: PerlQueue) -> None:
    """Workload, result and metadata of add_job reach Perl by every way of reading."""
    value = FROM_PYTHON[name]
    job = jq.add_job(
        {
            "queue": "q",
            "expire": 600,
            "workload": value,
            "result": value,
            "meta_data": {"note": value},
        }
    )
    loaded = perl.load_job(job.id)
    assert loaded is not None
    assert referenced(value) == loaded.attributes["workload"]
    assert referenced(value) == loaded.attributes["result"]
    assert {"note": as_metadata(value)} == loaded.meta_data
    assert [referenced(value), as_metadata(value)] == perl.get_job_data(job.id, "workload", "note")
    taken = perl.get_next_job(queue="q")
    assert taken is not None
    assert (job.id, referenced(value)) == (taken.id, taken.attributes["workload"])


@pytest.mark.parametrize("name", FROM_PYTHON)
def test_values_of_update_job(name: str, jq: JobQueue, perl: PerlQueue) -> None:
    """Result and metadata that update_job writes over others reach Perl."""
    value = FROM_PYTHON[name]
    job = jq.add_job({"queue": "q", "expire": 600, "result": "old", "meta_data": {"note": "old"}})
    job.result = value
    job.meta_data["note"] = value
    jq.update_job(job)
    assert [referenced(value), as_metadata(value)] == perl.get_job_data(job.id, "result", "note")


@given(value=strategies.values)
def test_any_value(value: Any, jq: JobQueue, perl: PerlQueue) -> None:
    """Whatever can be frozen reaches Perl as its own data."""
    job = jq.add_job({"queue": "q", "expire": 600, "workload": value, "meta_data": {"m": value}})
    assert [referenced(value), as_metadata(value)] == perl.get_job_data(job.id, "workload", "m")
    jq.delete_job(job)


def no_reference_to_undef(value: Any) -> bool:
    r"""Perl's ``\undef`` leads to the one undef there is: nothing in it to be shared."""
    return not any(isinstance(part, ScalarRef) and part.value is None for part in value)


@given(value=strategies.shared_values().filter(no_reference_to_undef))
def test_any_sharing(value: Any, jq: JobQueue, perl: PerlQueue) -> None:
    """Parts that are reached more than once, or from inside themselves, are so in Perl."""
    job = jq.add_job({"queue": "q", "expire": 600, "workload": value})
    [form] = perl.get_job_data(job.id, "workload")
    assert same(strategies.as_perl_has_it(value), value_of(form)) is None
    jq.delete_job(job)


def test_plain_fields(jq: JobQueue, perl: PerlQueue) -> None:
    """The plain fields are the same text in Perl, numbers with 15 digits."""
    attributes: dict[str, Any] = {
        "queue": b"caf\xe9",
        "job": "strong_job",
        "expire": 600,
        "status": "waiting for lunch",
        "message": b"\xe9t\xe9",
        "progress": 1 / 3,
        "created": 1700000000.123456,
        "started": 2.5,
        "completed": 9999999999999999,
        "failed": 0,
    }
    job = jq.add_job(attributes)
    job_id = str(job.id)
    [form] = perl.get_job_data(job.id)
    data = {key["b64"]: value for key, value in form["v"]}
    expected = {
        "queue": b"caf\xe9",
        "job": b"strong_job",
        "expire": b"600",
        "status": b"waiting for lunch",
        "message": b"\xe9t\xe9",
        "progress": b"0.333333333333333",
        "created": b"1700000000.12346",
        "started": b"2.5",
        "completed": b"9999999999999999",
        "failed": b"0",
        "id": job_id.encode(),
    }
    assert {name: octets(value) for name, value in expected.items()} == {
        name: data[octets(name.encode())["b64"]] for name in expected
    }


def test_a_job_of_defaults(jq: JobQueue, perl: PerlQueue) -> None:
    """A job that says only queue and expire has Perl's defaults for the rest."""
    ours = perl.load_job(jq.add_job({"queue": "q", "expire": 0}).id)
    theirs = perl.load_job(perl.add_job({"queue": "q", "expire": 0}))
    assert ours is not None and theirs is not None
    varies = {"id", "created", "updated"}
    assert {k: v for k, v in theirs.attributes.items() if k not in varies} == {
        k: v for k, v in ours.attributes.items() if k not in varies
    }
    assert ours.attributes.keys() == theirs.attributes.keys()


def test_perl_updates_a_job_of_python(jq: JobQueue, perl: PerlQueue) -> None:
    """Perl takes a job of Python, marks it, answers it; Python reads the answer."""
    job = jq.add_job({"queue": "q", "expire": 600, "workload": {"n": 1}, "meta_data": {"a": 1.5}})
    theirs = perl.get_next_job(queue="q")
    assert theirs is not None
    theirs.set("status", STATUS_WORKING)
    assert 3 == perl.update_job(theirs)
    theirs.set("result", ["answer", {"k": "\u20ac"}]).set("meta_data", "b", [2])
    theirs.set("status", STATUS_COMPLETED).set("message", "done")
    assert 6 == perl.update_job(theirs)
    loaded = jq.load_job(job)
    assert loaded is not None
    assert ["answer", {"k": "\u20ac"}] == loaded.result
    assert {"a": 1.5, "b": [2]} == dict(loaded.meta_data)
    assert (STATUS_COMPLETED, "done", {"n": 1}) == (loaded.status, loaded.message, loaded.workload)
    assert 0 < loaded.started <= loaded.completed <= loaded.updated


def test_perl_deletes_jobs_of_python(jq: JobQueue, perl: PerlQueue, raw: redis.Redis) -> None:
    """Perl's delete_job leaves nothing of a job of Python, waiting or taken."""
    waiting = jq.add_job({"queue": "q", "expire": 600})
    endless = jq.add_job({"queue": "q", "expire": 0})
    taken = jq.add_job({"queue": "q", "expire": 600}, LPUSH=True)
    assert taken.id == jq.get_next_job_id(queue="q")
    for job in (waiting, taken, endless):
        assert perl.delete_job(job.id) is True
        assert perl.delete_job(job.id) is False
    assert [] == raw.keys()


def test_perl_surveys_jobs_of_python(jq: JobQueue, perl: PerlQueue) -> None:
    """get_job_ids, queue_status, queue_length and get_job_meta_fields count jobs of Python."""
    jobs = [
        jq.add_job(
            {"queue": queue, "expire": 600, "status": status, "meta_data": {"m1": 1, "m2": None}}
        )
        for queue, status in (("a", "s1"), ("a", "s2"), ("b:c", "s1"), ("b:c", "s3"))
    ]
    ids = [job.id for job in jobs]
    assert ids[0] == jq.get_next_job_id(queue="a")
    assert set(ids) == perl.get_job_ids()
    assert set(ids[:2]) == perl.get_job_ids(queue="a")
    assert {ids[0], ids[2]} == perl.get_job_ids(status="s1")
    assert set(ids[1:]) == perl.get_job_ids(status=["s2", "s3", "s1"], queued=1, queue=["a", "b:c"])
    assert {ids[1]} == perl.get_job_ids(queued=1, queue="a")
    assert (1, 2) == (perl.queue_length("a"), perl.queue_length("b:c"))
    status = perl.queue_status("a")
    assert ("1", "2", "0") == (status["length"], status["all_jobs"], status["lifetime"])
    assert float(status["max_job_age"]) >= 0 <= float(status["min_job_age"])
    assert {"m1", "m2"} == perl.get_job_meta_fields(ids[3])


def test_perl_takes_in_the_order_of_python(jq: JobQueue, perl: PerlQueue) -> None:
    """Perl takes what Python put in front first, then the others in their order."""
    ids = [jq.add_job({"queue": "q", "expire": 600}).id for _ in range(3)]
    front = jq.add_job({"queue": "q", "expire": 0}, LPUSH=True).id
    assert [front, *ids] == [perl.get_next_job_id(queue="q") for _ in range(4)]
    assert perl.get_next_job(queue="q") is None


def test_a_blocking_perl_gets_a_job_of_python(jq: JobQueue, perl: PerlQueue) -> None:
    """A blocking get_next_job of Perl over several queues finds the job of Python."""
    job = jq.add_job(Job(queue="b", expire=600, workload=["w"]))
    taken = perl.get_next_job(queue=["a", "b", "c"], blocking=1)
    assert taken is not None and job.id == taken.id
