"""The server is killed, restarted, frozen: each call says so, and the object lives on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
from support.calls import CALLS, WRITING
from support.server import Server, eventually

from redis_jobqueue import E_NETWORK, E_NO_ERROR, Job, JobQueue, NetworkError

pytestmark = pytest.mark.connections


def lost(jq: JobQueue, call: Callable[[], object]) -> NetworkError:
    """Return the error of a call that cannot work, having checked that it is E_NETWORK."""
    with pytest.raises(NetworkError) as caught:
        call()
    assert E_NETWORK == caught.value.code == jq.last_errorcode
    assert "Error in connection to Redis server" == jq.last_error
    assert isinstance(caught.value, ConnectionError)
    return caught.value


@pytest.mark.parametrize("form", ["URL", "dict"])
def test_killed(own_server: Server, form: str) -> None:
    """Every call raises while there is no server, and works once there is one again."""
    given = own_server.url if form == "URL" else {
        "server": f"127.0.0.1:{own_server.port}", "reconnect": 0.02, "every": 5000
    }  # fmt: skip
    jq = JobQueue(given)
    job = jq.add_job({"queue": "q", "expire": 60})
    own_server.kill()
    for _ in range(2):
        for call in CALLS.values():
            lost(jq, lambda: call(jq, job))
        assert not jq.ping()
        assert E_NO_ERROR == jq.last_errorcode, "ping never fails"
    own_server.start()
    assert jq.ping()
    for call in CALLS.values():
        call(jq, job)
        assert E_NO_ERROR == jq.last_errorcode


@pytest.mark.parametrize("name", CALLS)
def test_restarted_between_calls(own_server: Server, name: str) -> None:
    """The first call after a restart raises and sends nothing; the next one works."""
    jq = JobQueue(own_server.url)
    job = jq.add_job({"queue": "q", "expire": 60})
    own_server.restart()
    error = lost(jq, lambda: CALLS[name](jq, job))
    assert "Not connected to any server" == str(error)
    assert 1 == jq.queue_length("q"), "nothing was done"
    CALLS[name](jq, job)
    assert E_NO_ERROR == jq.last_errorcode


def test_restarted_unseen(own_server: Server) -> None:
    """A queue made from a dict connects anew without an error, as Perl's does."""
    jq = JobQueue({"server": f"127.0.0.1:{own_server.port}", "cnx_timeout": 5, "read_timeout": 20})
    job = jq.add_job({"queue": "q", "expire": 60})
    for call in CALLS.values():
        own_server.restart()
        call(jq, job)
        assert E_NO_ERROR == jq.last_errorcode


def test_down_for_a_moment_unseen(own_server: Server) -> None:
    """A queue made from a dict tries for ``reconnect`` seconds before it gives up."""
    jq = JobQueue(
        {"server": f"127.0.0.1:{own_server.port}", "reconnect": 30, "every": 20_000,
         "cnx_timeout": 5, "read_timeout": 20}
    )  # fmt: skip
    own_server.kill()
    found: list[int] = []
    caller = threading.Thread(target=lambda: found.append(jq.queue_length("q")))
    caller.start()
    own_server.start()
    caller.join(30)
    assert [0] == found


def test_gives_up_after_its_window(own_server: Server) -> None:
    """The window is one of time, not a count of attempts."""
    jq = JobQueue({"server": f"127.0.0.1:{own_server.port}", "reconnect": 0.3, "every": 1000})
    own_server.kill()
    begun = time.monotonic()
    error = lost(jq, lambda: jq.queue_length("q"))
    assert 0.2 < time.monotonic() - begun
    assert f"Could not connect to Redis server at 127.0.0.1:{own_server.port}" in str(error)


def test_without_reconnect(own_server: Server) -> None:
    """With ``reconnect_on_error`` off, all calls raise after one has; quit() starts anew."""
    jq = JobQueue(own_server.url, reconnect_on_error=False)
    job = jq.add_job({"queue": "q", "expire": 60})
    own_server.restart()
    for call in CALLS.values():
        error = lost(jq, lambda: call(jq, job))
        assert "Not connected to any server" == str(error)
        assert not jq.ping()
    jq.reconnect_on_error = True
    lost(jq, lambda: jq.queue_length("q"))
    assert 1 == jq.queue_length("q")


def test_an_error_of_the_server_is_no_lost_connection(own_server: Server) -> None:
    """With ``reconnect_on_error`` off, an answer that is an error ends nothing."""
    jq = JobQueue(own_server.url, reconnect_on_error=False)
    with own_server.client() as client:
        client.set("JobQueue:queue:q", "x")
        with pytest.raises(Exception, match="WRONGTYPE"):
            jq.queue_length("q")
        client.delete("JobQueue:queue:q")
    assert 0 == jq.queue_length("q")


def test_quit_starts_anew(own_server: Server) -> None:
    """After ``quit`` a queue that had given up connects again."""
    jq = JobQueue(own_server.url, reconnect_on_error=False)
    own_server.restart()
    lost(jq, lambda: jq.queue_length("q"))
    jq.quit()
    assert 0 == jq.queue_length("q")


@pytest.mark.parametrize("name", CALLS)
def test_frozen(own_server: Server, name: str) -> None:
    """A server that does not answer is E_NETWORK after operation_timeout; no reply is crossed."""
    jq = JobQueue(own_server.url, operation_timeout=0.2)
    job = jq.add_job({"queue": "q", "expire": 60, "workload": "mine"})
    own_server.pause()
    try:
        error = lost(jq, lambda: CALLS[name](jq, job))
        assert "no answer within the timeout" in str(error)
        assert not jq.ping()
    finally:
        own_server.resume()
    jq.operation_timeout = 20
    assert jq.ping()
    other = jq.add_job({"queue": "other", "expire": 60, "workload": "other"})
    assert "other" == jq.get_job_data(other, "workload")
    if name in WRITING:
        # What was sent is done late, when the server has thawed, or is never done: once at most.
        with own_server.client() as client:
            client.ping()
            assert len(client.keys("JobQueue:*-*")) in (1, 2, 3)


def test_frozen_when_connecting(own_server: Server) -> None:
    """Connecting to a frozen server is bounded by the timeouts too."""
    own_server.pause()
    try:
        with pytest.raises(NetworkError):
            JobQueue(own_server.url, connection_timeout=0.2, operation_timeout=0.2)
    finally:
        own_server.resume()


def test_paused_by_command(own_server: Server) -> None:
    """CLIENT PAUSE is as a frozen server: the call fails soon, a blocking wait is not cut short."""
    jq = JobQueue(own_server.url, operation_timeout=0.5, timeout=3)
    taken: list[Job | None] = []
    with own_server.client() as client:
        waiting = threading.Thread(target=lambda: taken.append(jq.get_next_job("w", True)))
        waiting.start()
        eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
        client.client_pause(1500)
        lost(jq, lambda: jq.queue_length("q"))
        jq.operation_timeout = 20
        assert 0 == jq.queue_length("q")
    added = jq.add_job({"queue": "w", "expire": 60})
    waiting.join(20)
    assert [added.id] == [job.id for job in taken if job is not None]


def test_all_threads_recover(own_server: Server) -> None:
    """After a restart each thread meets at most one error, and then all work."""
    jq = JobQueue(own_server.url)
    errors: list[int] = []
    go, done = threading.Barrier(9), threading.Barrier(9)

    def work() -> None:
        for _ in range(3):
            go.wait(20)
            failures = 0
            while True:
                try:
                    jq.add_job({"queue": "q", "expire": 60})
                    break
                except NetworkError:
                    failures += 1
            errors.append(failures)
            done.wait(20)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for turn in range(3):
        go.wait(20)
        done.wait(20)
        if turn < 2:
            own_server.restart()
    for thread in threads:
        thread.join(20)
    assert 24 == len(errors) and max(errors) <= 1
    assert 24 == jq.queue_length("q")


def test_embedded_comes_back() -> None:
    """A queue on the embedded server works again after that server was killed."""
    try:
        jq = JobQueue("embedded://")
    except NetworkError as error:
        pytest.skip(str(error))
    jq.add_job({"queue": "q", "expire": 60})
    os.kill(jq.redis.info("server")["process_id"], signal.SIGKILL)

    def works() -> bool:
        try:
            return jq.add_job({"queue": "q", "expire": 60}) is not None
        except NetworkError:
            return False

    eventually(works, "the server to be started anew", 30)
    assert 1 == jq.queue_length("q"), "the private server forgets when it is killed"
