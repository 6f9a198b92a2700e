"""What really reached a server: the commands that clients sent, read from its MONITOR."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import redis

from support.server import Server


@attrs.define
class Seen:
    """What came while somebody watched; filled when the watching ends.

    Attributes:
        sent: the commands that clients sent, each one round trip, as text.
        inner: the commands that scripts ran.
    """

    sent: list[str] = attrs.field(factory=list)
    inner: list[str] = attrs.field(factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the commands that clients sent."""
        return [words.split()[0].upper() for words in self.sent]

    @property
    def all_names(self) -> set[str]:
        """The names of all commands, those of scripts too."""
        return {words.split()[0].upper() for words in self.sent + self.inner}


@contextmanager
def watched(server: Server) -> Iterator[Seen]:
    """Watch all clients of a server while the block runs."""
    seen = Seen()
    end = uuid.uuid4().hex
    with server.client(socket_timeout=20) as watcher, server.client() as other:
        other.ping()
        with watcher.monitor() as monitor:
            yield seen
            other.echo(end)
            for each in monitor.listen():
                if end in each["command"]:
                    break
                inner = each["client_type"] == "lua"
                (seen.inner if inner else seen.sent).append(each["command"])


@contextmanager
def counted(server: Server) -> Iterator[dict[str, int]]:
    """Count all commands that run while the block does, by name, those of scripts too.

    Unlike `watched` this sees administrative commands, such as CONFIG.
    """
    counts: dict[str, int] = {}
    with server.client() as client:
        before = _counts(client)
        yield counts
        after = _counts(client)
    after["info"] -= 1  # the one that told us of the beginning
    counts.update(
        (name, after[name] - before.get(name, 0))
        for name in after
        if after[name] > before.get(name, 0)
    )


def _counts(client: redis.Redis) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, row in client.info("commandstats").items():
        command = name.removeprefix("cmdstat_").partition("|")[0]
        counts[command] = counts.get(command, 0) + row["calls"]
    return counts
