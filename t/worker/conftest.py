"""Workers of a test's own: in a thread, or as a process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.server import Server
from support.workers import Process

from redis_jobqueue import JobQueue, Worker


@pytest.fixture
def jq(server: Server) -> Iterator[JobQueue]:
    """Return a queue object on an empty server."""
    with JobQueue(server.url) as queue:
        yield queue


@pytest.fixture
def start(server: Server) -> Iterator[Callable[..., Process]]:
    """Return a function that starts a worker process."""
    made: list[Process] = []

    def begin(url: str = server.url, **options: Any) -> Process:
        made.append(Process(url, **options))
        return made[-1]

    yield begin
    for each in made:
        if each.popen.poll() is None:
            each.signal(signal.SIGKILL)
        each.popen.communicate()


@pytest.fixture
def work(jq: JobQueue) -> Iterator[Callable[..., Worker]]:
    """Return a function that runs a worker in a thread until the test ends."""
    running: list[tuple[Worker, threading.Thread]] = []

    def begin(handlers: Any, **options: Any) -> Worker:
        worker = Worker(jq, handlers, **{"interval": 0.2, "lifetime": 2.0, **options})
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        running.append((worker, thread))
        return worker

    yield begin
    for worker, _ in running:
        worker.kill()
    for _, thread in running:
        thread.join(20)
        assert not thread.is_alive()
