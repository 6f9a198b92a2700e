"""What an embedded server is: private or shared, closed to others, with data that stays."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from sizes import Size
from support.server import eventually, gone
from support.user import User

from redis_jobqueue import embedded

pytestmark = pytest.mark.usefixtures("program")


@contextmanager
def client_of(url: str) -> Iterator[redis.Redis]:
    """Return a plain client for an address."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        yield client


def test_private_server_is_closed_to_others(private: embedded.EmbeddedServer) -> None:
    """No port is open, and only the own account reaches the socket."""
    with client_of(private.url) as client:
        assert {"port": "0"} == client.config_get("port")
        assert private.pid == client.info("server")["process_id"]
    assert 0o700 == stat.S_IMODE(os.stat(private.folder).st_mode)
    assert 0o700 == stat.S_IMODE(os.stat(private.socket_path).st_mode)


def test_each_start_is_a_private_server(private: embedded.EmbeddedServer) -> None:
    """Two private servers know nothing of each other."""
    with embedded.start("embedded://") as other:
        with client_of(private.url) as one, client_of(other.url) as two:
            one.set("key", "value")
            assert two.get("key") is None


def test_private_server_ends_with_close() -> None:
    """After `close` the server, its guardian and its folder go; closing again is fine."""
    server = embedded.start("embedded://")
    assert not gone(server.pid)
    server.close()
    server.close()
    eventually(lambda: gone(server.pid), "the end of the server")
    eventually(lambda: gone(server.guardian_pid), "the end of the guardian")
    assert not os.path.exists(server.folder)


@pytest.mark.parametrize("end", ["leave", "kill"])
@pytest.mark.parametrize("form", ["private", "shared"])
def test_server_ends_with_its_user(url: str, form: str, end: str) -> None:
    """However the last user ends, server, guardian and sockets go, in both forms."""
    user = User(url if form == "shared" else "embedded://").started()
    assert not gone(user.pid)
    getattr(user, end)()
    eventually(lambda: gone(user.pid), "the end of the server")
    eventually(lambda: gone(user.guardian_pid), "the end of the guardian")
    assert not os.path.exists(os.path.dirname(user.socket_path))


def test_processes_share_data(url: str) -> None:
    """Users that name the same folder, however spelt, are on one server; one may go."""
    folder = url.removeprefix("embedded://")
    with User(url) as one, User(f"embedded://{folder}/../data/") as other:
        assert one.pid == other.pid
        with client_of(f"unix://{one.socket_path}") as client:
            client.set("key", "value")
        one.kill()
        with embedded.start(url) as mine, client_of(mine.url) as client:
            assert other.pid == mine.pid
            assert "value" == client.get("key")


def test_shared_data_stays(url: str) -> None:
    """What one run wrote the next one finds."""
    with embedded.start(url) as server, client_of(server.url) as client:
        client.set("key", "value")
    eventually(lambda: gone(server.pid), "the end of the server")
    with embedded.start(url) as later, client_of(later.url) as client:
        assert later.pid != server.pid
        assert "value" == client.get("key")


def test_killed_server_comes_back_with_its_data(url: str) -> None:
    """While it is in use the guardian starts a dead server again, at the same address."""
    with embedded.start(url) as server, client_of(server.url) as client:
        client.set("key", "value")
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: gone(server.pid), "the end of the server")
        client.connection_pool.disconnect()
        assert "value" == eventually(lambda: ask(client), "the new server")
        with embedded.start(url) as later:
            assert server.url == later.url
            assert server.pid != later.pid


def ask(client: redis.Redis) -> object:
    """Return the key's value, or None while there is no server."""
    try:
        return client.get("key")
    except redis.RedisError:
        return None


def test_address_is_one_server_per_process() -> None:
    """`address` gives the same server each time, until the process ends."""
    code = (
        "from redis_jobqueue import embedded\n"
        "urls = {embedded.address('embedded://') for _ in range(3)}\n"
        "assert 1 == len(urls), urls\n"
        "print(embedded._servers[''].pid, *urls)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid, url = run.stdout.split()
    assert url.startswith("unix://")
    eventually(lambda: gone(int(pid)), "the end of the server")


def test_clear_empties_the_server(private: embedded.EmbeddedServer) -> None:
    """`clear` deletes everything in all databases."""
    with client_of(private.url) as client:
        client.set("key", "value")
        private.clear()
        assert 0 == client.dbsize()


def test_odd_and_long_folders(tmp_path: Path) -> None:
    """A path may hold any character and be longer than a socket's path can be."""
    folder = tmp_path / 'a "b" \\ %41 ü' / ("long" * 30)
    for part in ("%", '"', " ", "\\", "ü"):
        assert part in str(folder)
    quoted = str(folder).replace("%", "%25").replace(" ", "%20")
    with embedded.start(f"embedded://{quoted}") as server, client_of(server.url) as client:
        assert str(folder) == server.folder
        client.set("key", "value")
    eventually(lambda: gone(server.pid), "the end of the server")
    with embedded.start(f"embedded://{quoted}") as server, client_of(server.url) as client:
        assert "value" == client.get("key")
    eventually(lambda: gone(server.pid), "the end of the server")


def test_long_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder for temporary files is too deep for a socket, another is taken."""
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with embedded.start("embedded://") as server, client_of(server.url) as client:
        assert client.ping()
    eventually(lambda: gone(server.pid), "the end of the server")


def test_start_and_end_at_once(url: str, size: Size) -> None:
    """Users that come while the server is just going lose nothing and find no wreck."""
    code = (
        "import sys, redis\n"
        "from redis_jobqueue import embedded\n"
        "for _ in range(int(sys.argv[2])):\n"
        "    with embedded.start(sys.argv[1]) as server:\n"
        "        with redis.Redis.from_url(server.url) as client: client.incr('count')\n"
    )
    command = [sys.executable, "-c", code, url, str(4 * size.rounds)]
    users = [subprocess.Popen(command) for _ in range(size.processes)]
    assert [0] * size.processes == [user.wait() for user in users]
    with embedded.start(url) as server, client_of(server.url) as client:
        assert str(4 * size.rounds * size.processes) == client.get("count")
