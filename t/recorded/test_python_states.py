"""What Python writes is, byte for byte, what the real module was once seen to read.

`t/data/python-states.json` keeps for each set of calls in `support.written` the
state that they left and what Perl's Redis::JobQueue read from it.  Where a byte
written now differs, Perl has not read it yet: look whether it should differ,
then record anew (`t/perl/record.py`).
"""

from __future__ import annotations

from typing import Any

import pytest
from support.recordings import rows
from support.samples import FROM_PYTHON
from support.server import Server
from support.states import state_of
from support.strategies import as_perl_has_it
from support.tagged import same, value_of
from support.written import RECORDING, WRITTEN, value_name

from redis_jobqueue import Blessed, JobQueue, ScalarRef

RECORDED = {row["name"]: row for row in rows(RECORDING)}


def test_nothing_is_missing() -> None:
    """Every set of calls has its recording, and none is left over."""
    assert set(WRITTEN) == set(RECORDED)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_bytes_are_the_recorded_ones(name: str, server: Server) -> None:
    """Fields, entries and times to live are what Perl read, apart from ids and times of now."""
    with JobQueue(f"127.0.0.1:{server.port}") as jq, server.client() as client:
        jobs = WRITTEN[name](jq)
        assert RECORDED[name]["state"] == state_of(client, [str(job.id) for job in jobs])


@pytest.mark.parametrize("name", FROM_PYTHON)
def test_perl_read_equal_values(name: str) -> None:
    """What Perl read from each value is that value, as Perl has it."""
    value = FROM_PYTHON[name]
    [loaded] = RECORDED[value_name(name)]["reads"]["load_job"]
    data = value if isinstance(value, (list, tuple, dict, Blessed)) else ScalarRef(value)
    assert same(as_perl_has_it(data), value_of(loaded["workload"])) is None
    assert same(as_perl_has_it(data), value_of(loaded["result"])) is None
    metadata = as_perl_has_it({"value": "" if value is None else value})
    assert same(metadata, value_of(loaded["meta_data"])) is None


@pytest.mark.parametrize("name", WRITTEN)
def test_perl_found_the_jobs(name: str) -> None:
    """Perl listed and took the jobs that the state says are there."""
    row: dict[str, Any] = RECORDED[name]
    state, reads = row["state"], row["reads"]
    there = sorted(each["content"]["id"] for each in state.values() if each["type"] == "hash")
    waiting = [each["content"] for key, each in sorted(state.items()) if each["type"] == "list"]
    assert there == reads["get_job_ids"]
    assert [len(job_ids) for job_ids in waiting] == [n for n in reads["queue_length"] if n]
    assert [[entry.split()[0] for entry in job_ids] for job_ids in waiting] == [
        taken for taken in reads["get_next_job"] if taken
    ]
