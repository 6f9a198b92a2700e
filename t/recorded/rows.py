"""The rows of outcomes.json: what each recorded, and the same made in Python."""

from __future__ import annotations

import json
from typing import Any

import redis
from support.recordings import DATA, Row, rows
from support.tagged import value_of

from recorded.bridge import SETTINGS, Perl
from recorded.compare import (
    FROZEN,
    recorded_death,
    recorded_keys,
    recorded_value,
    shown_death,
    shown_keys,
    shown_value,
)
from recorded.meaning import run
from redis_jobqueue import JobQueue

ROWS = rows("outcomes")
NOT_APPLICABLE: dict[str, dict[str, list[str]]] = json.loads(
    (DATA / "not_applicable.json").read_text("utf-8")
)
"""Recording -> reason -> the names of the rows that cannot apply for it."""


def listed(recording: str) -> set[str]:
    """Name the rows of a recording that cannot apply."""
    return {name for names in NOT_APPLICABLE[recording].values() for name in names}


LISTED = listed("outcomes")


def is_contract(row: Row) -> bool:
    """Tell whether Python must do as recorded."""
    return row["verdict"] == "contract" or row["recommend"] == "keep"


def _names(row: Row) -> list[str]:
    """Name what each returned value stands for."""
    method = row.get("method")
    if method in FROZEN | SETTINGS:
        return [method]
    if method == "get_job_data" and len(row["args"]) > 1:
        names = [value_of(tag) for tag in row["args"][1:]]
        return [f"metadata {name}" if name == "foo" else str(name) for name in names]
    return []


def _padded(names: list[str], count: int) -> list[str]:
    return (names + [""] * count)[:count]


def recorded(row: Row) -> Row:
    """Give what a row recorded, as far as it is compared."""
    if "died" in row:
        outcome = recorded_death(row)
    else:
        names = _padded(_names(row), len(row["returned"]))
        values = [recorded_value(tag, name) for tag, name in zip(row["returned"], names)]
        outcome = {"returned": _settled(row, values)}
    if row.get("last_errorcode") is not None:
        outcome |= {name: row[name] for name in ("last_errorcode", "last_error")}
    if "keys_after" in row:
        outcome["keys"] = recorded_keys(row["keys_after"])
    if "job_after" in row:
        outcome["job"] = recorded_value(row["job_after"], "")
    return outcome


def made(row: Row, world: Perl, client: redis.Redis | None = None, call: str = "") -> Row:
    """Make the call of a row in a world that is set up, and give the same of it.

    Args:
        row: the row.
        world: with the variables that the setup has left.
        client: a client of the server, for rows that recorded its keys.
        call: what to run instead of the row's own text.
    """
    try:
        values = run(call or row["call"], world)
        names = _padded(_names(row), len(values))
        shown = [shown_value(value, name) for value, name in zip(values, names)]
        outcome: Row = {"returned": _settled(row, shown)}
    except Exception as error:
        outcome = shown_death(error)
    if row.get("last_errorcode") is not None:
        queue = world.variables["$jq"]
        outcome |= {"last_errorcode": queue.last_errorcode, "last_error": queue.last_error}
    if "keys_after" in row and client is not None:
        outcome["keys"] = shown_keys(client, world.since)
    if "job_after" in row:
        outcome["job"] = shown_value(world.variables["$job"], "")
    return outcome


def _settled(row: Row, values: list[Any]) -> list[Any]:
    """Leave out what a row does not settle: the order of ids, a default of ours."""
    if "get_job_ids" in row["call"] or "get_job_meta_fields" in row["call"]:
        return sorted(values, key=repr)
    if "Redis::JobQueue->new" in row["call"] and "reconnect_on_error" not in row["call"]:
        for value in values:
            if isinstance(value, dict):
                value.pop("reconnect_on_error", None)
    return values


def world_of(port: int, client: redis.Redis) -> Perl:
    """Make a world with a queue, a client and a job's place, as the recorder had them."""
    world = Perl()
    queue = JobQueue(f"127.0.0.1:{port}", timeout=1)
    world.variables |= {"$jq": queue, "$redis": client, "$port": port, "$job": None}
    return world
