"""The command as a whole: help, errors in one line, secrets, completion, life without extras."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner
from support.server import Server, free_port

from cli.conftest import COMMAND, PLAIN, Done, process
from redis_jobqueue import JobQueue, __version__
from redis_jobqueue.cli import program

Run = Callable[..., Done]

NAMES = ["work", "status", "top", "jobs", "show", "add", "delete", "requeue", "retry", "revive",
         "purge", "pause", "resume", "scale", "workers", "recover", "promote", "cancel", "doctor",
         "storable", "demo"]  # fmt: skip

READING = [["status"], ["jobs"], ["show"], ["workers"], ["doctor"], ["storable", "dump"]]


def test_every_command_is_there_with_examples() -> None:
    """Each has a help text of 80 columns at most, with examples for the name it was called by."""
    assert sorted(NAMES) == sorted(program.commands)
    for name in NAMES:
        made = program.commands[name]
        inner = list(made.commands) if isinstance(made, click.Group) else [""]
        for word in inner:
            words = [name, word] if word else [name]
            done = CliRunner().invoke(program, [*words, "--help"], prog_name="rq")
            assert 0 == done.exit_code
            assert "Examples:\n  # " in done.output and f"\n  rq {name}" in done.output
            text = done.output.partition("Examples:")[0]
            assert 80 >= max(map(len, text.splitlines())), name


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_commands_have_json(words: list[str]) -> None:
    """Whatever only reads can be read by a program."""
    assert "--json" in CliRunner().invoke(program, [*words, "--help"]).output


def test_json_may_stand_before_the_command(run: Run) -> None:
    """Common options are taken before and behind the name of the command."""
    assert {} == run("--json", "status").json["queues"]
    assert {} == run("--json", "--namespace", "N", "status").json["queues"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stauts"], "there is no command 'stauts'; did you mean status?"),
        (["status", "--foo"], "No such option"),
        (["jobs", "--page", "0"], "--page"),
        (["jobs", "--place", "waiting"], "--place waiting needs --queue"),
        (["jobs", "--place", "nowhere"], "--place"),
        (["jobs", "--owner", "x", "--status", "y"], "--place and --owner go with --queue only"),
        (["jobs", "--older", "yesterday"], "give a time such as 90, 90s, 15m, 2h or 7d"),
        (["show"], "Missing argument 'ID'"),
        (["doctor", "--skip", "nothing"], "--skip"),
        (["top"], "top needs a terminal; use status --watch"),
        (["--namespace", "caf\xe9", "status", "a\0b"], ""),
        (["--redis", "http://x", "status"], "a URL must start with redis://"),
        (["--redis", "", "status"], "not an empty text"),
    ],
)
def test_wrong_words_are_one_line(run: Run, words: list[str], says: str) -> None:
    """What is wrong with the arguments is said in one line that names the help."""
    done = CliRunner().invoke(program, words, prog_name="redis-jobqueue",
                              env={"REDIS_URL": "redis://localhost:1"})  # fmt: skip
    assert done.exit_code in (1, 2), done.output
    assert says in done.stderr and 1 == len(done.stderr.splitlines()), done.stderr
    assert done.stderr.startswith("redis-jobqueue")
    assert "Traceback" not in done.stderr


def test_dead_server_is_one_line() -> None:
    """Each command that needs a server says that there is none, and what to do."""
    url = f"redis://127.0.0.1:{free_port()}"
    for name in NAMES:
        words = {"work": ["work", "json:dumps", "--queue", "q"], "show": ["show", "x"],
                 "add": ["add", '{"queue": "q", "expire": 1}'], "scale": ["scale", "q", "1"],
                 "purge": ["purge", "--yes"],
                 "storable": ["storable", "dump", "--job", "x"]}.get(name, [name])  # fmt: skip
        if name in ("top", "demo"):
            continue
        if name in ("delete", "requeue", "retry", "revive", "cancel", "pause", "resume"):
            words = [name, "x"]
        done = CliRunner().invoke(program, words, env={"REDIS_URL": url})
        assert 1 == done.exit_code, (name, done.output)
        line = done.stderr.splitlines()[-1]
        assert "Could not connect to Redis server at 127.0.0.1" in line, line
        assert "--redis or REDIS_URL names another" in line


def test_traceback_can_be_asked_for() -> None:
    """Whoever looks for a fault of ours gets all of it."""
    url = f"redis://127.0.0.1:{free_port()}"
    done = process(url, "status", "--traceback")
    assert "Traceback" in done.err and 1 == done.code


SECRET = "pa55word"


def test_passwords_are_never_shown(make_server: Callable[..., Server]) -> None:
    """Given in any way, right or wrong, the password is in no output."""
    server = make_server(requirepass=SECRET)
    good, place = server.url, f"127.0.0.1:{server.port}"
    dead = f"redis://:{SECRET}@127.0.0.1:{free_port()}"
    environment = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(server.port), "REDIS_PASS": SECRET}
    runs = [
        process(good, "status", "--json"),
        process(None, "doctor", "--skip", "server", **environment),
        process(None, "--redis", good, "work", "json:dumps", "--queue", "q", "--burst",
                "--log-level", "debug"),
        process(dead, "status", "--traceback"),
        process(None, "--redis", f"redis://:wrong{SECRET}@{place}", "jobs", "--traceback"),
    ]  # fmt: skip
    assert [0, 0, 0, 1, 1] == [done.code for done in runs]
    inside = [
        [good], ["--redis", f"redis://:{SECRET}#x@h", "status"],
        ["--redis", f":{SECRET}@{place}", "status"], ["jobs", good],
        ["status", "--interval", good], [f":{SECRET}@{place}"], [f"redis://:a/{SECRET}/@{place}"],
        ["--redis", f"redis://:{SECRET}/x@{place}", "status"],
    ]  # fmt: skip
    for words in inside:
        done = CliRunner().invoke(program, words, env={"REDIS_URL": good})
        assert 2 == done.exit_code
        runs.append(Done(2, done.stdout, done.stderr))
    for each in runs:
        assert SECRET not in each.out + each.err


def test_completion(make_server: Callable[..., Server]) -> None:
    """A shell completes the names of commands and options, without any server."""
    done = subprocess.run(
        [sys.executable, "-c", "from redis_jobqueue.cli import main; main('redis-jobqueue')"],
        env={**PLAIN, "_REDIS_JOBQUEUE_COMPLETE": "bash_complete", "COMP_CWORD": "1",
             "COMP_WORDS": "redis-jobqueue re"},
        capture_output=True, text=True,
    )  # fmt: skip
    found = {line.partition(",")[2] for line in done.stdout.splitlines()}
    assert {"recover", "requeue", "resume", "retry", "revive"} == found, done


def test_without_its_packages_it_says_how_to_get_them() -> None:
    """Where click is missing, help and demo still work, and the others name the extra."""
    code = (
        "import runpy, sys\n"
        "sys.modules.update(dict.fromkeys(['click', 'rich']))\n"
        "sys.argv[1:] = {!r}\n"
        "runpy.run_module('redis_jobqueue', run_name='__main__')\n"
    )

    def bare(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code.format(list(words))], capture_output=True, text=True
        )

    done = bare("status")
    assert 2 == done.returncode and "pip install 'redis_jobqueue[cli]'" in done.stderr
    assert 1 == len(done.stderr.splitlines())
    done = bare("--help")
    assert 0 == done.returncode and "redis_jobqueue[cli]" in done.stdout


def test_version() -> None:
    """--version names the package."""
    done = CliRunner().invoke(program, ["--version"])
    assert f"redis_jobqueue {__version__}\n" == done.output


def test_embedded_server_serves_too() -> None:
    """Any address that a JobQueue takes is good."""
    from support.server import find_servers

    if not find_servers():
        pytest.skip("no Redis server on this machine")
    done = process(None, "--redis", "embedded://", "status", "--json")
    assert (0, {}) == (done.code, json.loads(done.out)["queues"])


def test_closed_pipe_is_no_error(make_server: Callable[..., Server]) -> None:
    """Whoever reads the first line only gets that, no traceback, and the code of what was found."""
    server = make_server()
    with JobQueue(server.url) as jq:
        jobs = jq.add_jobs([{"queue": "q", "expire": 0, "job": "x" * 50} for _ in range(1000)])
        jobs[0].workload = ["x" * 60] * 10_000
        jq.update_job(jobs[0])
        jq.redis.rpush("JobQueue:queue:lost", *(f"GONE{number}" for number in range(2000)))
    for words in (
        ["jobs", "--size", "1000", "--json"], ["jobs", "--size", "1000"],
        ["show", str(jobs[0].id), "--full"], ["show", str(jobs[0].id), "--json"],
        ["doctor", "--most", "2000"], ["doctor", "--json"],
        ["status", "--watch", "--interval", "0.1"],
        ["status", "--watch", "--interval", "0.1", "--json"],
    ):  # fmt: skip
        with subprocess.Popen(
            [*COMMAND, *words], env={**PLAIN, "REDIS_URL": server.url}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        ) as command:  # fmt: skip
            assert command.stdout is not None and command.stderr is not None
            assert command.stdout.readline()
            command.stdout.close()
            assert "" == command.stderr.read(), words
        assert (4 if "doctor" in words else 0) == command.returncode, words
