"""Blocking waits: as long as asked for, woken by a push, and never deaf for ever."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from support.proxy import Proxy
from support.server import Server, eventually
from support.watching import watched

from redis_jobqueue import Job, JobDeletedError, JobQueue, NetworkError, connection
from redis_jobqueue.operations import jobs

pytestmark = pytest.mark.connections

JOB = {"queue": "q", "expire": 60}


@contextmanager
def waiting(client: redis.Redis, jq: JobQueue, *queues: str) -> Iterator[list[Job | None]]:
    """Wait for a job in another thread, which is blocked when the block begins."""
    taken: list[Job | None] = []
    caller = threading.Thread(
        target=lambda: taken.append(jq.get_next_job(queues or "q", blocking=True))
    )
    caller.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
    yield taken
    caller.join(30)
    assert not caller.is_alive(), "the wait does not end"


@pytest.mark.parametrize("form", ["URL", "dict", "client"])
def test_outlives_the_timeout_of_reads(server: Server, form: str) -> None:
    """A wait longer than operation_timeout returns empty, in its own time, with code 0."""
    given = {
        "URL": server.url,
        "dict": {"server": f"127.0.0.1:{server.port}", "read_timeout": 0.2},
        "client": redis.Redis(port=server.port, socket_timeout=0.2),
    }[form]
    with JobQueue(given, timeout=0.5) as jq:
        jq.operation_timeout = 0.1
        begun = time.monotonic()
        assert jq.get_next_job(["a", "b"], blocking=True) is None
        assert 0.45 < time.monotonic() - begun
        assert 0 == jq.last_errorcode
        assert jq.get_next_job_id("a", blocking=True) is None


def test_woken_by_a_push(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """The push itself ends an unlimited wait: the one command that waited is answered."""
    other = JobQueue(server.url)
    with watched(server) as seen, waiting(client, jq, "a", "q", "b") as taken:
        added = other.add_job(JOB)
    assert [added.id] == [job.id for job in taken if job is not None]
    assert 1 == seen.names.count("BLPOP")
    assert 60 >= client.ttl(f"JobQueue:{added.id}") > 0


def test_zero_waits_longer_than_a_slice(
    server: Server, client: redis.Redis, jq: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a limit it waits slice after slice."""
    monkeypatch.setattr(jobs, "WAIT_SLICE", 0.1)
    other = JobQueue(server.url)
    with watched(server) as seen:
        with waiting(client, jq) as taken:
            eventually(lambda: blpops(client) >= 3, "the third slice")
            other.add_job(JOB)
        assert 1 == len(taken) and taken[0] is not None
    assert seen.names.count("BLPOP") >= 3


def blpops(client: redis.Redis) -> int:
    """Return how many BLPOP have ended or run."""
    return int(client.info("commandstats").get("cmdstat_blpop", {"calls": 0})["calls"])


def test_limits_of_all_kinds(jq: JobQueue) -> None:
    """A fraction of a second is waited for; what lies in a queue is taken without waiting."""
    jq.timeout = 0.05
    begun = time.monotonic()
    assert jq.get_next_job("q", blocking=1) is None
    assert 0.04 < time.monotonic() - begun
    jq.timeout = 0
    first, second = jq.add_job(JOB), jq.add_job(JOB)
    assert first.id == jq.get_next_job_id("q", blocking=True)
    assert second.id == jq.get_next_job_id(["a", "q"], blocking=True)


def test_expired_entries_while_waiting(client: redis.Redis, jq: JobQueue) -> None:
    """Entries whose job is gone after its time are skipped, and the wait goes on."""
    other = JobQueue(jq)
    with waiting(client, jq) as taken:
        client.rpush("JobQueue:queue:q", "gone 1")
        eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the wait to go on")
        client.rpush("JobQueue:queue:q", "gone 1", "gone 2")
        added = other.add_job(JOB)
    assert [added.id] == [job.id for job in taken if job is not None]


def test_deleted_while_waiting(client: redis.Redis, jq: JobQueue) -> None:
    """An entry whose job is gone before its time ends the wait with E_JOB_DELETED and its id."""
    found: list[JobDeletedError] = []

    def wait() -> None:
        with pytest.raises(JobDeletedError) as caught:
            jq.get_next_job("q", blocking=True)
        assert 5 == jq.last_errorcode
        found.append(caught.value)

    caller = threading.Thread(target=wait)
    caller.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
    client.rpush("JobQueue:queue:q", "gone")
    caller.join(20)
    assert ["gone"] == [error.job_id for error in found]
    assert "gone job was removed prior to use" == str(found[0])


@pytest.mark.parametrize("timeout", [0.1, 0, None])
def test_dead_peer(
    server: Server, client: redis.Redis, proxy: Proxy, monkeypatch: pytest.MonkeyPatch,
    timeout: float | None,
) -> None:  # fmt: skip
    """A wait without end notices a connection that went silent, within slice and margin."""
    assert (5.0, 5.0, 1.0) == (jobs.WAIT_SLICE, connection.WAIT_MARGIN, connection.LEAST_MARGIN)
    monkeypatch.setattr(jobs, "WAIT_SLICE", 0.5)
    monkeypatch.setattr(connection, "WAIT_MARGIN", 1.5)
    jq = JobQueue(proxy.url, operation_timeout=timeout)
    taken: list[Job | None] = []
    errors: list[float] = []

    def work() -> None:
        begun = time.monotonic()
        while not taken:
            try:
                taken.append(jq.get_next_job("q", blocking=True))
            except NetworkError:
                errors.append(time.monotonic() - begun)
                jq.operation_timeout = 20

    caller = threading.Thread(target=work)
    caller.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
    proxy.silence()
    eventually(lambda: errors, "the wait to notice")
    with JobQueue(server.url) as other:
        added = other.add_job(JOB)
    caller.join(30)
    assert [added.id] == [job.id for job in taken if job is not None]
    assert 1 == len(errors) and 0.5 + 1.0 - 0.1 < errors[0]


def test_ordinary_calls_after_a_wait(server: Server) -> None:
    """A wait leaves its connection with the timeout of ordinary calls, however it ended."""
    with JobQueue(server.url, operation_timeout=7, timeout=0.05) as jq:
        jq.get_next_job("q", blocking=True)
        jq.add_job(JOB)
        jq.get_next_job("q", blocking=True)
        taken = connection.get_connection(jq._driver.pool)
        assert 7 == taken._sock.gettimeout()
        jq._driver.pool.release(taken)


def test_keepalive_is_on(server: Server, jq: JobQueue) -> None:
    """Idle connections are probed by the kernel, where it can, on every redis-py."""
    taken = connection.get_connection(jq._driver.pool)
    try:
        assert 1 == taken._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert 60_000 == taken._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    finally:
        jq._driver.pool.release(taken)


def test_quit_of_another_thread(server: Server, client: redis.Redis, jq: JobQueue) -> None:
    """``quit`` in the middle of another thread's wait ends no call and loses no job."""
    with waiting(client, jq) as taken:
        jq.quit()
        added = jq.add_job(JOB)
    assert [added.id] == [job.id for job in taken if job is not None]
    jq.quit()
    eventually(lambda: len(client.client_list()) == 1, "the end of all connections")


def test_new_timeouts_in_mid_wait(client: redis.Redis, jq: JobQueue) -> None:
    """Setting a timeout in the middle of another thread's wait harms nothing either."""
    with waiting(client, jq) as taken:
        jq.operation_timeout = 20
        jq.connection_timeout = 20
        added = jq.add_job(JOB)
    assert [added.id] == [job.id for job in taken if job is not None]
