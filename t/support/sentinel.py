"""A real Redis Sentinel that watches one server."""

from __future__ import annotations

import json
import time
from pathlib import Path

import attrs
import redis

from support.server import START_SECONDS, Server

SERVICE = "mymaster"


@attrs.define(eq=False)
class Sentinel(Server):
    """A sentinel process for the service `SERVICE`.

    Make it with ``Sentinel.make(version, master=server, **settings)``.
    """

    @property
    def name(self) -> str:
        """Its ``host:port``."""
        return f"127.0.0.1:{self.port}"

    def _words(self) -> list[str]:
        master: Server = self.options["master"]
        port = self.options.get("master_port", master.port)
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            "protected-mode no",
            f"sentinel monitor {SERVICE} 127.0.0.1 {port} 1",
            f"sentinel down-after-milliseconds {SERVICE} 60000",
            f"sentinel failover-timeout {SERVICE} 10000",
        ]
        if password := master.options.get("requirepass"):
            lines.append(f"sentinel auth-pass {SERVICE} {json.dumps(password)}")
        if password := self.options.get("requirepass"):
            lines.append(f"requirepass {json.dumps(password)}")
        lines += self.options.get("lines", [])
        path = Path(self.folder, "sentinel.conf")
        path.write_text("\n".join(lines) + "\n")
        return [self.binary, str(path), "--sentinel"]

    def _answers(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        with self.client(socket_timeout=5) as probe:
            while self.running and time.monotonic() < deadline:
                try:
                    probe.ping()
                except redis.RedisError:
                    time.sleep(0.01)
                else:
                    return self.running
        return False
