"""Fixtures for every test: the size of the run, and real servers.

A test that takes ``server`` or ``own_server`` runs once on each version of
`REQUIRED`.  A version that this machine does not have skips the test, but
fails it where the environment variable CI is set.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from sizes import Size, load_profile
from support.server import REQUIRED, Server, find_servers


BEAT = "redis_jobqueue-beat"
"""The name of the threads of `redis_jobqueue.heart`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--size``."""
    parser.addoption("--size", choices=("small", "full"), default="small", help="see t/sizes.py")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run four tests at once, two for each core where there are more: they mostly wait."""
    return max(4, 2 * (os.cpu_count() or 1))


def pytest_configure(config: pytest.Config) -> None:
    """Give Hypothesis the size of this run."""
    load_profile(Size.of(config.getoption("--size")))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background of a script: what we start must know Ctrl-C all the same.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_beat_outlives_its_test() -> Iterator[None]:
    """End the beats of owners that a test left behind: the next one counts connections."""
    yield
    for thread in threading.enumerate():
        if thread.name == BEAT:
            thread._target.__self__._ended.set()  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Size:
    """Return the numbers of this run."""
    return Size.of(request.config.getoption("--size"))


def _versions() -> list[str]:
    """Return what to test on; where a required version is missing, others help out."""
    found = find_servers()
    missing = set(REQUIRED) - set(found)
    return [*REQUIRED, *(sorted(set(found) - set(REQUIRED)) if missing else ())]


@pytest.fixture(scope="session", params=_versions())
def server_version(request: pytest.FixtureRequest) -> str:
    """Return the version that this test runs on."""
    version: str = request.param
    if version not in find_servers():
        message = f"no Redis server {version} on this machine"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return version


@pytest.fixture(scope="session")
def _shared_server(server_version: str) -> Iterator[Server]:
    with Server.make(server_version) as server:
        yield server


@pytest.fixture
def server(_shared_server: Server) -> Server:
    """Return a server without data, with its settings as at its start."""
    _shared_server.reset()
    return _shared_server


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server: ``make_server(version=None, **options)``."""
    made: list[Server] = []

    def make(version: str | None = None, **options: object) -> Server:
        if version is None and not find_servers():
            message = "no Redis server on this machine"
            pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
        made.append(Server.make(version, **options))
        return made[-1].__enter__()

    yield make
    for server in made:
        server.__exit__()


@pytest.fixture
def own_server(make_server: Callable[..., Server], server_version: str) -> Server:
    """Return a server of this test alone, to be killed, frozen or filled."""
    return make_server(server_version)
