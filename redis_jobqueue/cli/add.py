"""``add``: jobs from JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

import click

from redis_jobqueue.checks import Text
from redis_jobqueue.cli.base import QUEUE, SECONDS, command, readable, setup
from redis_jobqueue.cli.output import print_json, progress, say
from redis_jobqueue.cli.values import from_json
from redis_jobqueue.errors import JobQueueError
from redis_jobqueue.job import Job

NAMES = ("queue", "job", "expire", "status", "message", "workload", "meta_data", "progress")
BATCH = 1000


@command("add", examples="""
    # one job
    add '{"queue": "mail", "expire": 3600, "workload": {"to": "ada@example.com"}}'
    # many, one a line; a job without a queue or expire of its own gets these
    add --queue mail --expire 1h jobs.jsonl
    # from another program, due in ten minutes
    produce | redis-jobqueue add --delay 10m -
""")  # fmt: skip
@readable
@click.argument("sources", nargs=-1, required=True, metavar="JSON|FILE|-...")
@click.option("--queue", type=QUEUE, help="For jobs that name none.")
@click.option("--job", "kind", help="Their 'job' attribute, where they have none.")
@click.option("--expire", type=SECONDS, help="Time that a job is kept, 0 for ever; where it says "
              "nothing.")  # fmt: skip
@click.option("--delay", type=SECONDS, help="Time until they are due.")
@click.option("--front", is_flag=True, help="Put them in front, the last one to be taken next.")
def add(sources: Sequence[str], queue: Text | None, kind: str | None, expire: float | None,
        delay: float | None, front: bool) -> None:  # fmt: skip
    """Add jobs: JSON objects with queue, expire, job, workload, meta_data, message, status.

    What starts with { is a job, - is standard input, anything else a file;
    files have one job a line.  All are checked before any is added.  Prints
    the ids, one a line.  Data that JSON has no form for: see `storable load`.
    """
    if front and delay is not None:
        raise click.UsageError("--front and --delay exclude each other")
    defaults: dict[str, Any] = {"queue": queue, "job": kind}
    if expire is not None:
        defaults["expire"] = int(expire)
    todo, places = [], []
    for where, line in _texts(sources):
        todo.append(_job(where, line, {k: v for k, v in defaults.items() if v is not None}))
        places.append(where)
    if not todo:
        raise click.UsageError("there is no job in what was given")
    jq = setup().connect()
    ids: list[str] = []
    with progress(len(todo) > 1) as bar:
        task = bar.add_task("adding jobs", total=len(todo))
        try:
            step = BATCH if delay is None else 1
            for first in range(0, len(todo), step):
                part = todo[first : first + step]
                if delay is None:
                    added = jq.add_jobs(part, LPUSH=front)
                else:
                    added = [jq.add_job(part[0], delay=delay)]
                ids += [str(job.id) for job in added]
                bar.update(task, completed=len(ids))
        except JobQueueError as error:
            ids += getattr(error, "added", ())
            unknown = len(getattr(error, "unknown", ()))
            _print(ids)
            if len(todo) > 1 and (ids or unknown):
                maybe = f", {unknown} more perhaps" if unknown else ""
                say(f"redis-jobqueue add: {len(ids)} of {len(todo)} jobs were added{maybe}; "
                    f"go on with {places[min(len(ids) + unknown, len(todo) - 1)]}")  # fmt: skip
            raise
    _print(ids)


def _print(ids: Sequence[str]) -> None:
    if setup().as_json:
        print_json({"added": list(ids)})
    else:
        for each in ids:
            click.echo(each)


def _texts(sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    for source in sources:
        if source.lstrip().startswith("{"):
            yield "the job", source
        elif source == "-":
            yield from _lines("standard input", sys.stdin.buffer)
        else:
            try:
                with open(source, "rb") as file:
                    yield from _lines(source, file)
            except OSError as error:
                raise click.UsageError(f"{source} cannot be read: {error.strerror}") from error


def _lines(name: str, file: IO[bytes]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield f"line {number} of {name}", line.decode("utf-8")
            except UnicodeDecodeError:
                raise click.UsageError(f"line {number} of {name} is not UTF-8") from None


def _job(where: str, line: str, defaults: dict[str, Any]) -> Job:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{where} is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise click.UsageError(f"{where} is no JSON object")
    if unknown := sorted(set(given) - set(NAMES)):
        raise click.UsageError(
            f"{where}: there is no attribute {unknown[0]!r}; there are {', '.join(NAMES)}"
        )
    for name, option in (("queue", "--queue"), ("expire", "--expire")):
        if given.get(name) in (None, "") and name not in defaults:
            raise click.UsageError(f"{where}: it has no {name}; add it, or give {option}")
    given = {name: value for name, value in given.items() if value is not None}
    try:
        for name in ("workload", "meta_data"):
            if name in given:
                given[name] = from_json(given[name], name)
        return Job({**defaults, **given})
    except (JobQueueError, TypeError, ValueError) as error:
        raise click.UsageError(f"{where}: {error}") from None


COMMANDS = (add,)
