"""Embedded servers of each version, in folders that go with the test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.server import eventually, find_servers, gone

from redis_jobqueue import embedded


@pytest.fixture
def program(server_version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Leave nothing on PATH but the server program of one version."""
    folder = tmp_path / "bin"
    folder.mkdir()
    name = "valkey-server" if server_version.startswith("valkey") else "redis-server"
    (folder / name).symlink_to(find_servers()[server_version])
    monkeypatch.setenv("PATH", str(folder))
    return server_version


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Return the URL of a shared server; afterwards its process must be gone."""
    folder = tmp_path / "data"
    yield f"embedded://{folder}"
    pid_file = folder / "redis.pid"
    if pid_file.exists():
        pid = int(pid_file.read_text())
        eventually(lambda: gone(pid), "the end of the shared server")


@pytest.fixture
def private() -> Iterator[embedded.EmbeddedServer]:
    """Return a private server; afterwards it and its folder must be gone."""
    with embedded.start("embedded://") as server:
        yield server
    eventually(lambda: gone(server.pid), "the end of the private server")
    eventually(lambda: not os.path.exists(server.folder), "the removal of its folder")
