"""Another process that uses an embedded server."""

from __future__ import annotations

import signal
import subprocess
import sys

import attrs

_CODE = """
import sys
from redis_jobqueue import embedded
server = embedded.start(sys.argv[1])
print(server.pid, server.guardian_pid, server.socket_path, flush=True)
sys.stdin.read()
"""


@attrs.define(eq=False)
class User:
    """A process that holds the server of ``url`` until it is told to go."""

    url: str
    pid: int = 0
    guardian_pid: int = 0
    socket_path: str = ""
    _process: subprocess.Popen[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, self.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def started(self) -> User:
        """Wait until it has the server."""
        assert self._process.stdout is not None
        pid, guardian, self.socket_path = self._process.stdout.readline().split(maxsplit=2)
        self.pid, self.guardian_pid = int(pid), int(guardian)
        self.socket_path = self.socket_path.strip()
        return self

    def leave(self) -> None:
        """Let it end by itself, without closing anything."""
        self._process.communicate()

    def kill(self) -> None:
        """Kill it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def __enter__(self) -> User:
        return self.started()

    def __exit__(self, *failure: object) -> None:
        self.kill()
