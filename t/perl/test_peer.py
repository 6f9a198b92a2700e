"""The measuring instrument: the Perl process describes data as the recordings do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from support.recordings import Row, image_of, rows

from perl.forms import Form, Given, octets
from perl.peer import PerlDied, PerlPeer, PerlQueue

NEEDS_MORE = ("hook", "code", "tied", '"overloaded"', '"restricted"', "Redis::JobQueue::Job")
"""Kinds that need classes or settings which a plain Perl program has not, and the job itself."""


def _images() -> Iterator[Any]:
    """Give the rows that a plain Perl reads."""
    for row in rows("storable"):
        text = json.dumps(row["expect"])
        newer = "v2.1" in str(row.get("perl_without_classes")) or "minor 1" in row["name"]
        if not (newer or row.get("root") or any(kind in text for kind in NEEDS_MORE)):
            yield pytest.param(row, id=row["name"])


IMAGES = list(_images())


def copied(form: Form) -> Form:
    """The form of a copy: a boolean of Perl is a string then."""
    return octets(b"1" if form["v"] else b"") if form["t"] == "bool" else form


@pytest.mark.parametrize("row", IMAGES)
def test_reading(row: Row, perl: PerlQueue, raw: redis.Redis) -> None:
    """A recorded image in a field of metadata is described as it was recorded."""
    raw.hset("JobQueue:id", "image", image_of(row))
    expected = copied(row["expect"])
    if expected.get("of") == "cell":  # the slot that is returned is another one
        expected = {"t": "ref", "v": expected}
    assert [expected] == perl.get_job_data("id", "image")


@pytest.mark.parametrize("row", IMAGES)
def test_building(row: Row, peer: PerlPeer) -> None:
    """Data built from a form is described by the same form."""
    job = peer.job(queue="q", expire=1, meta_data={"m": Given(row["expect"])})
    assert {"m": copied(row["expect"])} == job.meta_data


def test_a_death_is_told(perl: PerlQueue) -> None:
    """What Perl says when it dies comes with the error state, and the process goes on."""
    with pytest.raises(PerlDied) as caught:
        perl.load_job("")
    assert ("Invalid argument", 1) == (
        caught.value.answer.died,
        caught.value.answer.last_errorcode,
    )
    assert 1 == perl.ping()


def test_a_bad_request_is_refused(peer: PerlPeer) -> None:
    """A form that cannot be built is an error of the test, not of the module."""
    with pytest.raises(ValueError, match="cannot build a value of kind hook"):
        peer.job(queue="q", expire=1, workload=Given({"t": "hook"}))
