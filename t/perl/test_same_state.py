"""The same calls leave the same state in Redis, whichever side makes them.

A scenario makes its calls on one side and returns what it saw; the test runs
it on both and compares what was seen and every key, byte for byte, apart from
ids and the time of day.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from support.states import state_of

from perl.peer import PerlQueue
from perl.sides import Outcome, PerlSide, PythonSide, Side
from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_CREATED,
    STATUS_FAILED,
    STATUS_WORKING,
    JobQueue,
)


class Run:
    """A scenario's run on one side: what it saw, and the ids of its jobs in order."""

    def __init__(self, side: Side, client: redis.Redis) -> None:
        self.side = side
        self.client = client
        self.ids: list[str] = []

    def add(self, front: bool = False, **attributes: Any) -> Any:
        """Add a job; queue q and 600 s unless said otherwise."""
        return self.known(self.side.add({"queue": "q", "expire": 600, **attributes}, front=front))

    def known(self, job: Any) -> Any:
        """Remember the id of a job that was added."""
        self.ids.append(self.side.id(job))
        return job

    def changed(self, **values: Any) -> Any:
        """Add a job, set attributes, update; the number that update_job gives."""
        job = self.add()
        for name, value in values.items():
            self.side.change(job, name, value)
        return self.side.update(job)

    def number(self, job_id: str | None) -> int | None:
        """Which of the jobs an id belongs to, counted from 1; None for no id."""
        return None if job_id is None else self.ids.index(job_id) + 1

    def taken(self, *queues: str, blocking: bool = False) -> int | None:
        """Take a job; which it was."""
        job = self.side.take(*(queues or ("q",)), blocking=blocking)
        return None if job is None else self.number(self.side.id(job))

    def key(self, job: Any) -> str:
        """The key of a job's hash."""
        return f"JobQueue:{self.side.id(job)}"


Scenario = Callable[[Run], Any]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Add a scenario to the table."""
    SCENARIOS[function.__name__] = function
    return function


@pytest.mark.parametrize("name", SCENARIOS)
def test_same_state(name: str, perl: PerlQueue, jq: JobQueue, raw: redis.Redis) -> None:
    """What is seen and what is in Redis afterwards is the same on both sides."""
    runs = []
    for side in (PerlSide(perl), PythonSide(jq)):
        raw.flushall()
        run = Run(side, raw)
        seen = SCENARIOS[name](run)
        runs.append((seen, state_of(raw, run.ids)))
    assert runs[0] == runs[1]


def added(attributes: dict[str, Any]) -> Scenario:
    """A scenario that only adds one job."""
    return lambda run: sorted(run.side.modified(run.add(**attributes)))


ADDED: dict[str, dict[str, Any]] = {
    "defaults": {},
    "expire 0": {"expire": 0},
    "expire as text": {"expire": "1200"},
    "a long life": {"expire": 31_536_000},
    "every plain field": {
        "job": "strong_job",
        "status": "waiting for lunch",
        "message": "Hello, World!",
        "progress": 0.5,
    },
    "latin1 octets": {"queue": b"caf\xe9", "job": b"\xe9", "message": b"\xe9t\xe9"},
    "queue with colons": {"queue": "app:mail:out"},
    "queue with spaces": {"queue": "my lovely queue"},
    "queue 0": {"queue": "0"},
    "workload text": {"workload": "plain"},
    "workload wide text": {"workload": "\u20ac"},
    "workload empty": {"workload": ""},
    "workload list": {"workload": [13, 14, "x", None, -129, 70_000]},
    "workload hash": {"workload": {"a": {"b": [{}]}}},
    "workload octets": {"workload": b"\x00\xff" * 200},
    "result hash": {"result": {"ok": 1}},
    "metadata": {"meta_data": {"num": 12, "str": "text", "list": [13, {"k": 14}], "e": ""}},
    "progress of a third": {"progress": 1 / 3},
    "progress 1": {"progress": 1},
    "tiny progress": {"progress": 1e-7},
    "times": {"status": "s", "created": 1700000000.123456, "started": 1.5, "completed": 0.1 + 0.2},
    "large times": {"status": "s", "created": 9999999999999999, "started": 1e20, "failed": 1e15},
    "whole times": {"status": "s", "created": 1700000000.0, "started": 17.0},
    "updated": {"updated": 17.25, "created": 5, "job": "j"},
    "updated beside a message": {"updated": 17.25, "message": "m"},
    "updated beside a status": {"updated": 17.25, "status": "own"},
    "updated beside a time": {"updated": 17.25, "failed": 3},
    "status created": {"status": STATUS_CREATED, "created": 5},
    "status working": {"status": STATUS_WORKING},
    "status working, started": {"status": STATUS_WORKING, "started": 7},
    "status completed": {"status": STATUS_COMPLETED, "completed": 7},
    "status failed": {"status": STATUS_FAILED, "failed": 7},
    "unknown names": {"colour": "red", "elapsed": 5},
}

for _name, _attributes in ADDED.items():
    SCENARIOS[f"add: {_name}"] = added(_attributes)


@scenario
def order_of_a_queue(run: Run) -> Any:
    """RPUSH, and LPUSH in front."""
    run.add(job="first")
    run.add(job="second", expire=0)
    run.add(job="front", front=True)
    run.add(queue="other")
    return run.side.counts("q"), run.side.counts("other"), run.side.counts("none")


@scenario
def a_job_made_first(run: Run) -> Any:
    """add_job of an object gives the same object an id, and again another."""
    job = run.side.make({"queue": "q", "expire": 600, "workload": [1], "meta_data": {"m": 1}})
    before = run.side.modified(job)
    run.known(run.side.add_again(job))
    return before, run.side.modified(job), run.side.id(run.known(run.side.add_again(job))) != ""


@scenario
def taking(run: Run) -> Any:
    """Each is taken once, in order, from any of the queues."""
    run.add()
    run.add(expire=0)
    run.add(queue="other")
    first = run.taken(), run.taken("q", "none")
    blocking = run.taken("none", "other", blocking=True)
    return first, blocking, run.taken(), run.taken("none"), run.side.counts("q")


@scenario
def a_taken_job(run: Run) -> Any:
    """The plain attributes of a job as taken, with nothing modified."""
    run.add(job="j", message=b"\xe9", progress=0.25, status="own")
    job = run.side.take("q")
    return run.side.plain(job), run.side.modified(job)


@scenario
def taking_starts_the_life_anew(run: Run) -> Any:
    """get_next_job sets the time to live by the stored expire."""
    run.client.expire(run.key(run.add()), 90)
    run.client.persist(run.key(run.add()))
    return run.taken(), run.taken()


@scenario
def taking_an_endless_job(run: Run) -> Any:
    """With expire 0 the time to live is left as it is."""
    run.client.expire(run.key(run.add(expire=0)), 900)
    return run.taken()


@scenario
def taking_an_id(run: Run) -> Any:
    """get_next_job_id leaves the time to live alone."""
    run.client.expire(run.key(run.add()), 300)
    return run.number(run.side.take_id("q")), run.side.take_id("q")


@scenario
def entries_without_a_job(run: Run) -> Any:
    """One of a past life is skipped, one whose job should be there is an error and consumed."""
    run.client.rpush("JobQueue:queue:q", "gone 1000000000", "deleted 9999999999", "endless")
    run.add()
    return [run.side.attempt("get_next_job", queue="q") for _ in range(4)]


@scenario
def loading(run: Run) -> Any:
    """load_job changes nothing in Redis; a change of the loaded job is written alone."""
    run.add(status="own", job="j", workload={"k": [1]}, meta_data={"m": [2]}, progress=0.125)
    job = run.side.load(run.add(status="own", message="m", meta_data={"n": 1}))
    run.side.change(job, "job", "new")
    run.side.change_meta(job, "n", 2)
    return run.side.plain(job), run.side.modified(job), run.side.update(job)


@scenario
def counts_of_update(run: Run) -> Any:
    """What update_job returns: the fields written, `updated` among them where it is set."""
    return (
        run.changed(),
        run.changed(workload="new"),
        run.changed(result=["new"]),
        run.changed(message="m", progress=0.5),
        run.changed(job="b"),
        run.changed(job="b", queue="other"),
        run.changed(updated=123),
        run.changed(created=5),
        run.changed(started=5),
        run.changed(completed=6.5),
        run.changed(failed=0),
        run.changed(status="own"),
    )


@scenario
def triggers_of_the_status(run: Run) -> Any:
    """Each status sets its time; another one none; nothing is cleared."""
    return (
        run.changed(status=STATUS_CREATED),
        run.changed(status=STATUS_WORKING),
        run.changed(status=STATUS_COMPLETED),
        run.changed(status=STATUS_FAILED),
        run.changed(started=5, status=STATUS_WORKING),
        run.changed(completed=5, failed=6, status=STATUS_COMPLETED),
        run.changed(message="both", completed=5, status=STATUS_FAILED),
    )


@scenario
def the_life_of_a_job(run: Run) -> Any:
    """Created, working, answered, completed: what each step writes."""
    job = run.add(workload={"numbers": [1, 2, 3]})
    counts = []
    taken = run.side.take("q")
    for steps in (
        {"status": STATUS_WORKING},
        {"progress": 0.5, "message": "half"},
        {"result": {"sum": 6}, "status": STATUS_COMPLETED, "progress": 1},
    ):
        for name, value in steps.items():
            run.side.change(taken, name, value)
        counts.append(run.side.update(taken))
    return counts, run.side.update(taken), run.side.plain(run.side.load(job))


@scenario
def changing_expire(run: Run) -> Any:
    """Only the time to live changes: the stored expire stays, and returns 0."""
    shorter, endless, ending, both = (run.add(), run.add(), run.add(expire=0), run.add())
    for job, expire in ((shorter, 200), (endless, 0), (ending, 900), (both, 300)):
        run.side.change(job, "expire", expire)
    run.side.change(both, "message", "m")
    return [run.side.update(job) for job in (shorter, endless, ending, both)], run.taken()


@scenario
def changing_the_queue(run: Run) -> Any:
    """The entry stays in the old list; delete_job then leaves it there."""
    job, other = run.add(), run.add()
    run.side.change(job, "queue", "other")
    run.side.change(other, "queue", "other")
    counts = run.side.update(job), run.side.update(other)
    return counts, run.side.delete(job), run.side.counts("q"), run.side.counts("other")


@scenario
def changing_the_id(run: Run) -> Any:
    """The id names the job that is written; it is never a field of its own."""
    job, other = run.add(job="a"), run.add(job="b")
    run.side.change(job, "id", run.side.id(other))
    run.side.change(job, "job", "c")
    return run.side.update(job)


@scenario
def metadata(run: Run) -> Any:
    """Set one by one, replaced as a whole: only what was named is written."""
    one = run.add(meta_data={"foo": 1, "bar": 2})
    run.side.change_meta(one, "foo", ["changed"])
    run.side.change_meta(one, "new", "n")
    all_of_it = run.add(meta_data={"foo": 1, "bar": 2})
    run.side.replace_meta(all_of_it, {"bar": 3, "baz": {}})
    marks = run.side.modified(one), run.side.modified(all_of_it)
    counts = run.side.update(one), run.side.update(all_of_it)
    return marks, counts, run.side.meta_fields(one), run.side.meta_fields(all_of_it)


@scenario
def clear_modified(run: Run) -> Any:
    """What is no longer marked is not written."""
    job = run.add()
    run.side.change(job, "message", "lost")
    run.side.clear_modified(job)
    none = run.side.update(job)
    run.side.change(job, "progress", 0.5)
    run.side.change(job, "message", "lost")
    run.side.clear_modified(job, "message", "updated")
    return none, run.side.modified(job), run.side.update(job)


@scenario
def updating_a_job_that_is_gone(run: Run) -> Any:
    """Nothing is written, nothing is returned, the marks stay."""
    job = run.add()
    run.side.delete(job)
    run.side.change(job, "message", "m")
    return run.side.update(job), run.side.modified(job)


@scenario
def updating_starts_the_life_anew(run: Run) -> Any:
    """update_job sets the time to live, and takes it off where expire is 0."""
    job, endless, unchanged = run.add(), run.add(expire=0), run.add()
    for each in (job, endless, unchanged):
        run.client.expire(run.key(each), 100)
    run.side.change(job, "message", "m")
    run.side.change(endless, "message", "m")
    return [run.side.update(each) for each in (job, endless, unchanged)]


@scenario
def deleting(run: Run) -> Any:
    """Waiting, taken, twice, with equal neighbours: nothing of the job stays."""
    taken, waiting, endless = run.add(), run.add(), run.add(expire=0)
    run.add(meta_data={"m": 1})
    run.taken()
    gone = [run.side.delete(job) for job in (taken, waiting, endless, endless)]
    return gone, run.side.load(taken), run.side.counts("q")


@scenario
def deleting_doubled_entries(run: Run) -> Any:
    """Every entry of the job goes, also one that was put there twice."""
    job = run.add()
    [entry] = run.client.lrange("JobQueue:queue:q", 0, -1)
    run.client.lpush("JobQueue:queue:q", entry, "other 1")
    return run.side.delete(job)


@scenario
def surveys(run: Run) -> Any:
    """Filters of get_job_ids, with foreign keys beside the jobs."""
    for queue, status in (("a", "s1"), ("a", "s2"), ("b:c", "s1"), ("0", "0")):
        run.add(queue=queue, status=status)
    run.client.rpush("JobQueue:queue:a", "gone")
    run.client.set("JobQueue:two:segments", "x")
    run.client.set("Other:key", "x")
    run.taken("a")

    def numbers(**filters: Any) -> set[Any]:
        known = {job_id: number for number, job_id in enumerate(run.ids, 1)}
        return {known.get(job_id, job_id) for job_id in run.side.ids(**filters)}

    seen = (
        numbers(),
        numbers(queue="a"),
        numbers(queue=["a", "b:c", "none"]),
        numbers(status="s1"),
        numbers(status=["s1", "s2"], queue="a"),
        numbers(queued=1, queue="a"),
        numbers(queued=1, queue=["a", "b:c"], status="s1"),
        numbers(queued=0, queue="a"),
        run.side.counts("a"),
        run.side.counts("b:c"),
        run.side.counts("0"),
    )
    run.client.delete("JobQueue:two:segments", "Other:key")
    return seen


@scenario
def errors_leave_nothing(run: Run) -> Any:
    """A job that is refused leaves no key, and no half of itself."""
    refused: list[Outcome] = [
        run.side.attempt("add_job", {"queue": "q", "expire": 600, "status": "\u20ac"}),
        run.side.attempt("add_job", {"queue": "q"}),
        run.side.attempt("add_job", {"queue": "q", "expire": -1}),
    ]
    return [(each.raised, each.code) for each in refused]
