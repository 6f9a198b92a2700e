"""``jq.wait``: a producer waits for the end of its job, whoever works on it."""

from __future__ import annotations

import time

import pytest
import redis
from support.proxy import Proxy
from support.server import Server, eventually
from support.watching import watched

from claims.tools import PREFIX, Caller, add, calls, claimed
from redis_jobqueue import ArgumentError, Job, JobQueue, NetworkError, Owner, waiting, watching

pytestmark = pytest.mark.connections


@pytest.fixture(params=["tracking", "polling"])
def way(
    request: pytest.FixtureRequest, server: Server, client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> str:  # fmt: skip
    """Return how it waits; where it tracks nothing but a push can wake it in time."""
    monkeypatch.setattr(waiting, "ARMED", 600.0)
    if request.param == "tracking":
        monkeypatch.setattr(watching, "LOOKS", 2)
    else:
        monkeypatch.setattr(watching, "LOOKS", 1 << 60)
    return str(request.param)


def started(jq: JobQueue, client: redis.Redis, job: Job, way: str) -> Caller:
    """Let a thread wait, and wait until it does."""
    caller = Caller(lambda: jq.wait(job, 60)).start()
    if way == "tracking":
        eventually(lambda: any("t" in each["flags"] and each["cmd"] == "hget"
                               for each in client.client_list()), "it is told")  # fmt: skip
    else:
        before = calls(client).get("hget", 0)
        eventually(lambda: calls(client).get("hget", 0) > before + 3, "it looks")
    assert caller.running
    return caller


@pytest.mark.parametrize("ending", ["complete", "fail", "bury"])
def test_it_ends(
    ending: str, way: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """The job as it is then comes back, with its result."""
    job = add(jq)
    held = claimed(owner)
    caller = started(jq, client, job, way)
    held.progress = 0.5
    held.save()
    held.result = {"sum": 7}
    getattr(owner, ending)(held)
    found = caller.get()
    assert (job.id, {"sum": 7}, held.status) == (found.id, found.result, found.status)


@pytest.mark.parametrize("status", ["__completed__", "__failed__"])
def test_it_ends_in_perl(
    status: str, way: str, jq: JobQueue, client: redis.Redis
) -> None:
    """A job that a Perl consumer took and updated: in a transaction, field by field."""
    job = add(jq)
    client.lpop(PREFIX + "queue:q")
    caller = started(jq, client, job, way)
    with client.pipeline() as pipe:
        pipe.expire(PREFIX + str(job.id), 60)
        pipe.hset(PREFIX + str(job.id), "message", "by Perl")
        pipe.hset(PREFIX + str(job.id), "status", status)
        pipe.execute()
    found = caller.get()
    assert (status, "by Perl") == (found.status, found.message)


def test_it_goes(way: str, jq: JobQueue, client: redis.Redis) -> None:
    """A deleted job gives None; so does one whose time to live ends."""
    job = add(jq)
    caller = started(jq, client, job, way)
    jq.delete_job(job)
    assert caller.get() is None
    job = add(jq)
    caller = started(jq, client, job, way)
    client.pexpire(PREFIX + str(job.id), 50)
    assert caller.get() is None


def test_what_is_no_end(way: str, jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A retry, a status of one's own and a new owner are no end."""
    job = add(jq)
    caller = started(jq, client, job, way)
    owner.release(claimed(owner))
    held = claimed(owner)
    held.status = "half way"
    held.save()
    owner.retry(held)
    assert [job.id] == eventually(lambda: jq.promote_due().jobs, "it is due")
    assert caller.running
    owner.complete(claimed(owner))
    assert "__completed__" == caller.get().status


def test_the_time_is_over(jq: JobQueue) -> None:
    """After the timeout the job comes back as it is; at once if it has ended, or is not there."""
    job = add(jq)
    begins = time.monotonic()
    found = jq.wait(job, 0.4)
    assert found is not None
    assert "__created__" == found.status
    assert time.monotonic() - begins >= 0.4
    assert jq.wait("nobody") is None
    job.status = "__failed__"
    jq.update_job(job)
    assert jq.wait(job.id) is not None
    for bad in (-1, "5", True):
        with pytest.raises(ArgumentError):
            jq.wait(job, bad)  # type: ignore[arg-type]


def test_what_it_costs(server: Server, jq: JobQueue) -> None:
    """A few looks, then one look of three commands for each change and every five seconds."""
    job = add(jq)
    with watched(server) as seen:
        jq.wait(job, 2)
    assert watching.LOOKS <= seen.names.count("HGET") <= watching.LOOKS + 3


def test_where_tracking_is_refused(server: Server, client: redis.Redis, owner: Owner) -> None:
    """It goes on looking, with growing pauses."""
    client.execute_command("ACL", "SETUSER", "user", "on", ">secret", "~*", "&*", "+@all",
                           "-client")  # fmt: skip
    with JobQueue(f"redis://user:secret@127.0.0.1:{server.port}") as jq:
        job = add(jq)
        with watched(server) as seen:
            jq.wait(job, 2)
        assert 8 <= seen.names.count("HGET") <= 20
        caller = Caller(lambda: jq.wait(job)).start()
        owner.complete(claimed(owner))
        assert "__completed__" == caller.get().status


def test_connections_that_end(
    way: str, server: Server, client: redis.Redis, owner: Owner
) -> None:
    """A wait goes on when its connections are killed, and raises when the server is gone."""
    with JobQueue(server.url) as jq:
        job = add(jq)
        caller = started(jq, client, job, way)
        if way == "tracking":
            for flag in "tP":
                for each in client.client_list():
                    if flag in each["flags"]:
                        client.client_kill_filter(_id=each["id"])
        owner.complete(claimed(owner))
        assert "__completed__" == caller.get().status


def test_without_a_server(own_server: Server) -> None:
    """Where nothing can be asked any more it raises NetworkError."""
    with Proxy(own_server) as proxy, JobQueue(proxy.url, connection_timeout=1) as jq:
        job = add(jq)
        caller = Caller(lambda: jq.wait(job)).start()
        eventually(lambda: proxy.connections >= 1 and proxy.received > 100, "it looks")
        proxy.refusing = True
        proxy.cut()
        with pytest.raises(NetworkError):
            caller.get()
