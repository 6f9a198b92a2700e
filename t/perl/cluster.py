"""The Python half of the mixed cluster, as programs of their own.

    cluster.py produce SERVER NAME COUNT QUEUE...
    cluster.py work    SERVER NAME QUEUE...

They do what producer.pl and worker.pl do: a producer prints the ids of its
jobs, a worker works until a job named "stop" comes and prints the id of each
job done.
"""

from __future__ import annotations

import sys
from collections import Counter

from redis_jobqueue import STATUS_COMPLETED, STATUS_WORKING, JobQueue


def produce(server: str, name: str, count: int, queues: list[str]) -> None:
    """Add jobs to the queues in turn."""
    with JobQueue(server) as jq:
        for number in range(1, count + 1):
            job = jq.add_job(
                {
                    "queue": queues[number % len(queues)],
                    "job": "count",
                    "expire": 3600 if number % 3 else 0,
                    "workload": {
                        "text": f"{name} sends " + "caf\xe9 " * number,
                        "numbers": list(range(1, number + 1)),
                    },
                    "meta_data": {"producer": name},
                }
            )
            print(_text(job.id), flush=True)


def work(server: str, name: str, queues: list[str]) -> None:
    """Count words and sum numbers until told to stop."""
    with JobQueue(server, timeout=1) as jq:
        while True:
            job = jq.get_next_job(queue=queues, blocking=True)
            if job is None:
                continue
            if job.job == "stop":
                jq.delete_job(job)
                return
            job.status = STATUS_WORKING
            job.progress = 0.5
            if jq.update_job(job) != 4:
                raise SystemExit(f"{job.id!r} was not updated")

            words = [_text(word) for word in _text(job.workload["text"]).split()]
            job.result = {"sum": sum(job.workload["numbers"]), "words": dict(Counter(words))}
            job.meta_data["worker"] = name
            job.progress = 1
            job.message = f"done by {name}"
            job.status = STATUS_COMPLETED
            if not jq.update_job(job):
                raise SystemExit(f"{job.id!r} was not updated")
            print(job.id, flush=True)


def _text(string: str | bytes) -> str:
    """Perl's producer writes latin1 octets, Python's text."""
    return string.decode("latin-1") if isinstance(string, bytes) else string


if __name__ == "__main__":
    verb, address, own_name, *rest = sys.argv[1:]
    if verb == "produce":
        produce(address, own_name, int(rest[0]), rest[1:])
    else:
        work(address, own_name, rest)
