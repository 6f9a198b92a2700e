"""What the real module writes, Python reads: every value, field and key."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from hypothesis import given
from support import strategies
from support.samples import FROM_PERL, FROM_PYTHON

from perl.forms import Form, Given, given_form, perl_form
from perl.peer import PerlQueue
from redis_jobqueue import STATUS_COMPLETED, STATUS_WORKING, JobQueue, ScalarRef


def unreferenced(value: Any) -> Any:
    """The data of a workload: the one reference that Perl always has is off."""
    return value.value if isinstance(value, ScalarRef) else value


def as_metadata(value: Any) -> Any:
    """What the module keeps of undef in the metadata is the empty string."""
    return "" if value is None else value


@pytest.mark.parametrize("name", FROM_PERL)
def test_values_of_add_job(name: str, jq: JobQueue, perl: PerlQueue) -> None:
    """Workload, result and metadata of Perl's add_job reach Python by every way of reading."""
    form, expected = FROM_PERL[name]
    metadata = {"note": Given(form)}
    if form["t"] == "undef":
        form = {"t": "ref", "v": form}  # as it is, it is refused as a workload
    job = perl.add_job(
        {
            "queue": "q",
            "expire": 600,
            "workload": Given(form),
            "result": Given(form),
            "meta_data": metadata,
        }
    )
    data = unreferenced(expected)
    expected = as_metadata(expected)
    loaded = jq.load_job(job.id)
    assert loaded is not None
    assert (data, data) == (loaded.workload, loaded.result)
    assert {"note": expected} == dict(loaded.meta_data)
    assert [data, expected] == jq.get_job_data(job.id, "workload", "note")
    assert isinstance(loaded.workload, type(data))
    taken = jq.get_next_job(queue="q")
    assert taken is not None
    assert (job.id, data) == (taken.id, taken.workload)


@pytest.mark.parametrize("name", FROM_PERL)
def test_values_of_update_job(name: str, jq: JobQueue, perl: PerlQueue) -> None:
    """Metadata that Perl's update_job writes over what Python wrote reaches Python."""
    form, expected = FROM_PERL[name]
    added = jq.add_job({"queue": "q", "expire": 600, "meta_data": {"note": 1.5}})
    theirs = perl.load_job(added.id)
    assert theirs is not None
    theirs.set("meta_data", {"note": Given(form)})
    perl.update_job(theirs)
    assert as_metadata(expected) == jq.get_job_data(added.id, "note")


@pytest.mark.parametrize("name", FROM_PYTHON)
def test_shapes(name: str, jq: JobQueue, perl: PerlQueue) -> None:
    """Every shape, shared and cyclic ones too, is the same in Python as it is in Perl."""
    check_shape(FROM_PYTHON[name], jq, perl)


@given(value=strategies.values)
def test_any_shape(value: Any, jq: JobQueue, perl: PerlQueue) -> None:
    """Whatever data Perl freezes, Python reads with the same shape."""
    check_shape(value, jq, perl)


def check_shape(value: Any, jq: JobQueue, perl: PerlQueue) -> None:
    """Hold what Python reads against what Perl reads of one field that Perl wrote."""
    job = perl.add_job({"queue": "q", "expire": 600, "meta_data": {"m": value}})
    [in_perl] = perl.get_job_data(job.id, "m")
    assert plain_text(in_perl) == plain_text(perl_form(jq.get_job_data(job.id, "m")))
    jq.delete_job(job.id)


def plain_text(form: Form) -> Form:
    """ASCII text without the flag: Python cannot tell it from octets."""
    if form["t"] == "text" and str(form.get("v", "\xff")).isascii():
        return given_form(form["v"])
    return {
        name: [plain_text_of(each) for each in part] if isinstance(part, list)
        else plain_text(part) if isinstance(part, dict) else part
        for name, part in form.items()
    }  # fmt: skip


def plain_text_of(part: Any) -> Any:
    """The same for an element, or for a pair of a hash."""
    return [plain_text(each) for each in part] if isinstance(part, list) else plain_text(part)


def test_plain_fields(jq: JobQueue, perl: PerlQueue) -> None:
    """Plain fields have their types on a Job: numbers for times, text or bytes else."""
    job = perl.add_job(
        {
            "queue": b"caf\xe9",
            "job": "strong_job",
            "expire": 600,
            "status": "waiting for lunch",
            "message": b"\xe9t\xe9",
            "progress": 0.25,
            "created": 1700000000.5,
            "started": 2.5,
        }
    )
    loaded = jq.load_job(job.id)
    assert loaded is not None
    assert (b"caf\xe9", "strong_job", 600, "waiting for lunch", b"\xe9t\xe9", 0.25) == (
        loaded.queue,
        loaded.job,
        loaded.expire,
        loaded.status,
        loaded.message,
        loaded.progress,
    )
    assert (1700000000.5, 2.5, 0, 0) == (
        loaded.created,
        loaded.started,
        loaded.completed,
        loaded.failed,
    )
    assert [] == loaded.modified_attributes()
    data = jq.get_job_data(job.id)
    assert {**data, "elapsed": None} == {
        **{name: getattr(loaded, name) for name in data if name != "elapsed"},
        "elapsed": None,
    }


def test_python_updates_a_job_of_perl(jq: JobQueue, perl: PerlQueue) -> None:
    """Python takes a job of Perl, marks it, answers it; Perl reads the answer."""
    added = perl.add_job({"queue": "q", "expire": 600, "workload": [1], "meta_data": {"a": "b"}})
    job = jq.get_next_job(queue="q")
    assert job is not None and added.id == job.id
    job.status = STATUS_WORKING
    assert 3 == jq.update_job(job)
    job.result = {"answer": [job.workload, None]}
    job.meta_data["c"] = "d"
    job.status = STATUS_COMPLETED
    assert 5 == jq.update_job(job)
    theirs = perl.load_job(added)
    assert theirs is not None
    assert perl_form({"answer": [[1], None]}) == theirs.attributes["result"]
    assert {"a": perl_form("b"), "c": perl_form("d")} == theirs.meta_data
    assert STATUS_COMPLETED == theirs["status"]
    assert 0 < float(theirs["started"]) <= float(theirs["completed"])


def test_python_deletes_jobs_of_perl(jq: JobQueue, perl: PerlQueue, raw: redis.Redis) -> None:
    """delete_job leaves nothing of a job of Perl, waiting or taken."""
    waiting = perl.add_job({"queue": "q", "expire": 600})
    endless = perl.add_job({"queue": "q", "expire": 0})
    taken = perl.add_job({"queue": "q", "expire": 600}, LPUSH=1)
    assert taken.id == perl.get_next_job_id(queue="q")
    for job in (waiting, taken, endless):
        assert jq.delete_job(job.id) is True
        assert jq.delete_job(job.id) is False
    assert [] == raw.keys()


def test_python_surveys_jobs_of_perl(jq: JobQueue, perl: PerlQueue) -> None:
    """get_job_ids, queue_status, queue_length and get_job_meta_fields count jobs of Perl."""
    ids = [
        perl.add_job(
            {"queue": queue, "expire": 600, "status": status, "meta_data": {"m1": 1, "m2": None}}
        ).id
        for queue, status in (("a", "s1"), ("a", "s2"), ("b:c", "s1"), ("b:c", "s3"))
    ]
    assert ids[0] == perl.get_next_job_id(queue="a")
    assert set(ids) == set(jq.get_job_ids())
    assert set(ids[:2]) == set(jq.get_job_ids(queue="a"))
    assert {ids[0], ids[2]} == set(jq.get_job_ids(status="s1"))
    waiting = jq.get_job_ids(status=["s2", "s3", "s1"], queued=True, queue=["a", "b:c"])
    assert set(ids[1:]) == set(waiting)
    assert {ids[1]} == set(jq.get_job_ids(queued=True, queue="a"))
    assert (1, 2) == (jq.queue_length("a"), jq.queue_length("b:c"))
    ours, theirs = jq.queue_status("b:c"), perl.queue_status("b:c")
    assert ours.keys() == theirs.keys()
    assert (2, 2) == (ours["length"], ours["all_jobs"])
    assert f"{ours['lifetime']:.6f}" == f"{float(theirs['lifetime']):.6f}"
    assert {"m1", "m2"} == set(jq.get_job_meta_fields(ids[3]))


def test_python_takes_in_the_order_of_perl(jq: JobQueue, perl: PerlQueue) -> None:
    """Python takes what Perl put in front first, then the others in their order."""
    ids = [perl.add_job({"queue": "q", "expire": 600}).id for _ in range(3)]
    front = perl.add_job({"queue": "q", "expire": 0}, LPUSH=1).id
    assert [front, *ids] == [jq.get_next_job_id(queue="q") for _ in range(4)]
    assert jq.get_next_job(queue="q") is None


def test_a_blocking_python_gets_a_job_of_perl(jq: JobQueue, perl: PerlQueue) -> None:
    """A blocking get_next_job over several queues finds the job of Perl."""
    added = perl.add_job({"queue": "b", "expire": 600, "workload": "w"})
    job = jq.get_next_job(queue=["a", "b", "c"], blocking=True)
    assert job is not None and (added.id, "w") == (job.id, job.workload)
