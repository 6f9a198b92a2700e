"""Pytest fixtures for tests of programs that use redis_jobqueue.

Installing the package makes them known to pytest; there is nothing to import::

    def test_report(redis_jobqueue):
        my_program.order_report(redis_jobqueue, week=5)
        job = redis_jobqueue.get_next_job(queue="reports")
        assert {"week": 5} == job.workload

They start a real Redis server of the test run's own (see
`redis_jobqueue.embedded` for where its binary comes from); under pytest-xdist
every process has its own.  Nothing is imported or started before a test asks
for a fixture, so a test run that does not need them pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from redis_jobqueue import JobQueue
    from redis_jobqueue.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def redis_jobqueue_server() -> Iterator[EmbeddedServer]:
    """Give a private Redis server for the whole test run; its address is ``.url``."""
    from redis_jobqueue import embedded

    with embedded.start("embedded://") as server:
        yield server


@pytest.fixture
def redis_jobqueue(redis_jobqueue_server: EmbeddedServer) -> Iterator[JobQueue]:
    """Give a JobQueue on that server, emptied before each test."""
    from redis_jobqueue import JobQueue

    redis_jobqueue_server.clear()
    with JobQueue(redis=redis_jobqueue_server.url) as queue:
        yield queue
