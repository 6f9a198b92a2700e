"""The process that watches over one embedded server; started by `embedded`.

It listens on a unix socket.  Whoever uses the server keeps a connection to it
open; the kernel ends that connection with the user, however the user ends, and
after the last one the server is stopped.  A forked child holds its parent's
connection and so counts without doing anything.

Whoever wants to join holds the folder's lock while he connects, and the
guardian takes it before it leaves, so nobody joins a server that is going.
The server itself holds another lock for as long as it lives.  Where that one
is taken, an earlier guardian was killed, and its server is taken over.  Users
of that time have no connection here; but all users share a third lock, and the
server stays until that is free.

Runs as ``python -I -S guardian.py FOLDER SOCKETS BINARY keep|drop`` and so
uses nothing but the standard library, not even attrs or its own package.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time

START_SECONDS = 60.0
"""How long a server may take to load its data before it counts as broken."""

ADOPT_SECONDS = 10.0
"""How long a server that runs without a guardian may take to answer."""

STOP_SECONDS = 10.0
"""How long a server may take to stop before it is killed; its data is on disk."""

LOOK_SECONDS = 0.2
"""How often to look whether it is time to leave, once no user is left."""

SERVER_SOCKET, GUARDIAN_SOCKET = "redis.sock", "guardian.sock"
LOCK, SERVER_LOCK, USERS = "lock", "server.lock", "users.lock"
PID, LOG, SOCKETS = "redis.pid", "redis.log", "sockets"
"""Files in the folder of the data; SOCKETS holds the path of the folder of the sockets."""


class Problem(Exception):
    """The server cannot be had; the text says why."""


def ask(path: str, command: str, timeout: float = 5.0) -> str:
    """Send one command to the server at a unix socket, without redis-py.

    Returns:
        The reply as it comes over the wire, or "" when there is none.
    """
    reply = b""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(timeout)
            link.connect(path)
            link.sendall(f"{command}\r\nQUIT\r\n".encode())
            while data := link.recv(1 << 16):
                reply += data
    except OSError:
        pass
    return reply.decode(errors="replace")


def tail(path: str, start: int = 0, lines: int = 8) -> str:
    """Return the last lines of a file, of what was written after ``start`` bytes."""
    try:
        with open(path, "rb") as log:
            log.seek(start)
            text = log.read().decode(errors="replace").strip()
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


class Guardian:
    """Watch over the server of one folder.

    Args:
        folder: where the data is, absolute.
        sockets: where the two sockets are; the same folder for a private server.
        binary: the server's program.
        keep: whether the data stays when the server stops.
    """

    def __init__(self, folder: str, sockets: str, binary: str, keep: bool) -> None:
        self.folder = folder
        self.sockets = sockets
        self.binary = binary
        self.keep = keep
        self.server_socket = os.path.join(sockets, SERVER_SOCKET)
        self.log_start = os.path.getsize(self._path(LOG))
        self.pid = 0
        self.child: subprocess.Popen[bytes] | None = None
        self.control = socket.socket(socket.AF_UNIX)
        """A connection to the server: its end is the end of the server."""
        self.listener = socket.socket(socket.AF_UNIX)
        self.users: selectors.BaseSelector

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def listen(self) -> None:
        """Open the door, over one that an earlier guardian left behind."""
        path = os.path.join(self.sockets, GUARDIAN_SOCKET)
        if os.path.exists(path):
            os.unlink(path)
        self.listener.bind(path)
        self.listener.listen(128)

    def run(self) -> None:
        """Get the server, and watch until nobody uses it."""
        self.users = selectors.DefaultSelector()
        self.users.register(self.listener, selectors.EVENT_READ)
        try:
            self._get_server()
            self._watch()
        except Problem as problem:
            self._complain(str(problem))

    # -- the server --------------------------------------------------------

    def _get_server(self) -> None:
        """Start the server, or take over the one that already runs on the data."""
        deadline = time.monotonic() + ADOPT_SECONDS
        while (lock := self._lock(SERVER_LOCK)) is None:
            if self._adopt():
                break
            if time.monotonic() > deadline:
                raise Problem(
                    f"process {tail(self._path(PID)) or 'of unknown number'} holds the data"
                    f" but does not answer at {self.server_socket}"
                )
            time.sleep(0.05)
        else:
            self._start(lock)
        self.control.close()
        self.control = socket.socket(socket.AF_UNIX)
        try:
            self.control.connect(self.server_socket)
        except OSError as error:
            raise Problem(f"the server went away at once: {error}") from error
        self.users.register(self.control, selectors.EVENT_READ)

    def _lock(self, name: str) -> int | None:
        """Take one of the folder's locks; None when somebody has it."""
        kind = fcntl.lockf if name == LOCK else fcntl.flock
        try:
            lock = os.open(self._path(name), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # somebody removed the folder: nobody comes any more
            return os.open(os.devnull, os.O_RDWR)
        try:
            kind(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return None
        return lock

    def _adopt(self) -> bool:
        """Take the running server over if it answers at our socket; it knows its number."""
        number = re.search(r"process_id:(\d+)", ask(self.server_socket, "INFO server", 1))
        if not number:
            return False
        if int(number[1]) != self.pid:
            self.pid, self.child = int(number[1]), None
        return ask(self.server_socket, "PING", 1).startswith("+PONG")

    def _start(self, lock: int) -> None:
        """Start the server and hand it the lock."""
        try:
            self._check_format()
            self.child = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, pass_fds=[lock], cwd=self.folder
            )
        except OSError as error:
            raise Problem(f"{self.binary} cannot be run: {error}") from error
        finally:
            os.close(lock)
        self.pid = self.child.pid
        deadline = time.monotonic() + START_SECONDS
        while not ask(self.server_socket, "PING").startswith("+PONG"):
            status = self.child.poll()
            if status is not None:
                raise Problem(f"{self.binary} ended with status {status} instead of starting")
            if time.monotonic() > deadline:
                self.child.kill()
                raise Problem(f"{self.binary} does not answer within {START_SECONDS:.0f} s")
            time.sleep(0.01)

    def _check_format(self) -> None:
        """Refuse to start a server that would overlook the data of a newer one."""
        if os.path.isdir(self._path("appendonlydir")):
            about = subprocess.run([self.binary, "--version"], capture_output=True, text=True)
            version = re.search(r"v=(\d+)", about.stdout)
            if version and int(version[1]) < 7:
                raise Problem(
                    f"the data was written by a newer server than {self.binary}:"
                    f" {about.stdout.strip()}"
                )

    def _command(self) -> list[str]:
        """Return the server's command line: no port, no log file but our own output."""
        settings = {
            "port": "0",
            "unixsocket": self.server_socket,
            "unixsocketperm": "700",
            "dir": self.folder,
            "pidfile": self._path(PID),
            "logfile": "",
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if self.keep else "no",
        }
        return [self.binary, *(word for k, v in settings.items() for word in (f"--{k}", v))]

    # -- its users ---------------------------------------------------------

    def _watch(self) -> None:
        while True:
            for key, _ in self.users.select(LOOK_SECONDS if self._unused() else None):
                link = key.fileobj
                assert isinstance(link, socket.socket)
                if link is self.listener:
                    self._welcome(link.accept()[0])
                elif not self._alive(link):
                    self.users.unregister(link)
                    link.close()
                    if link is self.control:
                        self._get_server()  # it has ended while it was in use
            if self._unused() and not self._strangers() and self._leave():
                return

    def _unused(self) -> bool:
        return set(self.users.get_map()) <= {self.listener.fileno(), self.control.fileno()}

    @staticmethod
    def _alive(link: socket.socket) -> bool:
        try:
            return link.recv(1 << 12) != b""
        except OSError:
            return False

    def _welcome(self, user: socket.socket) -> None:
        word = {"pid": self.pid, "guardian": os.getpid(), "socket": self.server_socket}
        try:
            user.sendall(json.dumps(word).encode() + b"\n")
        except OSError:
            user.close()  # it has gone already
        else:
            self.users.register(user, selectors.EVENT_READ)

    def _strangers(self) -> bool:
        """Tell whether somebody is left who joined while an earlier guardian was here."""
        lock = self._lock(USERS)
        if lock is None:
            return True
        os.close(lock)
        return False

    # -- the end -----------------------------------------------------------

    def _leave(self) -> bool:
        """Stop the server and tidy up, unless somebody is just coming in."""
        lock = self._lock(LOCK)
        if lock is None:
            return False
        self._stop()
        self._tidy()
        os.close(lock)
        return True

    def _stop(self) -> None:
        self.listener.close()
        self.control.settimeout(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(self.pid, signal.SIGTERM)
            try:
                self.control.recv(1)
            except OSError:
                os.kill(self.pid, signal.SIGKILL)
        if self.child:
            self.child.wait()

    def _tidy(self) -> None:
        if self.keep:
            with contextlib.suppress(OSError):
                os.unlink(self._path(SOCKETS))
        shutil.rmtree(self.sockets, ignore_errors=True)

    def _complain(self, problem: str) -> None:
        """Tell the one who waits what is wrong, with the last words of the log.

        He has the folder's lock, so before he goes is the time to tidy up.
        """
        words = [problem, tail(self._path(LOG), self.log_start)]
        word = {"error": "\n".join(filter(None, words))}
        self.listener.settimeout(ADOPT_SECONDS)
        with contextlib.suppress(OSError):
            user, _ = self.listener.accept()
            if self._lock(SERVER_LOCK) is not None:  # no server runs
                self._tidy()
            user.sendall(json.dumps(word).encode() + b"\n")


def main(folder: str, sockets: str, binary: str, fate: str) -> None:
    """Open the door, let the one who started this go on, and watch.

    No signal short of SIGKILL ends a guardian: it goes when its users have gone.
    """
    guardian = Guardian(folder, sockets, binary, fate == "keep")
    guardian.listen()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    guardian.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
