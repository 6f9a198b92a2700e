"""``python -m redis_jobqueue`` as a newcomer meets it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from support.server import Server, eventually, find_servers, free_port

from redis_jobqueue import JobQueue, __version__, demo

COMMAND = [sys.executable, "-m", "redis_jobqueue"]
PLAIN = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *words],
        env={**PLAIN, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def in_terminal(*words: str, **environment: str) -> str:
    """Run the command in a terminal of 80 columns and return what it wrote there."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *words],
        env={**PLAIN, "COLUMNS": "80", **environment},
        stdin=its,
        stdout=its,
        stderr=its,
    ) as process:
        os.close(its)
        output = b""
        try:
            while part := os.read(ours, 65536):
                output += part
        except OSError:
            pass  # Linux says so when the other end is closed
        os.close(ours)
    assert 0 == process.returncode, output.decode()
    return output.decode()


@pytest.fixture
def one_server(make_server: Callable[..., Server]) -> Server:
    """Return a server where its version does not matter."""
    return make_server()


def contents(client: redis.Redis) -> dict[bytes, bytes]:
    """Return all keys of a server with their serialised values."""
    return {key: client.dump(key) for key in client.keys()}  # type: ignore[misc]


def test_demo_needs_nothing() -> None:
    """Without any argument it brings its own server, shows the whole way and ends it."""
    if not find_servers():
        pytest.skip("no Redis server on this machine")
    done = run("demo")
    assert (0, "") == (done.returncode, done.stderr)
    for part in ("1. Add jobs", "2. Start a worker, and kill it", "was killed\n",
                 "3. Start another worker", "the job of the killed worker is done",
                 "delivery 2\n", "4. Read the results", "5. Delete", "all of them right"):
        assert part in done.stdout
    folder = re.search(r"\S+rjq-private-\w+", done.stdout)
    assert folder is not None
    eventually(lambda: not Path(folder[0]).exists(), "the end of the demo's server")


def test_demo_fits_a_small_screen(one_server: Server) -> None:
    """Into a pipe it writes plain lines of 80 columns at most."""
    done = run("demo", "--redis", one_server.url)
    assert 0 == done.returncode, done.stderr
    assert 80 >= max(map(len, done.stdout.splitlines()))
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout and "\r" not in done.stdout


def test_demo_touches_no_other_job(server: Server) -> None:
    """On a server in use the jobs of others stay as they are, and no key is left behind."""
    with JobQueue(server.url) as jq, server.client() as client:
        for queue in demo.QUEUES:
            jq.add_job({"queue": queue, "workload": "not the demo's", "expire": 0})
        before = contents(client)
        done = run("demo", "--redis", server.url)
        assert 0 == done.returncode, done.stderr
        assert before == contents(client)


def test_terminal_shows_a_moving_bar(one_server: Server) -> None:
    """A terminal gets bold titles and a bar that is drawn over itself."""
    output = in_terminal("demo", "--redis", one_server.url, TERM="xterm")
    assert "\x1b[1m1. Add jobs" in output
    assert "[####" in output
    shown = re.sub(r"\x1b\[[0-9]*[mK]", "", output)
    assert 80 >= max(map(len, re.split(r"[\r\n]+", shown)))


def test_no_color_is_obeyed(one_server: Server) -> None:
    """With NO_COLOR no attribute is set; the bar may still move."""
    output = in_terminal("demo", "--redis", one_server.url, TERM="xterm", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*m", output)
    assert "[####" in output


def test_dumb_terminal_gets_plain_lines(one_server: Server) -> None:
    """A terminal that cannot move gets what a pipe gets."""
    output = in_terminal("demo", "--redis", one_server.url, TERM="dumb")
    assert "\x1b" not in output
    assert "all of them right" in output


def test_closed_pipe_is_no_error(one_server: Server) -> None:
    """Whoever reads the first lines only gets no traceback, and the keys are gone."""
    with subprocess.Popen(
        [*COMMAND, "demo", "--redis", one_server.url],
        env=PLAIN,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("redis_jobqueue")
        process.stdout.close()
        assert "" == process.stderr.read()
    assert 0 == process.returncode
    with one_server.client() as client:
        assert [] == client.keys()


def stopped_midway(server: Server, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Send a signal to a demo that has jobs on the server, and wait for its end.

    The server refuses writes for a moment, so that the demo cannot get to its
    end before the signal comes.
    """
    with server.client() as client:
        while True:
            process = subprocess.Popen(
                [*COMMAND, "demo", "--redis", server.url],
                env=PLAIN,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # a test run in the background may have it ignored
                preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
            )
            eventually(lambda: client.dbsize() or process.poll() is not None, "the first job")
            client.client_pause(60_000, all=False)
            caught = client.dbsize() > 0
            if caught:
                process.send_signal(number)
            client.client_unpause()
            output, errors = process.communicate()
            if caught:
                return subprocess.CompletedProcess([], process.returncode, output, errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_cleans_up(one_server: Server, number: signal.Signals) -> None:
    """Ctrl-C, TERM and a closed terminal delete the demo's jobs, without a traceback."""
    done = stopped_midway(one_server, number)
    assert 128 + number == done.returncode
    assert "\ndemo: stopped, its jobs are deleted\n" == done.stderr
    with one_server.client() as client:
        assert [] == client.keys()


@pytest.mark.parametrize(
    ("where", "code", "says"),
    [
        ("redis://:secret@127.0.0.1:PORT", 1, "Could not connect to Redis server at 127.0.0.1:"),
        ("http://:secret@localhost", 2, "must start with redis://"),
        ("localhost:port", 2, "must be a number from 1 to 65535"),
        ("redis://:sec#ret@localhost", 2, "cannot be used"),
        ("", 2, "not an empty text"),
        ("embedded://localhost", 2, "an embedded server has no host"),
    ],
)
def test_wrong_address_is_one_clear_line(where: str, code: int, says: str) -> None:
    """What is wrong with --redis is said in one line, without the password."""
    done = run("demo", "--redis", where.replace("PORT", str(free_port())))
    assert code == done.returncode
    assert "" == done.stdout
    assert 1 == len(done.stderr.splitlines()), done.stderr
    assert done.stderr.startswith("demo: ")
    assert says in done.stderr
    assert "sec" not in done.stderr


def test_refusing_server_is_one_clear_line(make_server: Callable[..., Server]) -> None:
    """A server that wants a password, or is full, is named as the reason."""
    server = make_server(requirepass="secret")
    done = run("demo", "--redis", f"127.0.0.1:{server.port}")
    assert 1 == done.returncode
    assert "Authentication required" in done.stderr
    assert 1 == len(done.stderr.splitlines()), done.stderr
    full = make_server(maxmemory="1")
    done = run("demo", "--redis", full.url)
    assert 1 == done.returncode
    assert "maxmemory" in done.stderr
    assert 1 == len(done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize("queue", demo.QUEUES)
def test_wrong_result_is_noticed(one_server: Server, queue: str) -> None:
    """A result that does not fit the file fails the demo instead of being printed."""
    with JobQueue(one_server.url) as jq:
        show = demo._Demo(jq, demo._Screen(False, False, 80), {"file": b"some words of some text"})
        content = {"text": "some words of some text", "data": b"some words of some text"}
        job = demo.Job(queue=queue, job="file", expire=0, workload=content)
        for _ in demo.HANDLERS[queue](job):
            pass
        show._check(job)
        show.files["file"] += b" more"
        with pytest.raises(demo.WrongResult, match=f"the result for {queue} of file is wrong"):
            show._check(job)


def test_standard_library_is_enough(one_server: Server) -> None:
    """No package of an extra is needed."""
    code = (
        "import runpy, sys\n"
        "sys.modules.update(dict.fromkeys(['click', 'rich', 'pytest', 'hiredis']))\n"
        f"sys.argv[1:] = ['demo', '--redis', {one_server.url!r}]\n"
        "runpy.run_module('redis_jobqueue', run_name='__main__')\n"
    )
    assert 0 == subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode


def test_help_shows_the_way() -> None:
    """Alone and with --help it says what there is to do."""
    for words in ((), ("--help",)):
        done = run(*words)
        assert 0 == done.returncode
        assert "python -m redis_jobqueue demo" in done.stdout
    assert "--redis URL" in run("demo", "--help").stdout


def test_version_is_shown() -> None:
    """--version names the package and its version."""
    assert f"redis_jobqueue {__version__}\n" == run("--version").stdout


def test_unknown_command_names_the_known_ones() -> None:
    """A command that is not there is an error of the arguments, in few lines."""
    done = run("demmo")
    assert 2 == done.returncode
    assert "demmo" in done.stderr and "demo" in done.stderr
    assert "Traceback" not in done.stderr


def test_mute_server_is_not_waited_for_long(make_server: Callable[..., Server]) -> None:
    """A server that takes the connection and says nothing ends the demo with a clear line."""
    server = make_server()
    server.pause()
    done = run("demo", "--redis", server.url)
    assert 1 == done.returncode
    assert "demo: Error while reading from Redis server: no answer within the timeout\n" == (
        done.stderr
    )
