"""Who counts as a user, and what happens when the guardian is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis
from support.server import eventually, gone
from support.user import User

from redis_jobqueue import embedded
from redis_jobqueue.guardian import LOOK_SECONDS

pytestmark = pytest.mark.usefixtures("program")

RACERS = 8


def kill(pid: int) -> None:
    """Kill a process and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: gone(pid), "the end of a killed process")


def test_racers_get_one_server(url: str) -> None:
    """Processes that start the same folder at the same time all get the same server."""
    users = [User(url) for _ in range(RACERS)]
    assert 1 == len({user.started().pid for user in users})
    assert 1 == len({user.guardian_pid for user in users})
    for user in users[1:]:
        user.kill()
    with redis.Redis(unix_socket_path=users[0].socket_path) as client:
        assert client.ping()
    users[0].kill()
    eventually(lambda: gone(users[0].pid), "the end of the server")


@pytest.mark.parametrize("form", ["private", "shared"])
def test_forked_child_is_a_user(url: str, form: str) -> None:
    """The server stays for a forked child after its parent, and has the same address in it."""
    code = (
        "import os, sys, redis\n"
        "from redis_jobqueue import embedded\n"
        "address = embedded.address(sys.argv[1])\n"
        "server = [*embedded._servers.values()][0]\n"
        "if os.fork(): os._exit(0)\n"
        "assert address == embedded.address(sys.argv[1])\n"
        "print(server.pid, server.guardian_pid, flush=True)\n"
        "while word := sys.stdin.readline():\n"
        "    print(redis.Redis.from_url(address).ping(), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, url if form == "shared" else "embedded://"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    assert 0 == process.wait()
    pid, guardian = map(int, process.stdout.readline().split())
    for _ in range(3):
        print("still there?", file=process.stdin, flush=True)
        assert "True\n" == process.stdout.readline()
    assert not gone(guardian)
    process.communicate()
    eventually(lambda: gone(pid), "the end of the server")


def test_started_program_is_no_user(url: str) -> None:
    """A program that a user starts does not keep the server when the user ends."""
    code = (
        "import subprocess, sys\n"
        "from redis_jobqueue import embedded\n"
        "server = embedded.start(sys.argv[1])\n"
        "wait = 'import time; time.sleep(600)'\n"
        "other = subprocess.Popen([sys.executable, '-c', wait], close_fds=False)\n"
        "print(server.pid, other.pid)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, other = map(int, process.stdout.readline().split())
    eventually(lambda: gone(pid), "the end of the server")
    assert not gone(other)
    os.kill(other, signal.SIGKILL)


def test_output_of_a_user_is_not_held(url: str) -> None:
    """Who reads the output of a user sees its end, though the server lives on."""
    code = "import sys; from redis_jobqueue import embedded; s = embedded.start(sys.argv[1])\n"
    first = subprocess.Popen(
        [sys.executable, "-c", code + "print(s.pid, flush=True); sys.stdin.read()", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert first.stdout is not None
    pid = int(first.stdout.readline())
    with embedded.start(url) as server:
        rest, _ = first.communicate(timeout=60)
        assert "" == rest
        assert pid == server.pid
        assert not gone(pid)


def test_signals_and_terminals_do_not_end_a_guardian(private: embedded.EmbeddedServer) -> None:
    """A guardian has a session of its own and ignores what ends other processes."""
    assert os.getsid(0) != os.getsid(private.guardian_pid)
    assert os.getsid(0) != os.getsid(private.pid)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(private.guardian_pid, number)
    with embedded.start(f"embedded://{private.folder}/other") as other:
        assert not gone(other.guardian_pid)
    private.clear()
    assert not gone(private.guardian_pid)


def test_next_user_takes_the_server_over(url: str) -> None:
    """Guardian and user killed: the next user finds the running server, and it ends with him."""
    user = User(url).started()
    kill(user.guardian_pid)
    user.kill()
    assert not gone(user.pid)
    with embedded.start(url) as server:
        assert user.pid == server.pid
        assert user.guardian_pid != server.guardian_pid
    eventually(lambda: gone(user.pid), "the end of the server")


def test_users_of_a_killed_guardian_keep_the_server(url: str) -> None:
    """A newcomer takes the server over and goes; it stays for those who were there before."""
    with User(url) as user:
        kill(user.guardian_pid)
        with embedded.start(url) as server:
            assert user.pid == server.pid
            guardian = server.guardian_pid
        for _ in range(5):
            with embedded.start(url) as server:
                assert (user.pid, guardian) == (server.pid, server.guardian_pid)
    eventually(lambda: gone(user.pid), "the end of the server")
    eventually(lambda: gone(guardian), "the end of the guardian")


def test_nobody_joins_a_server_that_is_going(url: str) -> None:
    """While somebody is about to join, the guardian stays, though nobody else is left."""
    server = embedded.start(url)
    sockets, guardian = os.path.dirname(server.socket_path), server.guardian_pid
    with embedded._folder_lock(server.folder, make=False):
        server.close()
        time.sleep(3 * LOOK_SECONDS)  # its chance to do wrong
        word = server._connect(sockets)
        assert word and guardian == word["guardian"]
        server.close()


def test_renew_brings_a_new_guardian(private: embedded.EmbeddedServer) -> None:
    """A user whose guardian was killed gets another for the same server, which then stops it."""
    pid, guardian, address = private.pid, private.guardian_pid, private.url
    private.renew()
    assert guardian == private.guardian_pid
    kill(guardian)
    private.renew()
    assert pid == private.pid
    assert guardian != private.guardian_pid
    assert address == private.url


def test_close_stops_the_server_of_a_killed_guardian(url: str) -> None:
    """`close` sees to it that the server stops, although nobody watches any more."""
    server = embedded.start(url)
    kill(server.guardian_pid)
    server.close()
    eventually(lambda: gone(server.pid), "the end of the server")
    eventually(
        lambda: not os.path.exists(os.path.dirname(server.socket_path)), "the end of its sockets"
    )


def test_renew_after_everything_was_killed(url: str) -> None:
    """Server and guardian killed: the next call starts both, and the data is there."""
    with embedded.start(url) as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("key", "value")
        guardian, pid = server.guardian_pid, server.pid
        kill(guardian)
        kill(pid)
        server.renew()
        with redis.Redis.from_url(server.url) as client:
            assert b"value" == client.get("key")


def test_abandoned_private_server_is_stopped() -> None:
    """Guardian and user killed: the next private server that anybody starts tidies up."""
    user = User("embedded://").started()
    kill(user.guardian_pid)
    user.kill()
    with embedded.start("embedded://"):
        eventually(lambda: gone(user.pid), "the end of the abandoned server")
    eventually(
        lambda: not os.path.exists(os.path.dirname(user.socket_path)), "the removal of its folder"
    )


@pytest.mark.parametrize("note", ["", "/nowhere/at/all", "/etc/hostname"])
def test_stale_files_do_no_harm(url: str, note: str) -> None:
    """Files of a run that ended badly, even with the number of a living process."""
    folder = Path(url.removeprefix("embedded://"))
    folder.mkdir()
    (folder / "redis.pid").write_text(f"{os.getpid()}\n")
    (folder / "sockets").write_text(note)
    (folder / "lock").touch()
    (folder / "server.lock").touch()
    with embedded.start(url) as server:
        server.clear()


def test_stale_sockets_do_no_harm(url: str) -> None:
    """After SIGKILL of everything the sockets lie about; the next start uses their place."""
    user = User(url).started()
    kill(user.guardian_pid)
    kill(user.pid)
    user.kill()
    assert os.path.exists(user.socket_path)
    with embedded.start(url) as server:
        assert user.socket_path == server.socket_path
        server.clear()


def test_removed_folder_is_no_trap(private: embedded.EmbeddedServer) -> None:
    """A private folder that a tidy-up of /tmp took away: the server still stops."""
    shutil.rmtree(private.folder)
