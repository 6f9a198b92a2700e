"""The command on a server of its own: in this process, and as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import redis
from click.testing import CliRunner
from support.server import Server

from redis_jobqueue import JobQueue
from redis_jobqueue.cli import program

COMMAND = [sys.executable, "-m", "redis_jobqueue"]
PLAIN = {
    name: value for name, value in os.environ.items()
    if not name.startswith("REDIS_") and name not in ("NO_COLOR", "TERM", "COLUMNS")
}  # fmt: skip
APP = Path(__file__).parent


@attrs.frozen
class Done:
    """What a run of the command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


@pytest.fixture
def jq(server: Server) -> Iterator[JobQueue]:
    """Return a queue object on an empty server."""
    with JobQueue(server.url) as queue:
        yield queue


@pytest.fixture
def raw(server: Server) -> Iterator[redis.Redis]:
    """Return a plain client that gives bytes."""
    with server.client() as client:
        yield client


@pytest.fixture
def run(server: Server) -> Callable[..., Done]:
    """Return a function that runs the command in this process, 80 columns wide."""

    def invoke(*words: str, code: int = 0, text: str | bytes | None = None) -> Done:
        done = CliRunner().invoke(
            program, words, input=text, prog_name="redis-jobqueue",
            env={"REDIS_URL": server.url, "COLUMNS": "80", "NO_COLOR": "1"},
        )  # fmt: skip
        assert code == done.exit_code, (done.output, done.exception)
        return Done(done.exit_code, done.stdout, done.stderr)

    return invoke


def process(
    url: str | None, *words: str, text: str | None = None, **environment: str
) -> Done:
    """Run the command as a process to its end."""
    where = {} if url is None else {"REDIS_URL": url}
    done = subprocess.run(
        [*COMMAND, *words], env={**PLAIN, **where, **environment}, input=text,
        capture_output=True, text=True, timeout=60, cwd=APP,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)
