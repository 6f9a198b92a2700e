"""The proxy of the failure tests does to a connection what it says, and no more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import redis
from support.proxy import Proxy
from support.server import Server, eventually


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Return a proxy in front of an empty server."""
    with Proxy(server) as proxy:
        yield proxy


@pytest.fixture
def direct(server: Server) -> Iterator[redis.Redis]:
    """Return a client that goes around the proxy."""
    with server.client() as client:
        yield client


@pytest.fixture
def client(proxy: Proxy) -> Iterator[redis.Redis]:
    """Return a patient client with an open connection through the proxy."""
    with proxy.client(socket_timeout=20) as client:
        client.ping()
        yield client


@pytest.fixture
def hasty(proxy: Proxy) -> Iterator[redis.Redis]:
    """Return a client with an open connection that gives up after a second."""
    with proxy.client(socket_timeout=1) as client:
        client.ping()
        yield client


def test_passes_and_counts(proxy: Proxy, client: redis.Redis) -> None:
    """Data of any size comes through unchanged, and the bytes are counted."""
    value = bytes(range(256)) * 4096
    sent, received = proxy.sent, proxy.received
    client.set("key", value)
    assert value == client.get("key")
    assert proxy.sent - sent > len(value)
    assert proxy.received - received > len(value)
    assert 1 == proxy.connections


def test_cut_before_executes_nothing(
    proxy: Proxy, client: redis.Redis, direct: redis.Redis
) -> None:
    """The request never arrives; the next one, on a new connection, does."""
    fault = proxy.cut_before(b"INCR")
    client.ping()
    with pytest.raises(redis.ConnectionError):
        client.incr("key")
    fault.wait()
    assert not direct.exists("key")
    assert 1 == client.incr("key")
    assert 2 == proxy.connections


def test_lost_reply_executes_once(proxy: Proxy, client: redis.Redis, direct: redis.Redis) -> None:
    """The request is executed, and its client is cut off without having heard of it."""
    fault = proxy.lose_reply(b"INCR")
    with pytest.raises(redis.ConnectionError):
        client.incr("key")
    fault.wait()
    assert b"1" == direct.get("key")
    assert 2 == client.incr("key")


def test_held_request_waits(proxy: Proxy, client: redis.Redis, direct: redis.Redis) -> None:
    """A held request is answered once it is released."""
    fault = proxy.hold(b"INCR")
    replies: list[object] = []
    caller = threading.Thread(target=lambda: replies.append(client.incr("key")))
    caller.start()
    fault.wait()
    assert not direct.exists("key")
    fault.release()
    caller.join(20)
    assert [1] == replies


def test_held_request_arrives_after_its_client_left(
    proxy: Proxy, hasty: redis.Redis, direct: redis.Redis
) -> None:
    """A request may be executed late, when its client has given up."""
    fault = proxy.hold(b"INCR")
    with pytest.raises(redis.TimeoutError):
        hasty.incr("key")
    hasty.close()
    assert not direct.exists("key")
    fault.release()
    eventually(lambda: direct.get("key") == b"1", "the late request")


def test_cut_resets_open_connections(proxy: Proxy) -> None:
    """All open connections are reset; a new one passes."""
    with socket.create_connection(("127.0.0.1", proxy.port)) as idle:
        eventually(lambda: proxy.connections == 1, "the connection")
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            idle.recv(1)
    with proxy.client() as later:
        assert later.ping()


def test_half_close_ends_the_replies_only(proxy: Proxy, direct: redis.Redis) -> None:
    """The client reads end-of-file, and what it still sends is executed."""
    with socket.create_connection(("127.0.0.1", proxy.port)) as half:
        eventually(lambda: proxy.connections == 1, "the connection")
        proxy.half_close()
        assert b"" == half.recv(1)
        half.sendall(b"INCR key\r\n")
        eventually(lambda: direct.get("key") == b"1", "the request")


def test_silence_swallows_without_an_end(
    proxy: Proxy, hasty: redis.Redis, direct: redis.Redis
) -> None:
    """Requests vanish, the connection stays open for both sides, and a new one passes."""
    clients = len(direct.client_list())
    proxy.silence()
    with pytest.raises(redis.TimeoutError):
        hasty.incr("key")
    assert not direct.exists("key")
    assert clients == len(direct.client_list())
    with proxy.client() as later:
        assert 1 == later.incr("key")


def test_silence_of_new_connections_ends_with_heal(proxy: Proxy, hasty: redis.Redis) -> None:
    """With ``new`` nobody gets through until the network is healed."""
    proxy.silence(new=True)
    for _ in range(2):
        with pytest.raises(redis.TimeoutError):
            hasty.ping()
    proxy.heal()
    assert hasty.ping()


def test_refuses_and_delays(proxy: Proxy, client: redis.Redis, hasty: redis.Redis) -> None:
    """New connections can be refused; a delay is longer than the client's patience."""
    proxy.refusing = True
    proxy.cut()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    proxy.heal()
    assert client.ping()
    assert hasty.ping()
    proxy.delay_ms = 1500
    with pytest.raises(redis.TimeoutError):
        hasty.ping()


def test_server_that_is_down_ends_the_connection(own_server: Server) -> None:
    """The proxy stays while its server is away, and passes again when it is back."""
    with Proxy(own_server) as proxy, proxy.client(socket_timeout=5) as client:
        client.ping()
        own_server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        own_server.start()
        assert client.ping()
