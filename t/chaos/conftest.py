"""Fixtures of the chaos tests: queues and plain clients on the server of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from support.server import Server

from redis_jobqueue import JobQueue

pytest.register_assert_rewrite("chaos.rules", "chaos.consumers", "chaos.ending", "chaos.fleet")


@pytest.fixture
def jq(server: Server) -> Iterator[JobQueue]:
    """Return a queue on the server of this test."""
    with JobQueue(server.url) as queue:
        yield queue


@pytest.fixture
def raw(server: Server) -> Iterator[redis.Redis]:
    """Return a plain client that gives bytes."""
    with server.client() as client:
        yield client
