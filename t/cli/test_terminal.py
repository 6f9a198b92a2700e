"""``top``, ``--watch`` and bars in a terminal that a program drives."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.server import Server, eventually

from cli.conftest import PLAIN
from redis_jobqueue import JobQueue, Owner

pexpect = pytest.importorskip("pexpect")


@pytest.fixture
def alone(make_server: Callable[..., Server]) -> Server:
    """Return a server of the newest version."""
    return make_server()


@pytest.fixture
def jq(alone: Server) -> Iterator[JobQueue]:
    """Return a queue object with two queues, and jobs in both."""
    with JobQueue(alone.url) as queue:
        for name in ("mail", "thumbs"):
            queue.add_jobs([{"queue": name, "expire": 600, "job": "send"} for _ in range(3)])
        yield queue


@pytest.fixture
def owner(jq: JobQueue) -> Iterator[Owner]:
    """Return an owner that holds one of the jobs."""
    with jq.owner(id="ann") as started:
        job = started.claim("mail")
        assert job is not None
        yield started
        assert started.held == [job]


@pytest.fixture
def terminal(alone: Server) -> Iterator[Callable[..., Any]]:
    """Return a function that runs the command in a terminal of 24 times 80."""
    made: list[Any] = []

    def begin(*words: str, **environment: str) -> Any:
        made.append(pexpect.spawn(
            sys.executable, ["-m", "redis_jobqueue", *words], dimensions=(24, 80), timeout=30,
            env={**PLAIN, "TERM": "xterm-256color", "REDIS_URL": alone.url, "LANG": "C.UTF-8",
                 **environment},
            encoding="utf-8",
        ))  # fmt: skip
        return made[-1]

    yield begin
    for each in made:
        each.close(force=True)


def end(child: Any) -> int:
    """Wait for the end and return the exit code."""
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus)


def test_top_shows_everything_and_obeys_keys(
    jq: JobQueue, owner: Owner, terminal: Callable[..., Any]
) -> None:
    """Queues, workers and running jobs are live; keys choose, pause, resume and quit."""
    child = terminal("top", "--interval", "0.2")
    child.expect(r"\x1b\[\?1049h")  # a screen of its own
    child.expect("2 queues, 1 worker live, 0 dead, 1 job held")
    child.expect(r">[^\n]*mail")
    child.expect("ann-")
    child.expect(str(owner.held[0].id))
    child.expect("p pause  r resume  q quit")
    child.send("p")
    child.expect(r"mail \(paused\)")
    eventually(lambda: jq.is_paused("mail"), "the pause")
    child.send("\x1b[B")
    child.expect(r">[^\n]*thumbs")
    child.send("p")
    child.expect(r"thumbs \(paused\)")
    child.send("\x1b[A")
    child.expect(r">[^\n]*mail")
    child.send("r")
    eventually(lambda: not jq.is_paused("mail"), "the end of the pause")
    assert jq.is_paused("thumbs")
    jq.add_jobs([{"queue": "mail", "expire": 600} for _ in range(41)])
    child.expect(r"mail[^\n]*\D43\D")  # with the two that waited
    child.send("q")
    child.expect(r"\x1b\[\?1049l")  # the old screen is back
    assert 0 == end(child)


def test_top_without_color(jq: JobQueue, terminal: Callable[..., Any]) -> None:
    """With NO_COLOR no colour is set."""
    child = terminal("top", "--interval", "0.2", NO_COLOR="1")
    child.expect("q quit")
    seen = child.before
    child.send("q")
    assert 0 == end(child)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", seen)


def test_top_outlives_its_server(
    alone: Server, jq: JobQueue, terminal: Callable[..., Any]
) -> None:
    """While the server is away it says so, and then goes on."""
    child = terminal("top", "--interval", "0.2")
    child.expect(r">[^\n]*mail")
    alone.stop()
    child.expect("(Could not connect|closed connection|Error while reading)")
    alone.start()
    child.expect("q quit")
    child.send("q")
    assert 0 == end(child)


def test_watch_goes_on_until_ctrl_c(jq: JobQueue, terminal: Callable[..., Any]) -> None:
    """The table is drawn anew with each look, and Ctrl-C ends it without a word."""
    child = terminal("status", "--watch", "--interval", "0.2")
    child.expect("mail *3 ")
    jq.delete_job(jq.waiting("mail")[0].id)
    child.expect("mail *2 ")
    child.expect(r"0\.0")  # now there is a rate
    child.sendintr()
    child.expect(pexpect.EOF)
    assert "Traceback" not in child.before
    child.close()
    assert 130 == child.exitstatus


def test_bar_is_for_terminals_only(jq: JobQueue, terminal: Callable[..., Any]) -> None:
    """The doctor shows how far it is, and leaves its report alone on the screen."""
    child = terminal("doctor", "--skip", "server")
    child.expect("all is well")
    assert "looking at keys" in child.before
    assert 0 == end(child)


def test_purge_asks_in_a_terminal(jq: JobQueue, terminal: Callable[..., Any]) -> None:
    """It says how many, and a no changes nothing."""
    with jq.owner() as owner:
        job = owner.claim("mail")
        assert job is not None
        owner.bury(job)
    child = terminal("purge")
    child.expect("delete up to 1 dead job for good?")
    child.sendline("n")
    assert 130 == end(child)
    child = terminal("purge")
    child.expect("for good?")
    child.sendline("y")
    child.expect("1 job deleted")
    assert 0 == end(child)
    assert [] == jq.dead()
