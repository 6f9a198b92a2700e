"""The servers that the tests run on: all there, all as new, none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from support.server import REQUIRED, Server, eventually, find_servers, gone

TOP = Path(__file__).parents[2]


def test_all_required_versions_are_here() -> None:
    """CI must not turn green on half of the servers."""
    missing = sorted(set(REQUIRED) - set(find_servers()))
    if missing and not os.environ.get("CI"):
        pytest.skip(f"no Redis server {', '.join(missing)} on this machine")
    assert [] == missing


@pytest.mark.parametrize(("ci", "result"), [("1", 1), ("", 0)])
def test_missing_server_fails_in_ci_and_skips_elsewhere(ci: str, result: int) -> None:
    """With nothing on PATH at least one version is missing: CI fails, a laptop goes on."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "required_versions or flushed", __file__],
        cwd=TOP,
        env={**os.environ, "CI": ci, "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert result == run.returncode, run.stdout
    assert ("failed" if ci else "skipped") in run.stdout


def test_shared_server_is_flushed(server: Server) -> None:
    """A test finds no data, no script and no setting of the test before it."""
    with server.client(decode_responses=True) as client:
        before = client.config_get("*")
        client.set("left", "over")
        client.config_set("maxmemory", "1mb")
        client.acl_setuser("somebody", enabled=True)
        digest = client.script_load("return 1")
        server.reset()
        assert 0 == client.dbsize()
        assert before == client.config_get("*")
        assert ["default"] == client.acl_users()
        assert [False] == client.script_exists(digest)


def test_locked_server_is_made_new(server: Server) -> None:
    """A test that locks everybody out, freezes or kills the server harms no later one."""
    with server.client() as client:
        client.config_set("requirepass", "secret")
    server.reset()
    server.pause()
    server.reset()
    server.kill()
    server.reset()
    with server.client() as client:
        assert client.ping()


def test_data_and_port_stay_over_a_restart(own_server: Server) -> None:
    """Stop and start keep the data and the port; kill loses what was in memory only."""
    port = own_server.port
    with own_server.client() as client:
        client.set("key", "value")
        own_server.restart()
        assert b"value" == client.get("key")
        client.set("key", "other")
        own_server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        own_server.start()
        assert b"value" == client.get("key")
    assert port == own_server.port


def test_frozen_server_does_not_answer(own_server: Server) -> None:
    """A paused server keeps connections open and silent, and goes on when resumed."""
    with own_server.client(socket_timeout=0.2) as client:
        client.ping()
        own_server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        own_server.resume()
        eventually(lambda: client.ping(), "an answer after the pause")


def test_options_reach_the_server(make_server: Callable[..., Server]) -> None:
    """Keyword arguments are settings of redis.conf."""
    server = make_server(requirepass="pass word", maxmemory="20mb")
    with server.client(decode_responses=True) as client:
        assert {"maxmemory": str(20 << 20)} == client.config_get("maxmemory")
    with server.client(password=None) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_no_server_outlives_a_killed_test_process(server_version: str) -> None:
    """SIGKILL of the test process ends its servers and removes their folders."""
    code = (
        "from support.server import Server; import sys, time\n"
        f"server = Server.make({server_version!r}).start()\n"
        "print(server.pid, server.folder, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=TOP / "t", stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        pid, folder = process.stdout.readline().split()
        assert not gone(int(pid))
        process.send_signal(signal.SIGKILL)
    eventually(lambda: gone(int(pid)), "the end of the server")
    eventually(lambda: not os.path.exists(folder), "the removal of its folder")
