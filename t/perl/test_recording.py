"""The committed recording is what the real module reads today."""

from __future__ import annotations

import pytest
import redis
from support.recordings import rows
from support.written import RECORDING, WRITTEN

from perl.peer import PerlQueue
from perl.record import record
from redis_jobqueue import JobQueue

RECORDED = {row["name"]: row for row in rows(RECORDING)}


@pytest.mark.parametrize("name", WRITTEN)
def test_recording(name: str, jq: JobQueue, perl: PerlQueue, raw: redis.Redis) -> None:
    """A new recording would be the committed one; if not, run t/perl/record.py and look."""
    assert RECORDED[name] == record(name, jq, perl, raw)
