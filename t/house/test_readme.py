"""The README: it renders, its examples run, its tables say what is true."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docutils.core
import docutils.nodes
import pytest
from perl.peer import PERL, missing
from support.server import Server, find_servers

import redis_jobqueue
from redis_jobqueue import errors

TOP = Path(__file__).parents[2]
TEXT = (TOP / "README.rst").read_text("utf-8")


def read() -> tuple[docutils.nodes.document, str]:
    """Return the parsed README and what docutils has to say about it."""
    warnings = io.StringIO()
    tree = docutils.core.publish_doctree(
        TEXT,
        settings_overrides={
            "report_level": 1,
            "halt_level": 5,
            "warning_stream": warnings,
            # as PyPI shows it
            "raw_enabled": False,
            "file_insertion_enabled": False,
        },
    )
    return tree, warnings.getvalue()


TREE = read()[0]


def blocks(node: docutils.nodes.Node, language: str) -> list[docutils.nodes.literal_block]:
    """Return the code blocks of a language below a node."""
    return [
        block
        for block in node.findall(docutils.nodes.literal_block)
        if language in block["classes"]
    ]


def in_table(node: docutils.nodes.Node) -> bool:
    """Tell whether a node stands in a table."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, docutils.nodes.table):
            return True
    return False


def rows(first: str) -> list[list[docutils.nodes.entry]]:
    """Return the body rows of the table whose first heading is this."""
    for table in TREE.findall(docutils.nodes.table):
        found = [list(row.findall(docutils.nodes.entry))
                 for row in table.findall(docutils.nodes.row)]  # fmt: skip
        if found and first == found[0][0].astext():
            return found[1:]
    raise AssertionError(f"the README has no table that starts with {first!r}")


def placed(code: str, server: Server, folder: Path) -> str:
    """Return an example for this machine: our server, and a folder that we may write to."""
    return code.replace("localhost:6379", f"127.0.0.1:{server.port}").replace(
        "/srv/jobs", str(folder)
    )


def test_it_renders() -> None:
    """Docutils, which PyPI uses, has nothing to complain about."""
    assert "" == read()[1]


@pytest.mark.parametrize("end", ["-m redis_jobqueue demo", "-m pytest t"])
def test_commands_are_one_line_each(end: str) -> None:
    """Each command makes its own environment, and stands in one line that can be copied."""
    found = [block.astext() for block in blocks(TREE, "sh") if block.astext().endswith(end)]
    assert 1 == len(found)
    assert re.fullmatch(
        r"python3 -m venv \.venv && \.venv/bin/pip install -q -e '\.\[\w+\]' && "
        r"\.venv/bin/python " + re.escape(end),
        found[0],
    )


def test_examples_run(server: Server, tmp_path: Path) -> None:
    """All Python examples run from top to bottom, and their asserts hold."""
    names: dict[str, Any] = {}
    found = [block for block in blocks(TREE, "python") if not in_table(block)]
    assert 4 < len(found)
    for block in found:
        if not block["names"]:
            code = placed(block.astext(), server, tmp_path / "jobs")
            exec(compile(code, f"README.rst: {code.splitlines()[0]}", "exec"), names)


def test_example_of_the_fixtures_runs(tmp_path: Path) -> None:
    """What is said about fixtures works in a project of its own."""
    if not find_servers():
        pytest.skip("no Redis server on this machine")
    (block,) = [block for block in blocks(TREE, "python") if "fixtures" in block["names"]]
    (tmp_path / "test_users.py").write_text(block.astext())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_users.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout


def side_by_side(server: Server, folder: Path) -> Iterator[str]:
    """Give the two programs of the table: the Perl one and the Python one."""
    for number, language in enumerate(("perl", "python")):
        code = "\n".join(
            block.astext() for row in rows("Perl") for block in blocks(row[number], language)
        )
        yield placed(code, server, folder)


def test_python_column_runs(server: Server, tmp_path: Path) -> None:
    """The right column is a program that runs, and prints what the left one would."""
    _, program = side_by_side(server, tmp_path)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    assert SIDE_BY_SIDE == done.stdout.splitlines()


def test_perl_column_runs(server: Server, tmp_path: Path) -> None:
    """The left column is a program for the real module, and prints the very same."""
    if reason := missing():
        pytest.skip(reason)
    program, _ = side_by_side(server, tmp_path)
    done = subprocess.run(
        [PERL, "-e", "use strict; use warnings;\n" + program], capture_output=True, text=True
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert SIDE_BY_SIDE == done.stdout.splitlines()


SIDE_BY_SIDE = ["a text", "__working__ 0.5 anna", "host user", "1", "0 of 1 wait", "0", "2", "1",
                "Invalid argument", "1"]  # fmt: skip


def test_table_of_codes_is_true() -> None:
    """Each row names a constant and an exception that have this code, and the text beside it."""
    seen = set()
    for code, names, text, _ in rows("Code"):
        number = int(code.astext())
        constant, exception = re.findall(r"\w+", names.astext())
        assert number == getattr(redis_jobqueue, constant)
        assert errors.ERROR[number] == text.astext()
        kind = getattr(redis_jobqueue, exception)
        assert number == kind(code=number).code
        if exception not in ("ArgumentError", "StorableError"):
            assert number == kind.code
        seen |= {number, exception}
    every = {name for name in redis_jobqueue.__all__ if name.endswith("Error")}
    assert {*range(8), *every} - {"JobQueueError"} == seen


def test_table_of_constants_is_true() -> None:
    """Each constant has the value that the table gives, and none is missing."""
    values = {row[0].astext(): ast.literal_eval(row[1].astext()) for row in rows("Constant")}
    assert values == {name: getattr(redis_jobqueue, name) for name in values}
    constants = {name for name in redis_jobqueue.__all__ if name.isupper()}
    assert set(values) == {name for name in constants if not name.startswith("E_")}


def test_named_rights_suffice(server: Server) -> None:
    """A Redis user with the commands of the README and no others can do all that Perl can."""
    (block,) = [block for block in blocks(TREE, "text") if "rights" in block["names"]]
    with server.client() as client:
        words = [f"+{word}" for word in block.astext().split()]
        client.execute_command("ACL", "SETUSER", "few", "on", ">pw", "~JobQueue:*", "-@all", *words)
    url = f"redis://few:pw@127.0.0.1:{server.port}"
    with redis_jobqueue.JobQueue(url, check_maxmemory=False, timeout=0.1) as jq:
        job = jq.add_job({"queue": "q", "expire": 60, "meta_data": {"a": 1}})
        jq.add_job({"queue": "q", "expire": 60}, LPUSH=True)
        job.progress = 0.5
        assert 2 == jq.update_job(job)
        assert [0.5, 1] == jq.get_job_data(job, "progress", "a")
        assert ["a"] == jq.get_job_meta_fields(job)
        assert 2 == len(jq.get_job_ids(queue="q", status=job.status, queued=True))
        assert (2, 2) == (jq.queue_length("q"), jq.queue_status("q")["all_jobs"])
        assert jq.get_next_job("q") and jq.get_next_job_id("q") and jq.ping()
        assert jq.get_next_job(["q", "r"], blocking=True) is None
        assert jq.load_job(job) and jq.delete_job(job)


def test_guarantees_have_their_tests() -> None:
    """Each line of the table names tests, and these exist."""
    found = rows("Guarantee")
    assert 10 < len(found)
    for row in found:
        names = re.findall(r"(t/[\w/]+\.py)(?:::(\w+))?", row[1].astext())
        assert names, row[0].astext()
        for path, function in names:
            source = (TOP / path).read_text("utf-8")
            assert function == "" or f"def {function}(" in source, f"{path}::{function}"


def test_named_files_exist() -> None:
    """Every file of the tree that is named is there."""
    named = set(re.findall(r"\bt/[\w/]+\.py|\.ci/run", TEXT))
    assert 10 < len(named)
    assert [] == sorted(name for name in named if not (TOP / name).exists())


def test_every_public_name_is_mentioned() -> None:
    """What can be imported is found in the README."""
    words = set(re.findall(r"\w+", TEXT))
    assert [] == sorted(set(redis_jobqueue.__all__) - words)


def test_variables_of_the_environment_are_all_there() -> None:
    """The README lists the variables that are read, and no others."""
    source = "".join(
        path.read_text("utf-8") for path in (TOP / "redis_jobqueue").rglob("*.py")
    )
    read_ones = set(re.findall(r"[\"'](REDIS_[A-Z_]+)[\"']", source))
    assert read_ones == set(re.findall(r"\bREDIS_[A-Z_]+\b", TEXT))


def test_changes_come_last() -> None:
    """The last section is the changes, and starts with this version."""
    titles = [section.next_node(docutils.nodes.title).astext()
              for section in TREE.findall(docutils.nodes.section)]  # fmt: skip
    assert redis_jobqueue.__version__ == titles[titles.index("Changes") + 1]
    assert TEXT.rindex("\n---") == TEXT.index("Changes\n-------") + len("Changes")


def test_no_line_is_too_long_to_read() -> None:
    """Lines stay within 100 columns, but for the two commands."""
    long = [line for line in TEXT.splitlines() if len(line) > 100]
    assert [] == [line for line in long if not line.startswith("    python3 -m venv")]
