"""A queue on a real, empty server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from support.server import Server

from redis_jobqueue import JobQueue


@pytest.fixture
def jq(server: Server) -> Iterator[JobQueue]:
    """Return a queue on an empty server."""
    with JobQueue(server.url) as queue:
        yield queue


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """Return a plain client of the same server."""
    with server.client() as client:
        yield client
