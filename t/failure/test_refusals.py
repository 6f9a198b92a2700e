"""The server answers, and refuses: full, read-only, loading, not allowed, the wrong type."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
import redis
from sizes import Size
from support.calls import CALLS, READING, WRITING
from support.server import Server, eventually, free_port

from failure.tools import JOB, dump, refused, user
from redis_jobqueue import (
    E_MAX_MEMORY_LIMIT,
    E_NO_ERROR,
    E_REDIS,
    Job,
    JobQueue,
    JobQueueError,
    MaxMemoryError,
    RedisError,
)
from redis_jobqueue.operations.request import Command

pytestmark = pytest.mark.connections

# -- full --------------------------------------------------------------------


@pytest.fixture
def full(server: Server, client: redis.Redis) -> Iterator[tuple[JobQueue, list[Job]]]:
    """Return a queue with three jobs on a server that takes no more."""
    jq = JobQueue(server.url)
    jobs = [jq.add_job(JOB) for _ in range(3)]
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    yield jq, jobs
    client.config_set("maxmemory", 0)


@pytest.mark.parametrize("warm", [True, False])
def test_full_add(full: tuple[JobQueue, list[Job]], client: redis.Redis, warm: bool) -> None:
    """Adding to a full server is E_MAX_MEMORY_LIMIT and leaves nothing half written."""
    jq, _ = full
    if not warm:
        client.script_flush()
    before = dump(client)
    for _ in range(2):
        with pytest.raises(MaxMemoryError) as caught:
            jq.add_job(JOB | {"meta_data": {f"m{i}": "x" for i in range(2000)}})
        assert E_MAX_MEMORY_LIMIT == caught.value.code == jq.last_errorcode
        assert "Command not allowed when used memory > 'maxmemory'" == jq.last_error
    assert before == dump(client)


def test_full_update(full: tuple[JobQueue, list[Job]], client: redis.Redis) -> None:
    """Updating on a full server writes nothing, and the changes stay marked."""
    jq, (job, *_) = full
    before = dump(client)
    job.message = "x"
    del job.meta_data["tag"]
    with pytest.raises(MaxMemoryError):
        jq.update_job(job)
    assert before == dump(client)
    assert ["message", "updated", "tag"] == job.modified_attributes()
    client.config_set("maxmemory", 0)
    assert 3 == jq.update_job(job)


def test_full_drains(full: tuple[JobQueue, list[Job]], client: redis.Redis) -> None:
    """Taking and deleting work on a full server, blocking or not, also as its first scripts."""
    jq, jobs = full
    client.script_flush()
    taken = jq.get_next_job("q")
    assert taken is not None and jobs[0].id == taken.id
    assert jobs[1].id == jq.get_next_job_id("q", blocking=True)
    assert jq.delete_job(jobs[2])
    assert jq.delete_job(jobs[1])
    assert 0 == jq.queue_length("q")
    assert [jobs[0].id] == jq.get_job_ids()
    assert {"length": 0, "all_jobs": 1} == jq.queue_status("q")


def test_full_while_waiting(full: tuple[JobQueue, list[Job]], client: redis.Redis) -> None:
    """A consumer that waits on a full server gets the job that comes."""
    jq, jobs = full
    while jq.get_next_job("q"):
        pass
    taken: list[Job | None] = []
    waiting = threading.Thread(target=lambda: taken.append(jq.get_next_job("q", blocking=True)))
    waiting.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
    pipe = client.pipeline(transaction=False)  # in one piece: the server is full again at once
    pipe.config_set("maxmemory", 0).rpush("JobQueue:queue:q", str(jobs[1].id))
    pipe.config_set("maxmemory", 1).execute()
    waiting.join(20)
    assert [jobs[1].id] == [job.id for job in taken if job is not None]


# -- a replica ---------------------------------------------------------------


def test_read_only(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """A server that became a replica refuses to write, is left, and works again once promoted."""
    job = jq.add_job(JOB)
    before = dump(client)
    client.replicaof("127.0.0.1", str(free_port()))
    for call in READING.values():
        call(jq, job)
        assert E_NO_ERROR == jq.last_errorcode
    for call in WRITING.values():
        opened = client.info("stats")["total_connections_received"]
        refused(jq, lambda: call(jq, job), "READONLY")
        assert jq.queue_length("q") == 1
        assert opened + 1 == client.info("stats")["total_connections_received"], "a new connection"
    assert before == dump(client)
    client.replicaof("NO", "ONE")
    for call in CALLS.values():
        call(jq, job)
        assert E_NO_ERROR == jq.last_errorcode


def test_demoted_while_waiting(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """A blocked wait on a server that becomes a replica ends at once with the server's words."""
    found: list[BaseException] = []

    def wait() -> None:
        with pytest.raises(RedisError, match="UNBLOCKED") as caught:
            jq.get_next_job("q", blocking=True)
        found.extend([caught.value, Exception(jq.last_errorcode)])

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
    client.replicaof("127.0.0.1", str(free_port()))
    waiting.join(20)
    assert 2 == len(found) and (E_REDIS,) == found[1].args
    client.replicaof("NO", "ONE")
    jq.add_job(JOB)
    assert jq.get_next_job("q", blocking=True) is not None


def test_stale_replica(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """A replica that lost its master and serves nothing is E_REDIS too."""
    job = jq.add_job(JOB)
    client.config_set("replica-serve-stale-data", "no")
    client.replicaof("127.0.0.1", str(free_port()))
    try:
        for call in CALLS.values():
            refused(jq, lambda: call(jq, job), "MASTERDOWN")
    finally:
        client.replicaof("NO", "ONE")
    assert 1 == jq.queue_length("q")


# -- loading, busy, misconfigured ----------------------------------------------


def test_loading(own_server: Server) -> None:
    """A server that still reads its data says LOADING; the connection is good when it is done."""
    with own_server.client() as client:
        client.config_set("rdbcompression", "no")
        pipe = client.pipeline(transaction=False)
        for number in range(1500):
            pipe.set(f"key:{number}", "x" * 20_000)
        pipe.execute()
    jq = JobQueue(own_server.url)
    job = jq.add_job(JOB)
    # It answers every 2 MB that it has read, Redis 7 as often as we like.
    calls = [CALLS["add_job"], CALLS["load_job"]]
    own_server.options["key_load_delay"] = 1000
    if own_server.version >= (7, 0):
        calls = list(CALLS.values())
        own_server.options["loading_process_events_interval_bytes"] = 50_000
    own_server.stop(save=True)
    starting = threading.Thread(target=own_server.start)
    starting.start()
    try:
        with own_server.client() as client:
            eventually(lambda: loading(client), "the server to load")
        fresh = JobQueue(own_server.url)
        for call in calls:
            refused(fresh, lambda: call(fresh, job), "LOADING")
            assert not fresh.ping()
    finally:
        starting.join(60)
    for call in CALLS.values():
        call(fresh, job)
        assert E_NO_ERROR == fresh.last_errorcode


def loading(client: redis.Redis) -> bool:
    """Tell whether the server is up and still loading."""
    try:
        return bool(client.info("persistence")["loading"])
    except redis.ConnectionError:
        return False


def test_busy(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """A server held by a script answers BUSY; afterwards the same connections work."""
    job = jq.add_job(JOB)
    client.config_set("lua-time-limit", 10)
    with server.client() as other:
        holding = threading.Thread(target=lambda: pytest.raises(
            redis.ResponseError, other.eval, "while true do end", 0))  # fmt: skip
        holding.start()
        try:
            eventually(lambda: busy(client), "the script to hold the server")
            for call in CALLS.values():
                refused(jq, lambda: call(jq, job), "BUSY")
                assert not jq.ping()
        finally:
            client.script_kill()
            holding.join(20)
        opened = client.info("stats")["total_connections_received"]
        for call in CALLS.values():
            call(jq, job)
        assert opened == client.info("stats")["total_connections_received"]


def busy(client: redis.Redis) -> bool:
    """Tell whether the server is held by a script."""
    try:
        return not client.ping()
    except redis.ResponseError as error:
        return "BUSY" in str(error)


def test_cannot_save(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """A server that cannot save refuses to write: E_REDIS, nothing half written."""
    job = jq.add_job(JOB)
    before = dump(client)
    client.config_set("min-replicas-to-write", 1)
    for call in WRITING.values():
        refused(jq, lambda: call(jq, job), "NOREPLICAS")
    assert before == dump(client)
    client.config_set("min-replicas-to-write", 0)
    assert 1 == jq.queue_length("q")


def test_too_many_clients(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """A server that takes no more connections is an error at once, and works again later."""
    jq.quit()
    here = client.info("clients")["connected_clients"]
    client.config_set("maxclients", max(here, 1))
    with pytest.raises(JobQueueError, match="max number of clients|Could not connect"):
        jq.queue_length("q")
    client.config_set("maxclients", 1000)
    assert 0 == jq.queue_length("q")


def test_too_many_clients_for_a_new_queue(server: Server, client: redis.Redis, size: Size) -> None:
    """A new queue is told so in the server's words, whoever of the two speaks first."""
    client.config_set("maxclients", max(client.info("clients")["connected_clients"], 1))
    for _ in range(20 * size.rounds):
        with pytest.raises(RedisError, match=r"max number of clients reached$") as caught:
            JobQueue(f"127.0.0.1:{server.port}")
        assert E_REDIS == caught.value.code
    client.config_set("maxclients", 1000)
    assert 0 == JobQueue(f"127.0.0.1:{server.port}").queue_length("q")


@pytest.mark.parametrize(
    "answer",
    ["ERR unknown", "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "TRYAGAIN not now",
     "CROSSSLOT Keys in request don't hash to the same slot", "CLUSTERDOWN The cluster is down",
     "MASTERDOWN Link with MASTER is down", "READONLY You can't write", "LOADING the dataset",
     "NOSCRIPT No matching script", "OOM is near", "NOPERM this user", "EXECABORT discarded",
     "NOAUTH Authentication required.", "WRONGPASS invalid username-password pair",
     "WRONGTYPE Operation", "BUSY running a script", "MISCONF cannot save", "NOREPLICAS write",
     "UNBLOCKED force unblock"],
)  # fmt: skip
def test_an_answer_is_shown_whole(answer: str, jq: JobQueue) -> None:
    """The first word of what a server answers is shown, also where redis-py takes it off."""
    request = Command((b"EVAL", b"return redis.error_reply(ARGV[1])", 0, answer.encode()))
    with pytest.raises(RedisError, match=rf"^\[EVAL\] {re.escape(answer)}$"):
        jq._driver.send(request)
    assert jq._driver.send(Command((b"PING",))) == b"PONG"


# -- not allowed -------------------------------------------------------------


def test_without_config(server: Server, client: redis.Redis) -> None:
    """Where CONFIG and INFO are not allowed, check_maxmemory=False does without; all else works."""
    user(client, "~JobQueue:*", "+@all", "-config", "-info")
    url = f"redis://worker:secret@127.0.0.1:{server.port}"
    with pytest.raises(RedisError, match="NOPERM.*check_maxmemory=False"):
        JobQueue(url)
    with JobQueue(url, check_maxmemory=False) as jq:
        job = jq.add_job(JOB)
        for call in CALLS.values():
            call(jq, job)
            assert E_NO_ERROR == jq.last_errorcode


def test_least_rights(server: Server, client: redis.Redis) -> None:
    """These commands on the namespace's keys are all that the Perl API needs."""
    words = (
        "eval evalsha hgetall hmget hkeys llen lrange scan blpop type exists hmset hset hget "
        "hdel expire persist ttl del rpush lpush lpop lrem zrem smembers sismember ping"
    )
    user(client, "~JobQueue:*", "-@all", *(f"+{word}" for word in words.split()))
    url = f"redis://worker:secret@127.0.0.1:{server.port}"
    with JobQueue(url, check_maxmemory=False, timeout=1) as jq:
        job = jq.add_job(JOB)
        jq.add_job(JOB, LPUSH=True)
        for call in CALLS.values():
            call(jq, job)
        assert jq.get_next_job("none", blocking=True) is None


def test_other_keys_are_not_allowed(server: Server, client: redis.Redis) -> None:
    """A user of other keys gets NOPERM for every call that names one, and nothing is written."""
    user(client, "~Other:*", "+@all")
    with JobQueue(server.url) as jq:
        job = jq.add_job(JOB)
    before = dump(client)
    with JobQueue(f"redis://worker:secret@127.0.0.1:{server.port}") as jq:
        for name in ("add_job", "update_job", "get_next_job", "delete_job", "load_job"):
            refused(jq, lambda: CALLS[name](jq, job), "NOPERM|can't access|No permission")
    assert before == dump(client)


# -- scripts forgotten ---------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_scripts_forgotten(client: redis.Redis, jq: JobQueue, name: str) -> None:
    """A server that forgot the scripts is told them again, unseen, and the call happens once."""
    job = jq.add_job(JOB)
    jq.add_job(JOB)
    for _ in range(2):
        length = jq.queue_length("q")
        client.script_flush()
        result = CALLS[name](jq, job)
        assert E_NO_ERROR == jq.last_errorcode
        change = {"add_job": 1, "get_next_job": -1, "get_next_job_id": -1, "delete_job": -1}
        if name != "delete_job" or result:
            assert length + change.get(name, 0) == jq.queue_length("q")


def test_scripts_forgotten_while_waiting(client: redis.Redis, jq: JobQueue) -> None:
    """The same in the middle of a blocking call."""
    taken: list[Job | None] = []
    waiting = threading.Thread(target=lambda: taken.append(jq.get_next_job("q", blocking=True)))
    waiting.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
    client.script_flush()
    added = jq.add_job(JOB)
    client.script_flush()
    waiting.join(20)
    assert [added.id] == [job.id for job in taken if job is not None]
