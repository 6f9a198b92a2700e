"""The real Perl module beside the package: one Perl process for all tests of a run.

Everything here is skipped where ``perl -MRedis::JobQueue -e1`` does not work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from support.server import Server

from perl.peer import PATIENT, PerlPeer, PerlQueue, missing
from redis_jobqueue import JobQueue


@pytest.fixture(scope="session")
def _peer() -> Iterator[PerlPeer]:
    if reason := missing():
        pytest.skip(reason)
    with PerlPeer() as peer:
        yield peer


@pytest.fixture
def peer(_peer: PerlPeer) -> PerlPeer:
    """Return the Perl process, without objects of earlier tests."""
    _peer.forget()
    return _peer


@pytest.fixture
def perl(peer: PerlPeer, server: Server) -> PerlQueue:
    """Return a queue of the real module on the server of this test."""
    return peer.queue(f"127.0.0.1:{server.port}", **PATIENT)


@pytest.fixture
def jq(server: Server) -> Iterator[JobQueue]:
    """Return a queue of ours on the same server."""
    with JobQueue(f"127.0.0.1:{server.port}") as queue:
        yield queue


@pytest.fixture
def raw(server: Server) -> Iterator[redis.Redis]:
    """Return a plain client that gives bytes."""
    with server.client() as client:
        yield client
