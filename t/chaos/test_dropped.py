"""A job that its process lets go is in its queue with the next beat, whatever failed before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import redis
from support.proxy import Proxy
from support.server import Server

from redis_jobqueue import STATUS_COMPLETED, Job, JobQueue, NetworkError, Owner
from redis_jobqueue.lua import SCRIPTS


@pytest.fixture
def _without_collector() -> Iterator[None]:
    """Let nothing be collected that is not simply forgotten."""
    gc.disable()
    yield
    gc.enable()


def fail_to_end(owner: Owner, verb: str, job: Job) -> None:
    """Make a finishing call that gets no answer."""
    with pytest.raises(NetworkError):
        getattr(owner, verb)(job)


@pytest.mark.usefixtures("_without_collector")
@pytest.mark.parametrize("fault", ["refused", "cut", "lost"])
@pytest.mark.parametrize("verb", ["complete", "retry", "save", "begun"])
def test_after_a_failed_call(fault: str, verb: str, server: Server, raw: redis.Redis) -> None:
    """The error and its traceback must not keep the job, and so its token, alive."""
    for body in SCRIPTS.values():  # so that what is lost is no question for a script
        raw.script_load(body.text)
    with Proxy(server) as proxy, JobQueue(proxy.url) as jq, JobQueue(server.url) as near:
        owner = jq.owner(interval=300, lifetime=900).start()
        added = near.add_job({"queue": "q", "expire": 600})
        job = owner.claim("q")
        assert job is not None
        job.message = "changed"
        if fault == "refused":
            proxy.refusing = True
            proxy.cut()
        for _ in range(2):
            if fault == "cut":
                proxy.cut_before(b"EVALSHA")
            elif fault == "lost":
                proxy.lose_reply(b"EVALSHA")
        fail_to_end(owner, verb, job)
        proxy.heal()
        del job
        assert owner.held == []
        owner.beat()
        assert not raw.exists(f"JobQueue:processing:q:{owner.id}")
        done = near.load_job(added)
        assert done is not None
        ended = done.status == STATUS_COMPLETED or near.retrying() != []
        assert ended or not (fault == "lost" and verb in ("complete", "retry"))
        assert ([] if ended else [added.id]) == [row.id for row in near.waiting("q")]
        owner.stop()
