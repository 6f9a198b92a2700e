"""A queue on a server that a test may harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from support.proxy import Proxy
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


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Return a proxy in front of the same server."""
    with Proxy(server) as proxy:
        yield proxy
