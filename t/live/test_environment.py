"""The server that the environment names: every variable, and nothing read wrong in silence."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.server import Server

from redis_jobqueue import ArgumentError, JobQueue, NetworkError
from redis_jobqueue.settings import verify_setting

pytestmark = pytest.mark.connections


def test_host_and_port(server: Server) -> None:
    """Without a URL the server is REDIS_HOST and REDIS_PORT, and localhost by default."""
    environ = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(server.port), "REDIS_URL": ""}
    with JobQueue.from_env(environ) as queue:
        assert f"127.0.0.1:{server.port}" == queue.server
        assert (500, 2.0) == (queue.pool_size, queue.pool_timeout)
        assert (5.0, 5.0) == (queue.connection_timeout, queue.operation_timeout)
        assert "pool_size=500" in repr(queue)
    with JobQueue.from_env({"REDIS_PORT": str(server.port)}, timeout=9) as queue:
        assert ("localhost", 9) == (queue.host, queue.timeout)


def test_url_wins(server: Server) -> None:
    """REDIS_URL is used where it is set, whatever the other variables say."""
    environ = {"REDIS_URL": server.url + "?db=4", "REDIS_HOST": "no.such.host", "REDIS_PASS": "x"}
    with JobQueue.from_env(environ) as queue:
        queue.add_job({"queue": "q", "expire": 60})
        assert f"127.0.0.1:{server.port}" == queue.server
    with server.client(db=4) as client:
        assert 2 == client.dbsize()


BAD_URLS = ["localhost", "localhost:6379", "http://localhost:6379", "redis://", " ",
            "redis://:hunter#2@localhost:6379", "user:hunter2@localhost:6379"]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_bad_url_never_falls_back(server: Server, url: str) -> None:
    """A URL that cannot be used raises, though REDIS_HOST names a server that works."""
    environ = {"REDIS_URL": url, "REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(server.port)}
    with pytest.raises(ArgumentError, match="URL") as caught:
        JobQueue.from_env(environ)
    assert 0 == caught.value.code
    assert "hunter" not in str(caught.value)


def test_dead_url_never_falls_back(server: Server) -> None:
    """A URL of a server that is not there raises as well."""
    environ = {"REDIS_URL": "redis://127.0.0.1:1", "REDIS_PORT": str(server.port)}
    with pytest.raises(NetworkError, match="127.0.0.1:1: Connection refused"):
        JobQueue.from_env(environ)


def test_password(server: Server) -> None:
    """REDIS_PASS is taken verbatim."""
    with server.client() as client:
        client.config_set("requirepass", "p@ss:w/rd#?%41+ &")
        environ = {"REDIS_PORT": str(server.port), "REDIS_PASS": "p@ss:w/rd#?%41+ &"}
        with JobQueue.from_env(environ) as queue:
            assert queue.ping()
        client.config_set("requirepass", "")


def test_timeouts(server: Server) -> None:
    """REDIS_COMMAND_TIMEOUT and REDIS_OPERATION_TIMEOUT are one; the latter wins."""
    environ = {"REDIS_URL": server.url, "REDIS_CONNECT_TIMEOUT": "0.25"}
    with JobQueue.from_env(environ | {"REDIS_COMMAND_TIMEOUT": "1.5"}) as queue:
        assert (0.25, 1.5) == (queue.connection_timeout, queue.operation_timeout)
    both = {"REDIS_COMMAND_TIMEOUT": "1.5", "REDIS_OPERATION_TIMEOUT": "0"}
    with JobQueue.from_env(environ | both) as queue:
        assert 0 == queue.operation_timeout and queue.operation_timeout is not None
    with JobQueue.from_env(environ, operation_timeout=None) as queue:
        assert queue.operation_timeout is None


def test_pool_size_and_timeout(server: Server) -> None:
    """No more connections than REDIS_POOL_SIZE; who finds none waits REDIS_POOL_TIMEOUT."""
    environ = {
        "REDIS_URL": server.url,
        "REDIS_POOL_SIZE": "1",
        "REDIS_POOL_TIMEOUT": "0.2",
        "REDIS_OPERATION_TIMEOUT": "20",
    }
    with server.client() as client, JobQueue.from_env(environ, timeout=20) as queue:
        assert (1, 0.2) == (queue.pool_size, queue.pool_timeout)
        taken: list[object] = []
        waiting = threading.Thread(target=lambda: taken.append(queue.get_next_job("q", True)))
        waiting.start()
        while not client.info("clients")["blocked_clients"]:
            pass
        before = client.info("stats")["total_connections_received"]
        with pytest.raises(NetworkError, match="none of the 1 connections was free within 0.2 s"):
            queue.queue_length("q")
        assert 3 == queue.last_errorcode
        # Nothing was wrong with the connection that is in use, and it goes on.
        with JobQueue(server.url) as other:
            other.add_job({"queue": "q", "expire": 60})
        waiting.join(20)
        assert 1 == len(taken) and taken[0] is not None
        assert 0 == queue.queue_length("q")
        assert before + 1 == client.info("stats")["total_connections_received"]


BAD = {
    "REDIS_PORT": ["0", "99999", "-1", "1.5", "x", "²"],
    "REDIS_POOL_SIZE": ["0", "-1", "x", "1e3", "²", "100000000000"],
    "REDIS_POOL_TIMEOUT": ["-1", "x", "nan", "inf"],
    "REDIS_CONNECT_TIMEOUT": ["-1", "x"],
    "REDIS_COMMAND_TIMEOUT": ["-1", "x"],
    "REDIS_OPERATION_TIMEOUT": ["-1", "x"],
    "REDIS_TLS_VERIFY": ["of", "2", "nein"],
}


@pytest.mark.parametrize(("name", "value"), [(name, each) for name in BAD for each in BAD[name]])
def test_bad_setting(name: str, value: str) -> None:
    """A setting that cannot be read raises and is named."""
    with pytest.raises(ArgumentError, match=name) as caught:
        JobQueue.from_env({name: value})
    assert 0 == caught.value.code


@pytest.mark.parametrize("host", ["a b", "a:b", "a@b", "\a"])
def test_bad_host(host: str) -> None:
    """REDIS_HOST is a host and no more."""
    with pytest.raises(ArgumentError):
        JobQueue.from_env({"REDIS_HOST": host})


def test_ca_file_must_be_there() -> None:
    """REDIS_CA_FILE that names no file raises, and says so."""
    environ = {"REDIS_URL": "rediss://localhost", "REDIS_CA_FILE": "/no/such/file"}
    with pytest.raises(ArgumentError, match="REDIS_CA_FILE names no file: /no/such/file"):
        JobQueue.from_env(environ)


def test_verify_setting() -> None:
    """Yes and no in the words of the rule, in any case; unset and empty are neither."""
    for value in ("true", "1", "yes", "on", "TRUE", "Yes", " on "):
        assert verify_setting(value, "X") is True
    for value in ("false", "0", "no", "off", "FALSE", "No", "oFF"):
        assert verify_setting(value, "X") is False
    assert verify_setting(None, "X") is verify_setting("", "X") is None
    for value in ("of", "y", "2", "tru", "disabled"):
        with pytest.raises(ArgumentError, match="X"):
            verify_setting(value, "X")


DEFAULT = """
import os, threading
from redis_jobqueue import JobQueue
made = []
threads = [threading.Thread(target=lambda: made.append(JobQueue.default())) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert {id(JobQueue.default())} == {id(each) for each in made}
queue = JobQueue.default()
queue.add_job(queue="q", expire=60) if False else queue.add_job({"queue": "q", "expire": 60})
child = os.fork()
if not child:
    ours = JobQueue.default()
    ours.add_job({"queue": "q", "expire": 60})
    os._exit(0 if ours is queue and ours.queue_length("q") == 2 else 1)
assert 0 == os.waitpid(child, 0)[1]
assert 2 == queue.queue_length("q")
print(queue.server)
"""


def test_default_is_one_for_the_process(server: Server) -> None:
    """``default()`` gives all threads, and a forked child, the queue of the environment."""
    environ = {**os.environ, "REDIS_URL": server.url, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DEFAULT], env=environ, capture_output=True, text=True
    )
    assert ("", f"127.0.0.1:{server.port}\n") == (done.stderr, done.stdout)
