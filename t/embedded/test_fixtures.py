"""The pytest fixtures that users of the package get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.server import eventually, gone

SERVER_TESTS = """
import redis

def test_one(redis_jobqueue_server):
    with redis.Redis.from_url(redis_jobqueue_server.url) as client:
        assert client.set("key", "value")

def test_two(redis_jobqueue_server):
    with redis.Redis.from_url(redis_jobqueue_server.url) as client:
        assert b"value" == client.get("key")
    print("server", redis_jobqueue_server.pid, "end")
"""

QUEUE_TESTS = """
import pytest

@pytest.mark.parametrize("time", [1, 2])
def test_queue(redis_jobqueue, redis_jobqueue_server, time):
    assert [] == redis_jobqueue.get_job_ids()
    redis_jobqueue.add_job({"queue": "reports", "workload": ["some", "data"], "expire": 60})
    job = redis_jobqueue.get_next_job(queue="reports")
    assert ["some", "data"] == job.workload
    print("server", redis_jobqueue_server.pid, "end")
"""

OTHER_TESTS = """
import sys

def test_other():
    assert "redis_jobqueue.embedded" not in sys.modules
"""


def run(folder: Path, text: str, **environment: str) -> str:
    """Run tests of a project of its own and return pytest's output."""
    (folder / "test_users.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", "test_users.py"],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert 0 == done.returncode, done.stdout
    return done.stdout


@pytest.mark.parametrize("text", [SERVER_TESTS, QUEUE_TESTS], ids=["server", "queue"])
def test_fixtures(tmp_path: Path, text: str) -> None:
    """Tests get a server and an empty queue without importing anything; it ends with the run."""
    output = run(tmp_path, text)
    assert "2 passed" in output
    pids = {int(line.split()[1]) for line in output.splitlines() if line.startswith("server ")}
    assert 1 == len(pids)
    eventually(lambda: gone(pids.pop()), "the end of the server")


def test_other_projects_notice_nothing(tmp_path: Path) -> None:
    """A project that uses no fixture starts no server and needs none."""
    assert "1 passed" in run(tmp_path, OTHER_TESTS, PATH="")
