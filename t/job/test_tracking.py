"""Which changes of a job are marked, and what a copy of one shares."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from redis_jobqueue import STATUS_FAILED, Job, ScalarRef
from redis_jobqueue.record import job_of
from redis_jobqueue.storable import nfreeze


def loaded(**fields: bytes) -> Job:
    """Make a job as it comes from Redis."""
    plain = {"id": b"I", "queue": b"q", "expire": b"60", "status": b"s", "created": b"5"}
    reply = [part for name, value in {**plain, **fields}.items() for part in (name.encode(), value)]
    return job_of(reply, "auto")


def test_a_new_job_is_modified_all_over() -> None:
    """So that an update of it would write everything."""
    assert Job.job_attributes() == Job(queue="q", expire=1).modified_attributes()
    made = Job(queue="q", expire=1, meta_data={"k": 1})
    assert Job.job_attributes() == made.modified_attributes()


def test_a_loaded_job_is_not_modified() -> None:
    """Nor do its times move."""
    job = loaded(updated=b"6", k=nfreeze(1))
    assert [] == job.modified_attributes()
    assert [5, 6, 1] == [job.created, job.updated, job.meta_data["k"]]
    assert [] == job.modified_attributes()


def test_order_of_marks() -> None:
    """Attributes in sorted order, then metadata in the order in which it was set."""
    job = loaded()
    job.meta_data["z"] = 1
    job.message = "m"
    job.meta_data["a"] = 2
    job.created = 7
    assert ["created", "message", "updated", "z", "a"] == job.modified_attributes()


def test_the_same_value_is_a_change_too() -> None:
    """Setting marks, whatever was there before."""
    job = loaded()
    job.queue = "q"
    assert ["queue"] == job.modified_attributes()


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ((), []),
        (("message",), ["updated", "k"]),
        (("k", "updated"), ["message"]),
        (("", "unknown", None, [], 5), ["message", "updated", "k"]),
    ],
)
def test_clear_modified(names: tuple[Any, ...], left: list[str]) -> None:
    """All marks, or those of the names given; anything else is ignored, as in Perl."""
    job = loaded()
    job.message = "m"
    job.meta_data["k"] = 1
    job.clear_modified(*names)
    assert left == job.modified_attributes()
    assert ["m", 1] == [job.message, job.meta_data["k"]]


def test_changes_inside_data_are_not_seen() -> None:
    """A list that is changed in place must be set again, as in Perl."""
    job = loaded(workload=nfreeze([1]), k=nfreeze([]))
    job.workload.append(2)
    job.meta_data["k"].append(3)
    assert [] == job.modified_attributes()
    assert [[1, 2], [3]] == [job.workload, job.meta_data["k"]]


def test_job_of_a_job() -> None:
    """It has all values and is modified all over; a change of one is none of the other."""
    job = loaded(message=b"m", workload=nfreeze(ScalarRef("w")), k=nfreeze(1))
    made = Job(job, queue="z")
    assert ["I", "z", "m", "w", {"k": 1}] == [
        made.id, made.queue, made.message, made.workload, dict(made.meta_data),
    ]  # fmt: skip
    assert Job.job_attributes() == made.modified_attributes()
    made.meta_data["k"] = 2
    made.message = "n"
    assert ["m", 1] == [job.message, job.meta_data["k"]]
    assert [] == job.modified_attributes()


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda job: pickle.loads(pickle.dumps(job))]
)
def test_copies(duplicate: Any) -> None:
    """A copy has values, times and marks as they are; neither sees what the other does."""
    job = loaded(updated=b"6", message=b"m", k=nfreeze(1), gone=nfreeze(1))
    job.progress = 0.5
    del job.meta_data["gone"]
    twin = duplicate(job)
    names = ["progress", "updated", "gone"]
    assert names == job.modified_attributes() == twin.modified_attributes()
    assert [job.updated, "m", 1] == [twin.updated, twin.message, twin.meta_data["k"]]
    twin.status = STATUS_FAILED
    twin.meta_data["new"] = 1
    twin.clear_modified("gone")
    assert ["s", 0] == [job.status, job.failed]
    assert "new" not in job.meta_data
    assert names == job.modified_attributes()


def test_repr() -> None:
    """It is short and shows the id, the queue and the status, and nothing of the data."""
    job = Job(
        queue="q", expire=1, workload="secret" * 1000, result=["secret"], message="secret",
        meta_data={"k": "secret"},
    )  # fmt: skip
    assert "Job(id='', queue='q', status='__created__')" == repr(job)
    assert "MetaData('k')" == repr(job.meta_data)
    assert "secret" not in f"{job} {job.meta_data}"
