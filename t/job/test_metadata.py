"""The metadata of a job: a mapping that can be called, and tells what was changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.server import Server

from redis_jobqueue import ArgumentError, Job, JobQueue
from redis_jobqueue.metadata import FIELDS


def fresh(**meta: Any) -> Job:
    """Make a job with metadata, nothing of which is modified."""
    job = Job(queue="q", expire=60, meta_data=meta)
    job.updated = 5
    job.clear_modified()
    return job


def test_calls() -> None:
    """It can be called as in Perl: nothing, a name, a name and a value, a mapping."""
    job = fresh(foo=1)
    assert job.meta_data() is job.meta_data
    assert 1 == job.meta_data("foo")
    assert job.meta_data("none") is None
    job.meta_data("foo", [2])
    assert [2] == job.meta_data("foo")
    assert ["updated", "foo"] == job.modified_attributes()
    job.meta_data("foo", None)  # reads
    assert [2] == job.meta_data["foo"]
    job.meta_data({"bar": 3})
    assert {"bar": 3} == job.meta_data


def test_as_a_mapping() -> None:
    """It is a mutable mapping; setting and deleting mark the name and ``updated``."""
    job = fresh(a=1, b=2)
    meta = job.meta_data
    assert [2, ["a", "b"], True, False] == [len(meta), list(meta), "a" in meta, "c" in meta]
    assert {"a": 1, "b": 2} == meta == dict(meta.items())
    meta["c"] = None
    assert 2 == meta.pop("b")
    assert ["updated", "c", "b"] == job.modified_attributes()
    assert 5 < job.updated
    assert {"a": 1, "c": None} == meta
    meta.update(a=4)
    assert 4 == meta.setdefault("a", 9)
    meta.clear()
    assert not meta
    for missing in ("a", 7, None, [].__len__):
        with pytest.raises(KeyError):
            meta[missing]  # type: ignore[index]
        assert missing not in meta


@pytest.mark.parametrize(("given_name", "stored"), [(5, "5"), (b"foo", "foo"), (0.5, "0.5")])
def test_other_forms_of_a_name(given_name: Any, stored: str) -> None:
    """A number stands for its text and ASCII bytes for theirs, in every use of a name."""
    meta = fresh().meta_data
    meta[given_name] = 1
    assert [stored] == list(meta)
    assert 1 == meta[given_name] == meta[stored] == meta(given_name) == meta.get(given_name)
    assert given_name in meta
    del meta[given_name]
    assert stored not in meta


@pytest.mark.parametrize("name", [*FIELDS, "meta_data", "__x", "__id_in_queue__", b"__x", "__"])
def test_names_of_others(name: Any) -> None:
    """A standard name, or one with two underscores in front, is refused everywhere, code 0."""
    job = fresh(a=1)
    for use in (
        lambda: job.meta_data.__setitem__(name, 1),
        lambda: job.meta_data(name, 1),
        lambda: job.meta_data({"b": 2, name: 1}),
        lambda: setattr(job, "meta_data", {name: 1}),
        lambda: Job(queue="q", expire=1, meta_data={name: 1}),
    ):
        with pytest.raises(ArgumentError) as caught:
            use()
        assert 0 == caught.value.code
    assert {"a": 1} == job.meta_data
    assert [] == job.modified_attributes()


@pytest.mark.parametrize("name", ["elapsed", "_x", "x__", "Status", "", "a b", "caf\xe9", b"\xe9"])
def test_other_names(name: Any) -> None:
    """Any other name will do."""
    job = fresh()
    job.meta_data[name] = 1
    assert {name: 1} == job.meta_data


@pytest.mark.parametrize("name", [None, True, (), object()])
def test_what_is_no_name(name: Any) -> None:
    """Something else is refused, and nothing is changed."""
    job = fresh(a=1)
    with pytest.raises(ArgumentError):
        job.meta_data[name] = 1
    with pytest.raises(ArgumentError):
        job.meta_data = {"b": 1, name: 2}
    assert {"a": 1} == job.meta_data
    assert [] == job.modified_attributes()


def test_replacing_marks_its_names_only() -> None:
    """As in Perl: ``updated`` stays, marks of what was replaced go, the mapping is a copy."""
    job = fresh(a=1)
    job.meta_data["b"] = 2
    job.clear_modified("updated")
    job.updated = 5
    job.clear_modified("updated")
    given_mapping = {"c": 3}
    job.meta_data = given_mapping
    assert ["c"] == job.modified_attributes()
    assert 5 == job.updated
    given_mapping["d"] = 4
    assert {"c": 3} == job.meta_data
    job.meta_data({})
    assert {} == job.meta_data and [] == job.modified_attributes()


def test_a_deletion_outlives_a_replacement() -> None:
    """What was deleted stays marked, for the field is to go from Redis."""
    job = fresh(a=1, b=2)
    del job.meta_data["a"]
    job.meta_data = {"c": 3}
    assert ["updated", "a", "c"] == job.modified_attributes()


NAMES = st.sampled_from(["a", "b", "c", "d"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, st.integers(0, 9)),
        st.tuples(st.just("delete"), NAMES, st.none()),
        st.tuples(st.just("clear"), NAMES, st.none()),
    ),
    max_size=20,
)


@given(CHANGES)
def test_marks_tell_what_differs(changes: list[tuple[str, str, Any]]) -> None:
    """Whatever is done, values are those of a dict; what differs from the start is marked."""
    start = {"a": 0, "b": 1}
    job = fresh(**start)
    model: dict[str, Any] = dict(start)
    cleared = set()
    for kind, name, value in changes:
        if kind == "set":
            job.meta_data[name] = model[name] = value
            cleared.discard(name)
        elif kind == "delete" and name in model:
            del job.meta_data[name], model[name]
            cleared.discard(name)
        elif kind == "clear":
            job.clear_modified(name)
            cleared.add(name)
    assert model == job.meta_data
    differing = {name for name in "abcd" if model.get(name) != start.get(name)}
    assert differing - cleared <= set(job.modified_attributes())


def test_deletion_reaches_redis(server: Server) -> None:
    """A deleted field is deleted from the hash by the update, and counted; others stay."""
    with JobQueue(f"127.0.0.1:{server.port}") as jq, server.client() as client:
        job = jq.add_job({"queue": "q", "expire": 60, "meta_data": {"a": 1, "b": 2, "c": 3}})
        del job.meta_data["a"]
        job.meta_data["b"] = None
        assert 3 == jq.update_job(job)
        assert [] == job.modified_attributes()
        assert 0 == client.hexists(f"JobQueue:{job.id}", "a")
        assert {"b": None, "c": 3} == jq.load_job(job).meta_data  # type: ignore[union-attr]
        job.meta_data = {"d": 4}  # does not delete the others, as in Perl
        assert 1 == jq.update_job(job)
        assert {"b", "c", "d"} == set(jq.get_job_meta_fields(job))
