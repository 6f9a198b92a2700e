"""The servers that fail: what stands on the port of each recorded scenario.

Most setups say in Perl what happens to the server, and `Stage` gives them
``start``, ``stop`` and ``raw``.  What the recorder had prepared beforehand, or did
inside of Redis.pm, is done here for the scenario by its name.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import redis
from support.proxy import Proxy
from support.recordings import Row
from support.server import Server, eventually, free_port

from recorded.bridge import Perl
from recorded.meaning import run

_PATCHED = re.compile(r"my \$real = .*|(no warnings; )?\*Redis::__std_cmd = \$main::restore; ")
"""How the recorder reached into Redis.pm; a `Proxy` does that here."""

_CLUSTER_PORTS = 55_536
"""A server of a cluster also listens on the port that is 10,000 higher."""

_KEYS = 96
_KEY_BYTES = 1 << 18
_KEY_LOAD_US = 20_000
"""A data set that takes two seconds to load; Redis answers once in 2 MB, eight keys."""


class Stage:
    """One scenario on a server, from its setup to its last step."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server = server
        self.stack = stack
        self.port = server.port
        self.after_setup: Callable[[], object] = lambda: None
        # One that stays logged in, whatever the scenario does to passwords and clients.
        self._admin: redis.Redis | None = None

    def admin(self) -> redis.Redis:
        """Return a client for what the recorder did beside the queue."""
        if self._admin is None:
            self._admin = self.stack.enter_context(
                self.server.client(single_connection_client=True)
            )
        return self._admin

    def start(self, port: int) -> None:
        """Start the server again, empty."""
        self.server.start()

    def stop(self, port: int) -> None:
        """Kill the server; its data is gone."""
        self._admin = None
        self.server.kill()

    def world(self, rows: list[Row]) -> Perl:
        """Set the scenario up."""
        scenario = rows[0]["scenario"]
        prepare = next((made for start, made in _PREPARED if scenario.startswith(start)), None)
        if prepare is not None:
            prepare(self)
        perl = Perl(start=self.start, stop=self.stop, raw=self.admin)
        perl.variables |= {"$port": self.port, "%pid": {str(self.port): self.server.running}}
        setup = _PATCHED.sub("", rows[0]["setup"])
        for old, new in _INSTEAD.items():
            setup = setup.replace(old, new)
        run(setup, perl)
        self.after_setup()
        return perl


_INSTEAD = {
    # Evicts the job and not its queue: the key that ends first goes first.  The
    # recorder waited until the job was the least recently used key.
    "allkeys-lru": "volatile-ttl",
    "select undef, undef, undef, 2.1; ": "",
    """$r->set("pad:$_", 'x' x 4000)""": """$r->setex("pad:$_", 3600, 'x' x 4000)""",
}


def call_of(row: Row) -> str:
    """Give the call of a step, without what reaches into Redis.pm."""
    if row["name"].startswith("loading the data set, step 6"):
        return "raw()->config('set', 'key-load-delay', 0); " + row["call"]
    return _PATCHED.sub("", row["call"])


def _cut(stage: Stage) -> None:
    proxy = stage.stack.enter_context(Proxy(stage.server))
    stage.port = proxy.port
    stage.after_setup = lambda: proxy.cut_before(b"EVALSHA")


def _password(stage: Stage) -> None:
    stage.admin().config_set("requirepass", "sesame")


def _users(stage: Stage) -> None:
    client = stage.admin()
    for name, rules in (
        ("worker", ["+@all", "-config", "-info"]),
        ("reader", ["+@all", "-@write"]),
    ):
        client.execute_command("ACL", "SETUSER", name, "on", ">pw", "~*", *rules)


def _loading(stage: Stage) -> None:
    client = stage.admin()
    client.config_set("rdbcompression", "no")
    client.config_set("key-load-delay", _KEY_LOAD_US)
    for number in range(_KEYS):
        client.setrange(f"pad:{number}", _KEY_BYTES - 1, "x")

    def reload() -> None:
        with stage.server.client() as own:
            own.execute_command("DEBUG", "RELOAD")

    def begin() -> None:
        thread = threading.Thread(target=reload)
        thread.start()
        stage.stack.callback(thread.join)
        eventually(lambda: client.info("persistence")["loading"], "the server loads")

    stage.after_setup = begin


def _another_server(**options: str) -> Callable[[Stage], None]:
    def prepare(stage: Stage) -> None:
        other = Server.make(stage.server.version_name, **options)
        if "include" in options:
            other.options["include"] = f"{other.folder}/extra.conf"
            with open(other.options["include"], "w") as conf:
                conf.write(options["include"])
        while not 0 < other.port < _CLUSTER_PORTS:
            other.port = free_port()
        stage.server = stage.stack.enter_context(other)
        stage.port = stage.server.port

    return prepare


def _listener(answer: bytes) -> Callable[[Stage], None]:
    """Stand on a port and speak another protocol, or say nothing at all."""

    def prepare(stage: Stage) -> None:
        listener = stage.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stage.port = listener.getsockname()[1]

        def serve() -> None:
            held = []
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    break
                if answer:
                    client.recv(1000)
                    client.sendall(answer)
                held.append(client)
            for client in held:
                client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        stage.stack.callback(thread.join)
        stage.stack.callback(lambda: listener.shutdown(socket.SHUT_RDWR))

    return prepare


_PREPARED: tuple[tuple[str, Callable[[Stage], None]], ...] = (
    ("connection lost before EXEC", _cut),
    ("password wrong", _password),
    ("CONFIG and INFO not permitted", _users),
    ("writing not permitted", _users),
    ("CONFIG renamed away", _another_server(include='rename-command CONFIG ""\n')),
    ("loading the data set", _loading),
    ("cluster without slots", _another_server(cluster_enabled="yes")),
    ("something else answers", _listener(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
    ("nothing answers", _listener(b"")),
)


@contextmanager
def stage_on(server: Server) -> Iterator[Stage]:
    """Open a stage on a server that the scenario may do anything to."""
    with ExitStack() as stack:
        yield Stage(server, stack)


def by_scenario(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Give the steps of each scenario, by its name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if "scenario" in row:
            found.setdefault(row["scenario"], []).append(row)
    return found
