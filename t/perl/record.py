#!/usr/bin/env python3
"""Record anew what Python writes and what the real module reads: t/data/python-states.json.

Needs `perl -MRedis::JobQueue -e1` and a Redis server.  Look at the difference
before you commit it: every changed byte is one that Perl programs will see.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

T = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(T))

import redis  # noqa: E402
from support.server import Server  # noqa: E402
from support.states import TIMES, shown_time, state_of  # noqa: E402
from support.written import RECORDING, WRITTEN  # noqa: E402

from perl.forms import string_of  # noqa: E402
from perl.peer import PATIENT, PerlJob, PerlPeer, PerlQueue, missing  # noqa: E402
from redis_jobqueue import JobQueue  # noqa: E402


def record(name: str, jq: JobQueue, perl: PerlQueue, client: redis.Redis) -> dict[str, Any]:
    """Make one row on an empty server; get_next_job takes jobs off in the end."""
    jobs = WRITTEN[name](jq)
    ids = [str(job.id) for job in jobs]
    short = {job_id: f"<{number}>" for number, job_id in enumerate(ids, 1)}
    state = state_of(client, ids)
    queues = {key.split(":", 2)[2] for key in state if key.startswith("JobQueue:queue:")}
    queues |= {each["content"]["queue"] for each in state.values() if each["type"] == "hash"}
    octets = [queue.encode("latin-1") for queue in sorted(queues)]
    return {
        "name": name,
        "state": state,
        "reads": {
            "load_job": [_job(perl.load_job(job_id)) for job_id in ids],
            "get_job_data of the times": [_times(perl, job_id) for job_id in ids],
            "get_job_meta_fields": [sorted(perl.get_job_meta_fields(job_id)) for job_id in ids],
            "get_job_ids": sorted(short[job_id] for job_id in perl.get_job_ids()),
            "get_job_ids queued": [
                sorted(short[job_id] for job_id in perl.get_job_ids(queued=1, queue=queue))
                for queue in octets
            ],
            "queue_length": [perl.queue_length(queue) for queue in octets],
            "queue_status": [
                {name: perl.queue_status(queue)[name] for name in ("all_jobs", "length")}
                for queue in octets
            ],
            "get_next_job": [_taken(perl, queue, short) for queue in octets],
        },
    }


def _job(job: PerlJob | None) -> dict[str, Any] | None:
    if job is None:
        return None
    # Not the times: Perl's load_job sets some of them to now.
    return {k: v for k, v in job.attributes.items() if k not in TIMES and k != "id"}


def _times(perl: PerlQueue, job_id: str) -> list[str | None]:
    now = time.time()
    forms = perl.get_job_data(job_id, *sorted(TIMES))
    return [None if f["t"] == "undef" else shown_time(str(string_of(f)), now) for f in forms]


def _taken(perl: PerlQueue, queue: bytes, short: dict[str, str]) -> list[str]:
    taken = []
    while (job := perl.get_next_job(queue=queue)) is not None:
        taken.append(short[job.id])
    return taken


def text_of(rows: list[dict[str, Any]]) -> str:
    """The recording as it is in the file."""
    lines = (json.dumps(row, sort_keys=True) for row in rows)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main() -> None:
    """Write the file."""
    if reason := missing():
        raise SystemExit(reason)
    rows = []
    with Server.make() as server, PerlPeer() as peer, server.client() as client:
        address = f"127.0.0.1:{server.port}"
        perl = peer.queue(address, **PATIENT)
        with JobQueue(address) as jq:
            for name in WRITTEN:
                client.flushall()
                rows.append(record(name, jq, perl, client))
    path = T / "data" / f"{RECORDING}.json"
    path.write_text(text_of(rows))
    print(f"{path}: {len(rows)} states")


if __name__ == "__main__":
    main()
