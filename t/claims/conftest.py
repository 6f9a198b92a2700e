"""A queue on a real, empty server, and owners that do not outlive their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from support.server import Server

from claims.blocking import FOREVER, load_scripts
from redis_jobqueue import JobQueue, JobQueueError, Owner, waiting


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
def new_owner(jq: JobQueue) -> Iterator[Callable[..., Owner]]:
    """Return a function that starts an owner; they are stopped after the test."""
    made: list[Owner] = []

    def make(of: JobQueue | None = None, **options: object) -> Owner:
        made.append((of or jq).owner(**options))  # type: ignore[arg-type]
        return made[-1].start()

    yield make
    for owner in made:
        try:
            owner.stop()
        except JobQueueError:
            owner._heart.stop()  # its server is gone


@pytest.fixture
def owner(new_owner: Callable[..., Owner]) -> Owner:
    """Return a started owner."""
    return new_owner()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no owner look by itself in time: only what should wake it can."""
    monkeypatch.setattr(waiting, "ARMED", FOREVER)
    monkeypatch.setattr(waiting, "TURN", FOREVER)


@pytest.fixture
def known_scripts(client: redis.Redis) -> None:
    """Let the server know all scripts, so that what a client did last tells whether it waits."""
    load_scripts(client)
