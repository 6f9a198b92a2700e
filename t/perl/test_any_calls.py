"""Any calls in any order leave the same on both sides: Hypothesis looks for a difference.

Left out is what the README lists as different by design: times given by hand
(a job loaded by Perl has others), and a new Job under the id of another.
"""

from __future__ import annotations

from typing import Any

import redis
from hypothesis import given
from hypothesis import strategies as st
from support.states import state_of

from perl.peer import PerlDied, PerlQueue
from perl.sides import PerlSide, PythonSide, Side
from redis_jobqueue import JobQueue, JobQueueError

Call = tuple[Any, ...]

queues = st.sampled_from(["a", "b:c"])
lives = st.sampled_from([0, 600, 1200])
statuses = st.sampled_from(["own", "__created__", "__working__", "__completed__", "__failed__"])
data = st.sampled_from(["w", "", [1, "x"], {"k": None}, b"\xff", "\u20ac", 7])
which = st.integers(0, 7)
metadata = st.dictionaries(st.sampled_from(["m1", "m2", "m3"]), data, max_size=2)

attributes = st.fixed_dictionaries(
    {"queue": queues, "expire": lives},
    optional={
        "job": st.just("j"),
        "status": statuses,
        "workload": data,
        "progress": st.sampled_from([0, 0.5, 1]),
        "meta_data": metadata,
    },
)
changes = st.one_of(
    st.tuples(st.just("status"), statuses),
    st.tuples(st.sampled_from(["workload", "result"]), data),
    st.tuples(st.just("message"), st.just("m")),
    st.tuples(st.just("progress"), st.sampled_from([0.25, 1])),
    st.tuples(st.just("queue"), queues),
    st.tuples(st.just("expire"), lives),
)
calls: st.SearchStrategy[Call] = st.one_of(
    st.tuples(st.just("add"), attributes, st.booleans()),
    st.tuples(st.just("change"), which, changes),
    st.tuples(st.just("update"), which),
    st.tuples(st.just("change and update"), which, changes),
    st.tuples(st.just("change_meta"), which, st.sampled_from(["m1", "m4"]), data),
    st.tuples(st.just("replace_meta"), which, metadata),
    st.tuples(st.just("clear_modified"), which, st.sampled_from(["message", "m1", "updated"])),
    st.tuples(st.just("take"), queues),
    st.tuples(st.just("take_id"), queues),
    st.tuples(st.just("load"), which),
    st.tuples(st.just("add_again"), which),
    st.tuples(st.just("delete"), which),
    st.tuples(st.just("survey"), queues, statuses),
)


class Play:
    """Calls on one side; jobs are named by the order in which they came into hand."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.jobs: list[Any] = []
        self.ids: list[str] = []

    def number(self, job_id: str | None) -> int | None:
        """Which of the added jobs an id belongs to; None for no id."""
        return None if job_id is None else self.ids.index(job_id)

    def known(self, job: Any) -> str | None:
        """Keep a job in hand; its id."""
        if job is None:
            return None
        self.jobs.append(job)
        return self.side.id(job)

    def make(self, call: Call) -> Any:
        """Make one call; what it showed, or the code of its error."""
        name, *args = call
        if isinstance(args[0], int):
            if not self.jobs:
                return "no job in hand"
            args[0] = self.jobs[args[0] % len(self.jobs)]
        try:
            return getattr(self, name.replace(" ", "_"))(*args)
        except PerlDied as died:
            return "error", died.answer.last_errorcode
        except JobQueueError as error:
            return "error", error.code

    def add(self, values: dict[str, Any], front: bool) -> None:
        job_id = self.known(self.side.add(values, front=front))
        assert job_id is not None
        self.ids.append(job_id)

    def add_again(self, job: Any) -> None:
        self.ids.append(self.side.id(self.side.add_again(job)))

    def take(self, queue: str) -> Any:
        return self.number(self.known(self.side.take(queue)))

    def take_id(self, queue: str) -> Any:
        return self.number(self.side.take_id(queue))

    def load(self, job: Any) -> Any:
        loaded = self.side.load(job)
        return self.number(self.known(loaded)), loaded and self.side.plain(loaded)

    def delete(self, job: Any) -> Any:
        return self.side.delete(job)

    def update(self, job: Any) -> Any:
        return self.side.modified(job), self.side.update(job), self.side.modified(job)

    def change(self, job: Any, change: tuple[str, Any]) -> None:
        self.side.change(job, *change)

    def change_and_update(self, job: Any, change: tuple[str, Any]) -> Any:
        self.change(job, change)
        return self.update(job)

    def change_meta(self, job: Any, name: str, value: Any) -> None:
        self.side.change_meta(job, name, value)

    def replace_meta(self, job: Any, values: dict[str, Any]) -> None:
        self.side.replace_meta(job, values)

    def clear_modified(self, job: Any, name: str) -> None:
        self.side.clear_modified(job, name)

    def survey(self, queue: str, status: str) -> Any:
        filters: list[dict[str, Any]] = [
            {"queue": queue},
            {"status": status},
            {"queue": queue, "queued": 1},
            {"queue": queue, "queued": 1, "status": status},
        ]
        ids = [sorted(map(self.ids.index, self.side.ids(**each))) for each in filters]
        return ids, self.side.counts(queue)


@given(script=st.lists(calls, max_size=15))
def test_any_calls(script: list[Call], perl: PerlQueue, jq: JobQueue, raw: redis.Redis) -> None:
    """Every answer, every error code and every key is the same on both sides."""
    played = []
    for side in (PerlSide(perl), PythonSide(jq)):
        raw.flushall()
        play = Play(side)
        seen = [play.make(call) for call in script]
        played.append((seen, state_of(raw, play.ids)))
    assert played[0] == played[1]
