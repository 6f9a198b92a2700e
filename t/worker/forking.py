"""A worker with child processes, to be killed in parts: ``python forking.py URL options``.

A workload is a mapping: ``say`` is printed, into ``file`` go the numbers of the
process, of its parent and of the attempt; then the job lasts until there is a
file ``until``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from redis_jobqueue import Job, JobQueue, Worker


def run(job: Job) -> str:
    """Do what the workload says."""
    todo = job.workload
    if "say" in todo:
        print(todo["say"])
    if "file" in todo:
        with Path(todo["file"]).open("a") as file:
            file.write(f"{os.getpid()} {os.getppid()} {job.attempt}\n")
    while "until" in todo and not Path(todo["until"]).exists():
        time.sleep(0.01)
    return "done"


class Forking:
    """Forks a process that holds all sockets of the worker, for half a minute, but no output."""

    def before(self, job: Job) -> None:
        """Fork."""
        if os.fork() == 0:
            os.close(1)
            os.close(2)
            time.sleep(30)
            os._exit(0)

    def after(self, job: Job, result: Any) -> None:
        """Do nothing."""

    def on_error(self, job: Job, error: BaseException) -> None:
        """Do nothing."""


def main() -> int:
    """Run a worker and give its exit code."""
    options: dict[str, Any] = json.loads(sys.argv[2])
    middleware = [Forking()] if options.pop("fork", False) else []
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    jq = JobQueue(sys.argv[1], operation_timeout=2, connection_timeout=2)
    worker = Worker(jq, {"work": run}, middleware=middleware,
                    **{"interval": 0.3, "lifetime": 2.5, **options})  # fmt: skip
    print("started", flush=True)
    print("before")  # which nobody has written out when the first process is forked
    return worker.run()


if __name__ == "__main__":
    sys.exit(main())
