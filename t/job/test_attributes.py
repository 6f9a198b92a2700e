"""What the attributes of a job take, what a value becomes, and which sets which."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_CREATED,
    STATUS_FAILED,
    STATUS_WORKING,
    ArgumentError,
    Job,
    ScalarRef,
)

ATTRIBUTES = [
    "completed", "created", "expire", "failed", "id", "job", "message", "meta_data", "progress",
    "queue", "result", "started", "status", "updated", "workload",
]  # fmt: skip
TIMES = ["created", "updated", "started", "completed", "failed"]
TOUCHING = {
    "status": "s", "workload": "w", "result": "r", "progress": 0.5, "message": "m",
    "started": 3, "completed": 4, "failed": 5,
}  # fmt: skip
QUIET = {"queue": "z", "job": "j", "id": "i", "expire": 7, "created": 8, "updated": 9}
LONG_AGO = 100


def fresh(**values: Any) -> Job:
    """Make a job whose times are long ago and nothing of which is modified."""
    job = Job(queue="q", expire=60, created=LONG_AGO, **values)
    job.updated = LONG_AGO
    job.clear_modified()
    return job


def now(moment: float) -> bool:
    """Tell whether a time is about now."""
    return abs(moment - time.time()) < 100


def test_defaults() -> None:
    """A job of a queue and an expire has Perl's defaults, the same object for no two jobs."""
    job = Job(queue="q", expire=60)
    assert ["", "", "", "", "", STATUS_CREATED] == [
        job.id, job.job, job.message, job.workload, job.result, job.status,
    ]  # fmt: skip
    assert [0, 0, 0, 0] == [job.progress, job.started, job.completed, job.failed]
    assert now(job.created) and job.created == job.updated
    assert {} == dict(job.meta_data)
    job.meta_data["a"] = 1
    assert {} == dict(Job(queue="q", expire=60).meta_data)


@pytest.mark.parametrize("missing", ["queue", "expire"])
def test_required(missing: str) -> None:
    """``queue`` and ``expire`` must be given; the error says which is not."""
    given = {"queue": "q", "expire": 60}
    del given[missing]
    with pytest.raises(ArgumentError, match=rf"\({missing}\) is required") as caught:
        Job(given)
    assert 0 == caught.value.code


@pytest.mark.parametrize(
    "make",
    [
        lambda: Job(queue="q", expire=1, job="j"),
        lambda: Job({"queue": "q", "expire": 1, "job": "j"}),
        lambda: Job({"queue": "x", "expire": 1}, queue="q", job="j"),
        lambda: Job(Job(queue="q", expire=1, job="x"), job="j"),
        lambda: Job(queue="q", expire=1, job="j", unknown=1),
    ],
)
def test_forms_of_the_constructor(make: Callable[[], Job]) -> None:
    """Keyword arguments, a mapping or a job, the first of which win; unknown names are ignored."""
    job = make()
    assert ["q", 1, "j"] == [job.queue, job.expire, job.job]


@pytest.mark.parametrize("source", [1, "queue", ["queue", "q"], b"x"])
def test_other_sources_are_refused(source: Any) -> None:
    """A job is made of nothing else."""
    with pytest.raises(ArgumentError) as caught:
        Job(source)
    assert 0 == caught.value.code


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("queue", 5, "5"), ("queue", b"q", "q"), ("queue", b"\xe9", b"\xe9"), ("queue", None, None),
        ("job", 0.5, "0.5"), ("job", None, None), ("job", "caf\xe9", "caf\xe9"),
        ("message", 1e20, "1e+20"), ("message", None, None), ("message", "", ""),
        ("id", 7, "7"), ("id", "a:b", "a:b"), ("id", "", ""), ("id", "a\tb", "a\tb"),
        ("status", 0, "0"), ("status", "own", "own"),
        ("expire", "12", 12), ("expire", " 012", 12), ("expire", "+5", 5), ("expire", b"7\n", 7),
        ("expire", 1e3, 1000), ("expire", "-0", 0), ("expire", None, None), ("expire", 0, 0),
        ("progress", "0.50", 0.5), ("progress", 1, 1), ("progress", "1e-3", 0.001),
        ("progress", 0, 0), ("progress", " .5 ", 0.5),
        ("created", "1e9", 1e9), ("started", 12.5, 12.5), ("failed", "7", 7),
        ("completed", "Inf", math.inf), ("updated", b"1.", 1.0),
        ("workload", None, None), ("workload", 5, 5), ("result", ScalarRef("x"), ScalarRef("x")),
        ("result", {"a": [1]}, {"a": [1]}), ("workload", b"\x00", b"\x00"), ("result", True, True),
    ],
)  # fmt: skip
def test_what_is_kept(name: str, given: Any, kept: Any) -> None:
    """A value becomes the type of its attribute, in the constructor and in setting alike."""
    job = fresh()
    setattr(job, name, given)
    for found in (getattr(job, name), getattr(Job({"queue": "q", "expire": 1, name: given}), name)):
        assert kept == found
        assert isinstance(found, type(kept)) and not isinstance(found, bool) or kept is found


BAD = {
    "id": [None, "a b", b"a b", [], {}, True],
    "queue": [[], {}, False, ScalarRef("x")],
    "job": [[], True, print],
    "message": [[], {"a": 1}],
    "status": [None, [], True],
    "expire": ["", "x", "1e3", "1.0", "0x1", "1_0", "- 1", -1, 0.5, math.inf, math.nan, True, []],
    "progress": [None, "", "x", "1e", "0x1", "nan", -0.1, 1.1, "2", math.nan, True, [], "٣"],
    **{name: [None, "", "x", -1, "-1", "nan", math.nan, True, []] for name in TIMES},
    "workload": [print, {1, 2}, object()],
    "result": [lambda: 1],
    "meta_data": [None, [], "x", 1],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_what_is_refused(name: str, value: Any) -> None:
    """Another value raises with code 0, names the attribute, and changes nothing."""
    job = fresh()
    with pytest.raises(ArgumentError, match=rf"\({name}\)") as caught:
        setattr(job, name, value)
    assert 0 == caught.value.code
    assert [] == job.modified_attributes() and LONG_AGO == job.updated
    with pytest.raises(ArgumentError, match=rf"\({name}\)"):
        Job({"queue": "q", "expire": 1, name: value})


def test_more_digits_than_python_reads() -> None:
    """An ``expire`` that no int can be is refused as any other; a time is written as it came."""
    with pytest.raises(ArgumentError, match=r"\(expire\)"):
        Job(queue="q", expire="9" * 5000)
    assert math.inf == Job(queue="q", expire=1, created="9" * 5000).created


def test_errors_show_no_text() -> None:
    """An error names the type of what was given, and never a text, which may be secret."""
    with pytest.raises(ArgumentError) as caught:
        Job(queue="q", expire="the password")
    assert "password" not in str(caught.value) and "str" in str(caught.value)


def test_only_its_attributes() -> None:
    """A misspelt attribute cannot be set, and none be deleted."""
    job = fresh()
    with pytest.raises(AttributeError):
        job.worklaod = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        del job.workload


@pytest.mark.parametrize("name", TOUCHING)
def test_touching_attributes(name: str) -> None:
    """Setting one sets and marks ``updated``; so does giving one in making, over a given time."""
    job = fresh()
    setattr(job, name, TOUCHING[name])
    assert sorted([name, "updated"]) == job.modified_attributes()
    assert now(job.updated)
    made = Job({"queue": "q", "expire": 1, "updated": LONG_AGO, name: TOUCHING[name]})
    assert now(made.updated)


@pytest.mark.parametrize("name", QUIET)
def test_quiet_attributes(name: str) -> None:
    """Setting one marks only that, and leaves ``updated`` alone."""
    job = fresh()
    setattr(job, name, QUIET[name])
    assert [name] == job.modified_attributes()
    assert QUIET[name] == getattr(job, name)
    made = Job({"queue": "q", "expire": 1, "updated": 9, name: QUIET[name]})
    assert 9 == made.updated


@pytest.mark.parametrize(
    ("status", "stamped"),
    [
        (STATUS_CREATED, "created"), (STATUS_WORKING, "started"),
        (STATUS_COMPLETED, "completed"), (STATUS_FAILED, "failed"),
    ],
)  # fmt: skip
def test_status_stamps_its_time(status: str, stamped: str) -> None:
    """Each of the four sets and marks its time, also over one that is given beside it."""
    job = fresh()
    job.status = status
    assert sorted([stamped, "status", "updated"]) == job.modified_attributes()
    assert now(getattr(job, stamped))
    if status != STATUS_WORKING:
        made = Job({"queue": "q", "expire": 1, "status": status, stamped: LONG_AGO})
        assert now(getattr(made, stamped))


def test_started_is_stamped_once() -> None:
    """Working again does not move the time at which work began."""
    job = fresh(started=LONG_AGO)
    job.status = STATUS_WORKING
    assert LONG_AGO == job.started
    assert LONG_AGO == Job(queue="q", expire=1, started=LONG_AGO, status=STATUS_WORKING).started


def test_own_and_default_status_stamp_nothing() -> None:
    """Another text sets no time, nor does the status that nobody gave."""
    job = fresh()
    job.status = "lunch"
    assert [LONG_AGO, 0, 0, 0] == [job.created, job.started, job.completed, job.failed]
    assert LONG_AGO == Job(queue="q", expire=1, created=LONG_AGO).created


def test_completed_and_failed_stand_side_by_side() -> None:
    """Neither clears the other, as in Perl."""
    job = fresh()
    job.status = STATUS_COMPLETED
    job.failed = 9
    assert now(job.completed) and 9 == job.failed


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({}, None),
        ({"completed": 12}, None),
        ({"started": 10, "completed": 12.5}, 2.5),
        ({"started": 10, "failed": 11}, 1),
        ({"started": 10, "completed": 12, "failed": 11}, 2),
        ({"started": 10, "completed": 5}, -5),
    ],
)
def test_elapsed(times: dict[str, float], expected: float | None) -> None:
    """From ``started`` to ``completed``, else ``failed``; None before the start."""
    assert expected == fresh(**times).elapsed


def test_elapsed_of_a_running_job() -> None:
    """Up to now, in fractions of a second."""
    elapsed = fresh(started=time.time() - 7.25).elapsed
    assert elapsed is not None and 7.25 <= elapsed < 100


def test_job_attributes() -> None:
    """All names, sorted, of the class and of a job; a list of the caller's own."""
    assert ATTRIBUTES == Job.job_attributes() == fresh().job_attributes()
    Job.job_attributes().clear()
    assert ATTRIBUTES == Job.job_attributes()
