"""The state of a Redis in a form that can be compared.

`state_of` reads every key and puts names in the place of what differs from run
to run: ids become ``<1>``, ``<2>`` in the order of their making, times of now
become ``<now>``, an end of life is counted from now.  Octets are text with one
character a byte.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TIMES = frozenset({"created", "updated", "started", "completed", "failed"})
GRAIN = 100
"""Seconds: times to live are whole multiples of it, and rounded to it."""


def state_of(client: Any, ids: Sequence[str]) -> dict[str, Any]:
    """Give every key with type, time to live and content; `ids` in the order of their making.

    The client is a redis-py client that gives bytes.
    """
    now = time.time()
    name = _namer(ids)
    state = {}
    for key in client.keys():
        kind = client.type(key).decode()
        ttl = client.ttl(key)
        state[name(key)] = {
            "type": kind,
            "ttl": _rounded(ttl) if ttl > 0 else ttl,
            "content": _hash(client.hgetall(key), name, now)
            if kind == "hash"
            else [_entry(entry, name, now) for entry in client.lrange(key, 0, -1)],
        }
    return state


def _namer(ids: Sequence[str]) -> Callable[[bytes], str]:
    names = {job_id: f"<{number}>" for number, job_id in enumerate(ids, 1)}

    def name(octets: bytes) -> str:
        text = octets.decode("latin-1")
        for job_id, short in names.items():
            text = text.replace(job_id, short)
        return text

    return name


def _rounded(seconds: float) -> int:
    return round(seconds / GRAIN) * GRAIN


def _hash(
    fields: Mapping[bytes, bytes], name: Callable[[bytes], str], now: float
) -> dict[str, str]:
    content = {}
    for octets, value in fields.items():
        field = octets.decode("latin-1")
        if field == "__id_in_queue__":
            content[field] = _entry(value, name, now)
        elif field in TIMES:
            content[field] = shown_time(value.decode(), now)
        else:
            content[field] = name(value)
    return content


def shown_time(text: str, now: float) -> str:
    """Give a time field as it is, or ``<now>`` for one of now, as Perl writes it."""
    recent = re.fullmatch(r"\d{10}(\.\d{0,4}[1-9])?", text) and abs(float(text) - now) < 1000
    return "<now>" if recent else text


def _entry(entry: bytes, name: Callable[[bytes], str], now: float) -> str:
    job_id, space, epoch = name(entry).partition(" ")
    return f"{job_id} now+{_rounded(int(epoch) - now)}" if space else job_id
