"""Handlers for workers that the tests start."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis_jobqueue import Backoff, Handler, Job


def echo(job: Job) -> Any:
    """Give the workload back."""
    return job.workload


def slow(job: Job) -> str:
    """Take as many seconds as the workload says."""
    ends = time.monotonic() + job.workload
    while time.monotonic() < ends and not job.cancelled:
        time.sleep(0.01)
    return "slept"


def broken(job: Job) -> None:
    """Fail, with a text that no log may show."""
    raise ValueError("the secret of the job")


handlers: dict[Any, Handler | Callable[[Job], Any]] = {
    "echo": echo, "slow": slow, "broken": Handler(broken, retries=1, backoff=Backoff(0.01)),
    "-x": echo, b"caf\xc3\xa9": echo, b"octets": echo,
    "slowly": Handler(broken, retries=1, backoff=Backoff(600.0)),
}  # fmt: skip
odd = {"echo": echo, b"echo": echo}
number = 5
