"""The package as it is installed: everything in it, one version, few dependencies."""

from __future__ import annotations

import email
import email.policy
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import redis_jobqueue

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(TOP / "redis_jobqueue", tree / "redis_jobqueue", ignore=ignored)
    for name in ("setup.py", "setup.cfg", "README.rst", "LICENSE"):
        shutil.copy(TOP / name, tree)
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--use-pep517",
            "-w", str(folder), str(tree),
        ],  # fmt: skip
        capture_output=True,
        text=True,
    )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"no wheel can be built here: {done.stderr[-300:]}")
    assert 0 == done.returncode, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_wheel_holds_the_whole_package(wheel: zipfile.ZipFile) -> None:
    """Every module, every script and the type marker are in the wheel, and no test is."""
    package = TOP / "redis_jobqueue"
    expected = {
        f"redis_jobqueue/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.suffix in (".py", ".lua") or path.name == "py.typed"
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert expected == found
    assert "redis_jobqueue/py.typed" in found
    assert "redis_jobqueue/lua/add_job.lua" in found


def test_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    """Version, licence and readme are in its metadata, and two packages are needed to run."""
    (name,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    about = email.message_from_bytes(wheel.read(name), policy=email.policy.compat32)
    assert redis_jobqueue.__version__ == about["Version"]
    assert "MIT" in (about["License"], about["License-Expression"])
    assert (TOP / "README.rst").read_text("utf-8").strip() in wheel.read(name).decode()
    needed = {
        re.split(r"\W", each)[0] for each in about.get_all("Requires-Dist", [])
        if "extra ==" not in each
    }  # fmt: skip
    assert {"redis", "attrs"} == needed
    assert {"embedded", "cli", "hiredis", "test", "all"} <= set(about.get_all("Provides-Extra"))


def test_wheel_runs_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Installed from the wheel, without the tree, it imports and knows its scripts."""
    wheel.extractall(tmp_path)
    code = (
        "import redis_jobqueue, redis_jobqueue.lua as lua; print(redis_jobqueue.__file__);"
        "assert 'add_job' in lua.SCRIPTS"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert 0 == done.returncode, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def test_version_is_one() -> None:
    """The package and what pip knows of it agree."""
    assert metadata.version("redis_jobqueue") == redis_jobqueue.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", redis_jobqueue.__version__)
