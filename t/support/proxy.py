"""A network that fails on command: a proxy between a client and a `Server`.

Connections pass until a test says otherwise.  Three faults wait for a request
that contains given bytes (a command's name, an id) and strike once::

    with Proxy(server) as proxy:
        fault = proxy.lose_reply(b"EVALSHA")
        ...                     # the call under test, to proxy.url
        fault.wait()            # the server has executed it, the client knows nothing

Others strike every connection at once: `cut`, `half_close`, `silence`.
One request is what arrives in one piece: a client that sends the next command
before it has read the reply of the last one is outside of this.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any

import attrs
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.server import Server

PIECE = 1 << 16
PATIENCE = 20.0
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends a reset instead of a farewell."""


@attrs.define(eq=False)
class Fault:
    """What happens to the first request that contains ``match``; made by `Proxy`."""

    kind: str
    match: bytes
    _struck: threading.Event = attrs.field(factory=threading.Event)
    _released: threading.Event = attrs.field(factory=threading.Event)

    def wait(self) -> None:
        """Wait until it has struck; fail the test when it does not."""
        assert self._struck.wait(PATIENCE), f"no request with {self.match!r} came to {self.kind}"

    def release(self) -> None:
        """Send the held request on, also when its client has long given up."""
        self._released.set()


@attrs.define(eq=False)
class _Link:
    """One connection of a client and the one to the server that belongs to it."""

    client: socket.socket
    server: socket.socket
    silent: bool = False
    was_reset: bool = False
    losing: Fault | None = None

    def reset(self) -> None:
        """End the client's side with a reset; the server is left to finish what it has."""
        self.was_reset = True
        try:
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.client.shutdown(socket.SHUT_RD)  # wakes the thread that reads
        except OSError:
            pass  # it was closed already
        self.client.close()

    def end(self, side: socket.socket) -> None:
        """Say farewell to one side."""
        try:
            side.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was closed already

    def close(self) -> None:
        """End both sides."""
        self.reset()
        try:
            self.server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was closed already
        self.server.close()


@attrs.define(eq=False)
class Proxy:
    """Stand between clients and a server; use as a context manager.

    Attributes:
        delay_ms: how long every request is kept back.
        refusing: end every new connection at once.
        sent, received: bytes of the requests and of the replies so far.
        connections: how many connections were made so far.
    """

    server: Server
    delay_ms: float = 0
    refusing: bool = False
    sent: int = 0
    received: int = 0
    connections: int = 0
    _silent: bool = False
    _faults: list[Fault] = attrs.field(factory=list)
    _links: list[_Link] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _listener: socket.socket = attrs.field(
        factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=128)
    )

    @property
    def port(self) -> int:
        """The port of 127.0.0.1 to connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The server's address by way of this proxy."""
        return self.server.url.replace(f":{self.server.port}/", f":{self.port}/")

    def client(self, **options: Any) -> redis.Redis:
        """Return a plain redis-py client that tries nothing twice; the caller closes it."""
        options.setdefault("retry", Retry(NoBackoff(), 0))
        return redis.Redis.from_url(self.url, **options)

    # -- faults that wait for a request ------------------------------------

    def cut_before(self, match: bytes = b"") -> Fault:
        """Reset the connection instead of passing the request on: it is never executed."""
        return self._add("cut", match)

    def lose_reply(self, match: bytes = b"") -> Fault:
        """Pass the request on, wait for the reply, and reset the connection instead."""
        return self._add("lose", match)

    def hold(self, match: bytes = b"") -> Fault:
        """Keep the request back until `Fault.release`."""
        return self._add("hold", match)

    def _add(self, kind: str, match: bytes) -> Fault:
        fault = Fault(kind, match)
        with self._lock:
            self._faults.append(fault)
        return fault

    # -- faults that strike every connection now ---------------------------

    def cut(self) -> None:
        """Reset all connections; new ones pass."""
        for link in self._open_links():
            link.reset()

    def half_close(self) -> None:
        """Tell every client that no reply will come any more, and go on taking requests."""
        for link in self._open_links():
            link.end(link.client)

    def silence(self, new: bool = False) -> None:
        """Swallow both directions without ending a connection, as a firewall does.

        The connections that are open now stay so; new ones pass, unless ``new``
        is set: then they are as silent, until `heal`.
        """
        self._silent = new
        for link in self._open_links():
            link.silent = True

    def heal(self) -> None:
        """Let new connections pass again, and forget the faults that have not struck."""
        self.delay_ms, self.refusing, self._silent = 0, False, False
        with self._lock:
            self._faults.clear()

    def _open_links(self) -> list[_Link]:
        with self._lock:
            return list(self._links)

    # -- the machinery -----------------------------------------------------

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._listener.shutdown(socket.SHUT_RD)  # wakes the thread that accepts
        self._listener.close()
        for fault in self._faults:
            fault.release()
        for link in self._open_links():
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # the proxy is closed
            try:
                server = socket.create_connection(("127.0.0.1", self.server.port))
            except OSError:
                client.close()  # the server is down
                continue
            link = _Link(client, server, self._silent)
            with self._lock:
                self.connections += 1
                self._links.append(link)
            if self.refusing:
                link.reset()
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: _Link) -> None:
        requests = threading.Thread(target=self._pass_requests, args=(link,), daemon=True)
        requests.start()
        self._pass_replies(link)
        requests.join()
        with self._lock:
            self._links.remove(link)
        link.close()

    def _next_fault(self, data: bytes) -> Fault | None:
        with self._lock:
            self.sent += len(data)
            for fault in self._faults:
                if fault.match in data:
                    self._faults.remove(fault)
                    return fault
        return None

    def _pass_requests(self, link: _Link) -> None:
        try:
            while data := link.client.recv(PIECE):
                fault = self._next_fault(data)
                kind = fault.kind if fault else ""
                if fault and kind == "cut":
                    link.reset()
                    fault._struck.set()
                    break
                if fault and kind == "hold":
                    fault._struck.set()
                    fault._released.wait()
                time.sleep(self.delay_ms / 1000)
                if kind == "lose":
                    link.losing = fault
                if not link.silent:
                    link.server.sendall(data)
        except OSError:
            pass  # one side is gone
        if not link.silent:
            link.end(link.server)

    def _pass_replies(self, link: _Link) -> None:
        try:
            while data := link.server.recv(PIECE):
                with self._lock:
                    self.received += len(data)
                if link.losing:
                    link.reset()
                    link.losing._struck.set()
                    break
                if not link.silent:
                    link.client.sendall(data)
        except OSError:
            pass  # one side is gone
        if not (link.silent or link.was_reset):  # a farewell would come before the reset
            link.end(link.client)
