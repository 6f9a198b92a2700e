"""What Python writes for the recording `t/data/python-states.json`: a fixed set of calls.

Each entry of `WRITTEN` makes its calls on a queue and returns the jobs that it
added, in order.  Nothing but ids and times of now may differ from run to run.
The recording keeps the state that each left and what the real module read from
it; `t/perl/record.py` makes it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_FAILED,
    STATUS_WORKING,
    Job,
    JobQueue,
)
from support.samples import FROM_PYTHON

RECORDING = "python-states"
"""The name of the recording under `t/data`."""

Writer = Callable[[JobQueue], list[Job]]
WRITTEN: dict[str, Writer] = {}

QUEUE = "q"
LIFE = 600


def _added(**attributes: Any) -> Writer:
    """One job of queue q that lives 600 s unless said otherwise."""
    return lambda jq: [jq.add_job({"queue": QUEUE, "expire": LIFE, **attributes})]


def _value(value: Any) -> Writer:
    """A job with the value in the three places where data is frozen."""
    return _added(workload=value, result=value, meta_data={"value": value})


def value_name(name: str) -> str:
    """The name in `WRITTEN` of a value of `FROM_PYTHON`."""
    return f"value: {name}"


for _name, _sample in FROM_PYTHON.items():
    WRITTEN[value_name(_name)] = _value(_sample)

ADDED: dict[str, dict[str, Any]] = {
    "defaults": {},
    "expire 0": {"expire": 0},
    "long life": {"expire": 31_536_000},
    "plain fields": {"job": "j", "status": "own", "message": "m", "progress": 0.5},
    "latin1 octets": {"queue": b"caf\xe9", "job": b"\xe9", "message": b"\xe9t\xe9"},
    "queue with colons and spaces": {"queue": "app:my mail:out"},
    "numbers for text": {"job": 5, "message": 0.1},
    "progress of a third": {"progress": 1 / 3},
    "times": {"status": "s", "created": 1700000000.123456, "started": 1.5, "completed": 0.1 + 0.2},
    "large times": {"status": "s", "created": 9999999999999999, "started": 1e20, "failed": 1e15},
    "status working": {"status": STATUS_WORKING},
    "status completed": {"status": STATUS_COMPLETED},
    "status failed": {"status": STATUS_FAILED},
    "None in plain fields": {"job": None, "message": None},
    "metadata": {"meta_data": {"n": 1, "t": "\u20ac", "l": [1], "h": {"k": None}, "u": None}},
    "name of metadata beyond ASCII": {"meta_data": {b"\xe9": 1}},
}

for _name, _attributes in ADDED.items():
    WRITTEN[f"add: {_name}"] = _added(**_attributes)


def written(function: Writer) -> Writer:
    """Add a function to the table."""
    WRITTEN[function.__name__.replace("_", " ")] = function
    return function


@written
def two_queues_and_a_front(jq: JobQueue) -> list[Job]:
    """Order in the lists, with and without an end of life."""
    return [
        jq.add_job({"queue": "q", "expire": 600, "job": "first"}),
        jq.add_job({"queue": "q", "expire": 0, "job": "second"}),
        jq.add_job({"queue": "q", "expire": 1200, "job": "front"}, LPUSH=True),
        jq.add_job({"queue": "other", "expire": 600}),
    ]


@written
def taken(jq: JobQueue) -> list[Job]:
    """A job that is off the list, and one behind it."""
    jobs = [jq.add_job({"queue": "q", "expire": 600, "workload": n}) for n in (1, 2)]
    jq.get_next_job(queue="q")
    return jobs


@written
def answered(jq: JobQueue) -> list[Job]:
    """The whole life of a job: taken, worked on, answered."""
    added = jq.add_job({"queue": "q", "expire": 600, "workload": {"n": [1, 2.5]}})
    job = jq.get_next_job(queue="q")
    assert job is not None
    job.status = STATUS_WORKING
    jq.update_job(job)
    job.progress = 0.75
    job.meta_data["worker"] = "w1"
    jq.update_job(job)
    job.result = {"sum": 3.5, "text": "\u20ac"}
    job.message = "done"
    job.status = STATUS_COMPLETED
    jq.update_job(job)
    return [added]


@written
def updated_in_every_field(jq: JobQueue) -> list[Job]:
    """Every attribute written over another."""
    job = jq.add_job({"queue": "q", "expire": 600, "meta_data": {"a": 1, "b": 2}})
    job.queue, job.job, job.message, job.progress = "other", "j", "m", 0.25
    job.workload, job.result = ["w"], ("r", 1)
    job.meta_data["a"] = 1.25
    job.status = "own"
    job.created, job.started, job.completed, job.failed = 1, 2.5, 3, 4.125
    job.expire = 1200
    job.updated = 5.5
    jq.update_job(job)
    return [job]


@written
def metadata_replaced(jq: JobQueue) -> list[Job]:
    """A group of metadata put over another: what is not named stays in Redis, as in Perl."""
    job = jq.add_job({"queue": "q", "expire": 600, "meta_data": {"a": 1, "b": 2}})
    job.meta_data({"b": 3, "c": 4})
    jq.update_job(job)
    return [job]


@written
def endless_by_update(jq: JobQueue) -> list[Job]:
    """Only the time to live changes: taken off here, set there."""
    ending = jq.add_job({"queue": "q", "expire": 600})
    ending.expire = 0
    endless = jq.add_job({"queue": "q", "expire": 0})
    endless.expire = 900
    for job in (ending, endless):
        jq.update_job(job)
    return [ending, endless]


@written
def deleted_among_others(jq: JobQueue) -> list[Job]:
    """What is left of three when one is deleted."""
    jobs = [jq.add_job({"queue": "q", "expire": 600, "job": str(n)}) for n in range(3)]
    jq.delete_job(jobs[1])
    return jobs
