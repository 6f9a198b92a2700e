"""An owner that nobody refers to any more: it stops beating, and others recover what it held."""

from __future__ import annotations

import gc

from support.server import Server
from support.workers import eventually

from redis_jobqueue import JobQueue


def test_a_forgotten_owner_lapses(server: Server) -> None:
    """Its beat ends by itself, and its job is back in the queue after a recovery."""
    jq = JobQueue(server.url)
    job = jq.add_job({"queue": "q", "expire": 600})
    owner = jq.owner(interval=0.05, lifetime=0.3).start()
    held = owner.claim("q")
    assert held is not None and [owner.id] == jq.live_owners()
    del owner, held
    gc.collect()
    eventually(lambda: not jq.live_owners())
    assert 1 == jq.recover().jobs
    assert ["waiting"] == [place.kind for place in jq.locate(job)]
