"""Every form of the constructor that names a server leads to it, on every redis-py."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
from support.server import Server

from redis_jobqueue import ArgumentError, JobQueue, NetworkError, RedisError
from redis_jobqueue.storable import ScalarRef, nfreeze

pytestmark = pytest.mark.connections

WORK = {"queue": "q", "expire": 60, "workload": b"\xff\x00"}


def works(queue: JobQueue) -> bool:
    """Tell whether a job goes in and comes out."""
    added = queue.add_job(WORK)
    taken = queue.get_next_job("q")
    return taken is not None and taken.id == added.id and taken.workload == b"\xff\x00"


FORMS: dict[str, Callable[[Server], Any]] = {
    "host:port": lambda server: f"127.0.0.1:{server.port}",
    ":port": lambda server: f":{server.port}",
    "name:port": lambda server: f"localhost:{server.port}",
    "path": lambda server: server.socket_path,
    "redis://": lambda server: f"redis://127.0.0.1:{server.port}",
    "redis://…/db": lambda server: f"redis://127.0.0.1:{server.port}/3",
    "redis://…/?db": lambda server: f"redis://127.0.0.1:{server.port}/?db=3&client_name=me",
    "REDIS://": lambda server: f"REDIS://127.0.0.1:{server.port}/0",
    "unix://": lambda server: f"unix://{server.socket_path}?db=2",
    "server": lambda server: {"server": f"127.0.0.1:{server.port}"},
    "sock": lambda server: {"sock": server.socket_path},
    "Perl's options": lambda server: {
        "server": f"127.0.0.1:{server.port}", "name": "me", "db": 1, "reconnect": 2,
        "every": 1000, "cnx_timeout": 5, "read_timeout": 5, "write_timeout": 5,
        "conservative_reconnect": 1, "debug": 0, "encoding": None,
        "no_auto_connect_on_new": 1, "no_sentinels_list_update": 1,
    },
    "client": lambda server: redis.Redis(port=server.port),
    "client of a socket": lambda server: redis.Redis(unix_socket_path=server.socket_path),
    "client from a URL": lambda server: redis.Redis.from_url(server.url),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_form(server: Server, form: str) -> None:
    """A queue made from this form adds and takes a job, and closes with its block."""
    with JobQueue(FORMS[form](server)) as queue:
        assert works(queue)


def test_attributes_name_the_server(server: Server) -> None:
    """``server``, ``host``, ``port`` and the repr say where it is."""
    with JobQueue(f":{server.port}") as queue:
        assert (f"localhost:{server.port}", "localhost", server.port) == (
            queue.server, queue.host, queue.port
        )  # fmt: skip
        assert f"localhost:{server.port}" in repr(queue)
        assert (None, 2.0) == (queue.pool_size, queue.pool_timeout)
    with JobQueue(server.socket_path) as queue:
        assert (server.socket_path, None, None) == (queue.server, queue.host, queue.port)
    with JobQueue(server.url + "?db=5") as queue:
        assert "db=5" in repr(queue)


def test_ipv6(make_server: Callable[..., Server], server_version: str) -> None:
    """An IPv6 address is taken in brackets with a port, and shown so."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6 on this machine")
    server = make_server(server_version, bind=("127.0.0.1", "::1"))
    for form in (f"[::1]:{server.port}", f"redis://[::1]:{server.port}/0"):
        with JobQueue(form) as queue:
            assert works(queue)
            assert (f"[::1]:{server.port}", "::1") == (queue.server, queue.host)


def test_default_is_localhost() -> None:
    """Without an argument the server is localhost:6379, with a dict too."""
    for given in (None, {}):
        try:
            with JobQueue(given, check_maxmemory=False) as queue:
                assert "localhost:6379" == queue.server
        except NetworkError as error:
            assert "localhost:6379" in str(error)


REFUSED = {
    "": "spaces",
    " ": "spaces",
    "local host:6379": "spaces",
    "localhost:0": "port",
    "localhost:99999": "port",
    "localhost:": "port",
    "localhost:redis": "port",
    "localhost:²": "port",
    "a:b:6379": "host",
    "[::1:6379": "host",
    "[]:6379": "host",
    "http://localhost": "http://",
    "localhost://": "redis://",
    "redis://": "no host",
    "redis://:6379": "no host",
    "redis://localhost:0": "port",
    "redis://localhost:99999": "port",
    "redis://localhost/zero": "database",
    "redis://localhost/0#1": "'#'",
    "redis://localhost?wait=1": "unknown",
    "redis://localhost?socket_timeout=1": "unknown",
    "redis://localhost?db=two": "good value",
    "redis://localhost?ssl_cert_reqs=none": "rediss://",
    "rediss://localhost?ssl_cert_reqs=maybe": "ssl_cert_reqs",
    "redis://a b:6379": "spaces",
    "unix://": "path",
    "unix:///x?ssl_ca_certs=/x": "rediss://",
}


@pytest.mark.parametrize("form", REFUSED)
def test_refused_text(form: str) -> None:
    """A text that names no server is refused, with code 0 and the reason."""
    with pytest.raises(ArgumentError) as caught:
        JobQueue(form)
    assert 0 == caught.value.code
    assert REFUSED[form] in str(caught.value)


REFUSED_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"server": "localhost", "port": 1, "hots": 2}, "hots, port"),
    "on_connect": ({"on_connect": print}, "on_connect"),
    "server": ({"server": 6379}, "server"),
    "empty server": ({"server": ""}, "empty"),
    "sock": ({"sock": 1}, "sock"),
    "name": ({"name": len}, "name"),
    "password": ({"password": 1}, "password"),
    "reconnect": ({"reconnect": "soon"}, "reconnect"),
    "every": ({"every": -1}, "every"),
    "cnx_timeout": ({"cnx_timeout": "x"}, "cnx_timeout"),
    "read_timeout": ({"read_timeout": float("inf")}, "read_timeout"),
    "db": ({"db": "x"}, "db"),
    "sentinels": ({"sentinels": "a:1", "service": "s"}, "list"),
    "a sentinel": ({"sentinels": [1], "service": "s"}, "sentinels"),
    "a sentinel's port": ({"sentinels": ["a:x"], "service": "s"}, "port"),
    "service": ({"sentinels": ["a:1"]}, "service"),
    "TLS without ssl": ({"SSL_ca_file": "x"}, "ssl"),
    "TLS on a socket": ({"sock": "/x", "ssl": 1}, "sock"),
}


@pytest.mark.parametrize("case", REFUSED_OPTIONS)
def test_refused_options(case: str) -> None:
    """An option that is unknown or does not fit is refused by its name."""
    options, word = REFUSED_OPTIONS[case]
    with pytest.raises(ArgumentError, match=word) as caught:
        JobQueue(options)
    assert 0 == caught.value.code


@pytest.mark.parametrize("other", [0, b"localhost", ["localhost"], object(), redis.Redis])
def test_refused_kind(other: object) -> None:
    """What is no form at all is refused by its kind."""
    with pytest.raises(ArgumentError, match=f"not {type(other).__name__}") as caught:
        JobQueue(other)
    assert 0 == caught.value.code


@pytest.mark.parametrize("name", ["timeout", "connection_timeout", "operation_timeout"])
@pytest.mark.parametrize("value", ["x", -1, float("nan"), 10**400, [], True], ids=str)
def test_refused_seconds(server: Server, name: str, value: Any) -> None:
    """No attribute of seconds takes what is none, in the constructor or later; the old stays."""
    with pytest.raises(ArgumentError, match=name):
        JobQueue(server.url, **{name: value})
    with JobQueue(server.url, **{name: 7}) as queue:
        with pytest.raises(ArgumentError, match=name) as caught:
            setattr(queue, name, value)
        assert (0, 7) == (caught.value.code, getattr(queue, name))


def test_nobody_there() -> None:
    """A server that cannot be reached is named, with what the system said."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for form in (f"127.0.0.1:{port}", f"redis://127.0.0.1:{port}"):
            with pytest.raises(NetworkError) as caught:
                JobQueue(form)
            assert f"Could not connect to Redis server at 127.0.0.1:{port}: Connection refused" == (
                str(caught.value)
            )
    with pytest.raises(NetworkError, match="at /no/such/socket: No such file"):
        JobQueue("/no/such/socket")
    with pytest.raises(NetworkError, match="Could not connect"):
        JobQueue("no.such.host.invalid:1")
    with pytest.raises(NetworkError, match="Could not connect"):
        JobQueue("a..b:1")


def test_no_redis() -> None:
    """A server that speaks something else is an error, not a hang and not a crash."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                peer.recv(1 << 16)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(RedisError, match="does not speak Redis"):
            JobQueue(f"127.0.0.1:{listener.getsockname()[1]}")


def test_timeouts_are_kept_apart(server: Server) -> None:
    """0, None and unset stay what they are; numbers and their texts are taken."""
    with JobQueue(server.url) as queue:
        assert (0, None, None) == (
            queue.timeout, queue.connection_timeout, queue.operation_timeout
        )  # fmt: skip
    with JobQueue({"server": f":{server.port}"}) as queue:
        assert (0.1, 1) == (queue.connection_timeout, queue.operation_timeout)
        queue.connection_timeout = queue.operation_timeout = None
        assert (None, None) == (queue.connection_timeout, queue.operation_timeout)
        queue.connection_timeout = queue.operation_timeout = 0
        assert 0 == queue.connection_timeout and queue.connection_timeout is not None
        assert 0 == queue.operation_timeout and queue.operation_timeout is not None
        assert works(queue)
    given: dict[str, Any] = {"connection_timeout": "1.5", "operation_timeout": None, "timeout": "3"}
    with JobQueue({"server": f":{server.port}"}, **given) as queue:
        assert (1.5, None, 3) == (
            queue.connection_timeout, queue.operation_timeout, queue.timeout
        )  # fmt: skip
    with JobQueue({"server": f":{server.port}", "read_timeout": None}) as queue:
        assert queue.operation_timeout is None


def test_max_datasize_is_the_smaller_one(server: Server) -> None:
    """The server's maxmemory counts where it is smaller, unless it is not asked for."""
    with server.client() as client:
        client.config_set("maxmemory", 50_000_000)
        with JobQueue(server.url) as queue:
            assert 50_000_000 == queue.max_datasize
        with JobQueue(server.url, max_datasize=100) as queue:
            assert 100 == queue.max_datasize
        with JobQueue(server.url, check_maxmemory=False) as queue:
            assert 512 << 20 == queue.max_datasize


def test_namespace(server: Server) -> None:
    """All keys start with the namespace, whatever characters it has, and clear() keeps to it."""
    with server.client() as client:
        client.set("Job?Queue", 1)
        client.set("JobXQueue:1", 1)
        with JobQueue(server.url, namespace="Job?Queue") as queue:
            assert works(queue)
            queue.add_job(WORK)
            assert 2 == len(queue.get_job_ids())
            assert 1 == len(queue.get_job_ids(queued=True))
            assert 3 == queue.clear()
        assert 2 == client.dbsize()
        with pytest.raises(ArgumentError, match="namespace"):
            JobQueue(server.url, namespace="")


def test_strings(server: Server) -> None:
    """``strings`` says how octets read that Perl has written."""
    with server.client() as client, JobQueue(server.url) as queue:
        added = queue.add_job({"queue": "q", "expire": 0})
        image = nfreeze(ScalarRef("caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode()))
        client.hset(f"JobQueue:{added.id}", "workload", image[: image.index(b"caf") + 5])
        read = {
            "auto": b"caf\xc3\xa9",
            "bytes": b"caf\xc3\xa9",
            "utf-8": "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
            "latin-1": "caf\xc3\xa9",
        }
        for strings, expected in read.items():
            with JobQueue(queue, strings=strings) as other:
                assert expected == other.get_job_data(added, "workload")
                loaded = other.load_job(added)
                assert loaded is not None and expected == loaded.workload
        with pytest.raises(ArgumentError, match="strings"):
            JobQueue(queue, strings="ascii")


def test_last_errorcode_is_of_each_thread(server: Server) -> None:
    """Threads that share a queue do not see each other's code."""
    with JobQueue(server.url) as queue:
        with pytest.raises(ArgumentError):
            queue.load_job("")
        seen: list[int] = []
        other = threading.Thread(target=lambda: seen.append(queue.last_errorcode))
        other.start()
        other.join()
        assert ([0], 1) == (seen, queue.last_errorcode)
        assert "Invalid argument" == queue.last_error
        queue.queue_length("q")
        assert (0, "No error") == (queue.last_errorcode, queue.last_error)
