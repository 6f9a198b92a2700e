"""Worker processes of a test's own, that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis_jobqueue import Job, JobQueue

APP = Path(__file__).parents[1] / "worker" / "app.py"


def eventually(check: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Return the first true answer of a check; fail if there is none in time."""
    ends = time.monotonic() + seconds
    while not (answer := check()):
        assert time.monotonic() < ends, f"not within {seconds} s: {check}"
        time.sleep(0.01)
    return answer


class Process:
    """A worker in a process; ``app`` has its handlers."""

    def __init__(self, url: str, app: Path = APP, **options: Any) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, str(app), url, json.dumps(options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": ""},  # what it prints it keeps for a while
        )  # fmt: skip
        assert self.popen.stdout is not None
        assert "started\n" == self.popen.stdout.readline()

    def signal(self, number: int) -> None:
        """Send a signal to the worker alone."""
        os.kill(self.popen.pid, number)

    def end(self, seconds: float = 20.0) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it logged."""
        _, errors = self.popen.communicate(timeout=seconds)
        return self.popen.returncode, errors


def ended(jq: JobQueue, job: Job, status: str) -> Job:
    """Wait until a job has this status; return it as it is then."""
    eventually(lambda: jq.get_job_data(job, "status") == status)
    found = jq.load_job(job)
    assert found is not None
    return found
