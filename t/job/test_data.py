"""Workload, result and metadata that came from Redis: thawed when somebody reads them."""

from __future__ import annotations

from typing import Any

import pytest

from redis_jobqueue import E_REDIS, Job, ScalarRef, StorableError
from redis_jobqueue.record import fields_of, job_of, metadata_of
from redis_jobqueue.storable import nfreeze

BROKEN = b"\x05\x0b\x03"
BIG = 1 << 30


def loaded(strings: str = "auto", **fields: bytes) -> Job:
    """Make a job as it comes from Redis."""
    reply = [part for name, value in fields.items() for part in (name.encode(), value)]
    return job_of(reply, strings)


@pytest.mark.parametrize(
    "value",
    [
        "w", "", "0", 5, 0.5, None, True, b"\xff", "\u20ac", [1, "a"], {"k": [None]},
        ScalarRef("x"), ScalarRef(ScalarRef(None)), ScalarRef([1]),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_written_is_read(value: Any) -> None:
    """Workload, result and metadata come back as they were set."""
    job = Job(queue="q", expire=1, workload=value, result=value, meta_data={"k": value})
    pairs = fields_of(job, ("workload", "result"), BIG) + metadata_of(job, ("k",), BIG)
    again = job_of(pairs, "auto")
    for found in (again.workload, again.result, again.meta_data["k"]):
        assert value == found
        assert type(value) is type(found)


def test_thawed_once() -> None:
    """Reading twice gives the same object."""
    job = loaded(workload=nfreeze([1]), k=nfreeze({"a": 1}))
    assert job.workload is job.workload
    assert job.meta_data["k"] is job.meta_data["k"]


@pytest.mark.parametrize("field", ["workload", "result", "k"])
def test_damaged_data_harms_only_its_reader(field: str) -> None:
    """A job with data that cannot be read can be looked at and changed; reading names the field."""
    job = loaded(**{"id": b"I", "message": b"m", "good": nfreeze(1), field: BROKEN})
    assert ["I", "m", 1] == [job.id, job.message, job.meta_data["good"]]
    for _ in range(2):
        with pytest.raises(StorableError, match=f"^{field}: ") as caught:
            job.meta_data["k"] if field == "k" else getattr(job, field)
        assert E_REDIS == caught.value.code
    assert [] == job.modified_attributes()
    if field == "k":
        job.meta_data["k"] = "new"
        assert "new" == job.meta_data["k"]
    else:
        setattr(job, field, "new")
        assert "new" == getattr(job, field)


@pytest.mark.parametrize("stored", [b"", b"0"])
def test_two_fields_that_are_not_thawed(stored: bytes) -> None:
    """An empty field and ``0`` are what they are, as in Perl."""
    job = loaded(workload=stored, result=stored, k=stored)
    text = stored.decode()
    assert [text, text, text] == [job.workload, job.result, job.meta_data["k"]]


def test_unread_data_goes_back_as_it_came() -> None:
    """What nobody read is written with the very bytes, whoever's Storable made them."""
    image = b"\x04\x0b\x0812345678\x04\x08\x08\x08\x04\x0a\x01w more"
    job = loaded(workload=image, k=image)
    assert [b"workload", image] == fields_of(job, ["workload"], BIG)
    assert [b"k", image] == metadata_of(job, ["k"], BIG)
    assert "w" == job.workload
    assert [b"workload", nfreeze(ScalarRef("w"))] == fields_of(job, ["workload"], BIG)


@pytest.mark.parametrize(
    ("strings", "expected"),
    [("auto", b"\xc3\xa9"), ("bytes", b"\xc3\xa9"), ("utf-8", "\xe9"), ("latin-1", "\xc3\xa9")],
)
def test_strings(strings: str, expected: Any) -> None:
    """``strings=`` says how Perl's octets read, in all three places."""
    image = nfreeze(ScalarRef(b"\xc3\xa9"), hints=False)
    job = loaded(strings, workload=image, k=nfreeze(b"\xc3\xa9", hints=False))
    assert expected == job.workload == job.meta_data["k"]


def test_missing_fields_have_defaults() -> None:
    """A hash of somebody else's reads as a job without anything."""
    job = loaded(workload=nfreeze(ScalarRef("w")))
    assert ["", "", "", "", "w", ""] == [
        job.id, job.queue, job.status, job.message, job.workload, job.result,
    ]  # fmt: skip
    assert [0, 0, 0, 0] == [job.expire, job.progress, job.created, job.started]
