"""Handlers that a worker in a process of its own runs: ``python app.py URL options``.

What a job does is in its workload: ``{"do": name, ...}``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from redis_jobqueue import Backoff, Handler, Job, JobQueue, Worker, current_job

BEGUN = "begun"


def sleep(job: Job) -> str:
    """Take ``seconds``, in small steps; stop early if told so.  Says that it has begun."""
    job.message = BEGUN
    job.save()
    ends = time.monotonic() + job.workload["seconds"]
    while time.monotonic() < ends:
        if job.cancelled:
            return "stopped"
        time.sleep(0.01)
    return "slept"


def touch(job: Job) -> str:
    """Write a line into a file, then take ``seconds``."""
    with Path(job.workload["file"]).open("a") as file:
        file.write(f"{job.id} {os.getpid()} {job.attempt}\n")
    time.sleep(job.workload.get("seconds", 0))
    assert current_job() is job
    return "touched"


def kill(job: Job) -> None:
    """Kill the process, without a word."""
    os._exit(137)


def run(job: Job) -> Any:
    """Do what the workload says."""
    return {"sleep": sleep, "touch": touch, "kill": kill}[job.workload["do"]](job)


def main() -> int:
    """Run a worker and give its exit code."""
    options: dict[str, Any] = json.loads(sys.argv[2])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    handled = Handler(run, retries=options.pop("retries", 3), backoff=Backoff(0.05))
    jq = JobQueue(sys.argv[1], operation_timeout=2, connection_timeout=2)
    worker = Worker(jq, {"work": handled}, **{"interval": 0.3, "lifetime": 2.5, **options})
    print("started", flush=True)
    return worker.run()


if __name__ == "__main__":
    sys.exit(main())
