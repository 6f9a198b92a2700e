"""The README's examples of the command, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import docutils.core
import docutils.nodes
from support.server import Server

from cli.conftest import process

TEXT = (Path(__file__).parents[2] / "README.rst").read_text("utf-8")


def test_examples_of_the_command_run(server: Server) -> None:
    """Each line ends with 0 and says something."""
    tree = docutils.core.publish_doctree(TEXT, settings_overrides={"report_level": 5})
    (block,) = [each for each in tree.findall(docutils.nodes.literal_block)
                if "command" in each["names"]]  # fmt: skip
    lines = block.astext().splitlines()
    assert 8 < len(lines)
    for line in lines:
        words = line.replace("redis-jobqueue", f"{sys.executable} -m redis_jobqueue", 1)
        done = subprocess.run(
            ["/bin/sh", "-c", words], env={**os.environ, "REDIS_URL": server.url},
            capture_output=True, text=True,
        )  # fmt: skip
        assert (0, "") == (done.returncode, done.stderr), line
        assert done.stdout, line


def test_purge_of_the_crontab_runs(server: Server) -> None:
    """The line for cron has the options that there are, and asks nobody."""
    (words,) = re.findall(r"``0 3 \* \* \* redis-jobqueue (purge .*?)``", TEXT)
    done = process(server.url, *words.split())
    assert (0, "0 jobs deleted\n", "") == (done.code, done.out, done.err)
