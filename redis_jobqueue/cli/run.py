"""``work`` runs a worker; ``demo`` shows the main job."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from redis_jobqueue import demo as showing
from redis_jobqueue.checks import Text
from redis_jobqueue.cli.base import QUEUE, SECONDS, command, connected, local, setup
from redis_jobqueue.cli.output import shown
from redis_jobqueue.errors import ArgumentError
from redis_jobqueue.handlers import Handler, Table, describe
from redis_jobqueue.owner import INTERVAL, LIFETIME
from redis_jobqueue.worker import Worker

LEVELS = ("debug", "info", "warning", "error")
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Formatter(logging.Formatter):
    """What is in ``extra`` behind the message, or all of it as one JSON object."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Give a record as one line, but for a traceback in text."""
        extra = {name: value for name, value in vars(record).items() if name not in _OWN}
        trace = self.formatException(record.exc_info) if record.exc_info else None
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        at += f".{int(record.msecs):03d}Z"
        if self._json:
            facts = {"time": at, "level": record.levelname.lower(), "logger": record.name,
                     "message": record.getMessage(), **extra}  # fmt: skip
            if trace is not None:
                facts["traceback"] = trace
            return json.dumps(facts, default=_as_text)
        pairs = "".join(f" {name}={_as_text(value)}" for name, value in extra.items())
        line = f"{at} {record.levelname:7} {record.getMessage()}{pairs}"
        return line if trace is None else f"{line}\n{trace}"


def _as_text(value: object) -> str:
    return shown(value) if isinstance(value, (bytes, str)) else str(value)


def start_logging(level: str, as_json: bool) -> None:
    """Log to standard error."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(_Formatter(as_json))
    root = logging.getLogger()
    root.handlers[:] = [out]
    root.setLevel(level.upper())


def load_handlers(where: str, queues: Sequence[Text]) -> Mapping[Text, Any]:
    """Import what ``MODULE:ATTR`` names, and see that it handles these queues.

    A mapping is one from queues to handlers; a function, or a `Handler`, runs
    the jobs of all the queues that are named.
    """
    module, colon, path = where.partition(":")
    if not (module and colon and path):
        raise click.UsageError(f"handlers are MODULE:ATTR, such as myapp.jobs:handlers: {where!r}")
    sys.path.insert(0, os.getcwd())
    found = _imported(module)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise click.UsageError(f"{module} has no {path}") from None
    if not isinstance(found, Mapping):
        if not (callable(found) or isinstance(found, Handler)):
            raise click.UsageError(f"{where} is neither a mapping nor a function")
        if not queues:
            raise click.UsageError(f"{where} is one function: name its queues by --queue")
        return dict.fromkeys(queues, found)
    try:
        known = Table.of(found).queues
    except ArgumentError as error:
        raise click.UsageError(f"{where}: {error}") from None
    for queue in queues:
        if queue not in known:
            raise click.UsageError(f"{where} has no handler for queue {shown(queue)} (it has "
                                   f"{', '.join(map(shown, known))})")  # fmt: skip
    return found


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            raise click.UsageError(f"there is no module {missing} here or on the path") from None
        raise click.UsageError(f"{module} cannot be imported: {describe(error)[0]} "
                               "(--traceback shows where)") from error  # fmt: skip


@command("work", examples="""
    # the handlers of a module, in eight threads
    work myapp.jobs:handlers --concurrency 8
    # two of its queues, in four processes, the first one first
    work myapp.jobs:handlers --queue urgent --queue mail --order listed --processes 4
    # for a supervisor that starts it anew
    work myapp.jobs:handlers --max-jobs 1000 --max-time 1h --log-format json
    # until nothing waits any more
    work myapp.jobs:handlers --burst
""")  # fmt: skip
@connected
@click.argument("handlers", metavar="MODULE:ATTR")
@click.option("--queue", "queues", multiple=True, type=QUEUE,
              help="A queue to serve; default: all that have a handler.")
@click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True,
              help="Jobs at once, in threads.")
@click.option("--processes", type=click.IntRange(0), default=0,
              help="Jobs at once, each in a process, instead of threads.")
@click.option("--burst", is_flag=True, help="End when the queues are empty.")
@click.option("--max-jobs", type=click.IntRange(0), default=0, help="End after so many jobs.")
@click.option("--max-time", type=SECONDS, default=0.0, help="End after this time.")
@click.option("--grace", type=SECONDS, default=30, show_default=True,
              help="Time that running jobs have after the first signal.")
@click.option("--max-attempts", type=click.IntRange(0),
              help="Deliveries after which a job is dead, also one that kills its worker; 0 for no "
              "limit. Default: the most retries of any handler, and one.")
@click.option("--interval", type=SECONDS, default=INTERVAL, show_default=True,
              help="Time between two beats, which say that this worker lives; it looks for dead "
              "ones as often.")
@click.option("--lifetime", type=SECONDS, default=LIFETIME, show_default=True,
              help="Time without a beat after which others take this worker for dead, and its "
              "jobs. Longer than it can stand still, and than --interval.")
@click.option("--order", type=click.Choice(["random", "listed"]), default="random",
              show_default=True, help="listed: a queue comes only if those before it are empty.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text",
              show_default=True)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def work(handlers: str, queues: Sequence[Text], log_format: str, log_level: str,
         **options: Any) -> int:  # fmt: skip
    """Run jobs by the handlers that a module has, until a signal comes.

    ATTR is a mapping from queues to functions, or one function for the queues
    named.  TERM or INT drains: nothing new is taken, running jobs get the
    grace time.  Ends with 0 when all that was begun is finished; 3 when jobs
    had to be put back after the grace time; 5 when the process that starts the
    child processes was killed; 128 and the number of the signal when a second
    one came.  1: the server cannot be reached at the start.
    """
    start_logging(log_level, log_format == "json")
    table = load_handlers(handlers, queues)
    if not 0 < options["interval"] < options["lifetime"]:
        raise click.UsageError("--interval must be more than 0, and less than --lifetime")
    worker = Worker(setup().connect(), table, queues=queues or None, **options)
    names = ", ".join(shown(name) for name in worker.queues)
    logging.getLogger("redis_jobqueue.worker").info("working on %s", names)
    return worker.run()


@command("demo", examples="""
    # on a throw-away server of its own
    demo
    # on yours, in a namespace of its own; no key is left behind
    demo --redis redis://localhost:6379
""")  # fmt: skip
@local
@click.option("--redis", metavar="URL", default=None, help="The server: host[:port] or a redis://, "
              "rediss://, unix:// or embedded:// URL. Default: embedded://, a throw-away server "
              "of this program.")  # fmt: skip
def demo(redis: str | None) -> int:
    """Add jobs, let a worker do them, kill another in the middle of one, read the results."""
    where = setup().redis if redis is None else redis
    return showing.main("embedded://" if where is None else where)


COMMANDS = (work, demo)
