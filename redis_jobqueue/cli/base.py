"""What every command shares: the server, names, errors in one line, help with examples."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn, TypeVar

import attrs
import click

from redis_jobqueue._version import __version__
from redis_jobqueue.checks import Text
from redis_jobqueue.errors import ArgumentError, JobQueueError, NetworkError
from redis_jobqueue.operations.request import Command as Ask
from redis_jobqueue.queue import JobQueue

EXIT_FAILED = 1
"""The server failed or refused, or there was nothing to act on."""
EXIT_USAGE = 2
"""The arguments, a file or the address cannot be used; nothing was done."""
EXIT_DAMAGED = 4
"""`doctor` found something that endangers jobs, and it is still there."""

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 30.0

F = TypeVar("F", bound=Callable[..., Any])


@attrs.define
class Setup:
    """What the options of one run say.

    Attributes:
        redis: the server; None for what the environment names.
        namespace: the first segment of all keys; None for the default.
        as_json: whether to print JSON.
        traceback: whether errors keep their traceback.
        code: the exit code where nobody reads the output to its end.
    """

    redis: str | None = None
    namespace: str | None = None
    as_json: bool = False
    traceback: bool = False
    code: int = 0

    @property
    def server_options(self) -> dict[str, Any]:
        """The arguments of `JobQueue` that these options stand for."""
        options: dict[str, Any] = {"check_maxmemory": False}
        if self.namespace is not None:
            options["namespace"] = exact(self.namespace)
        return options

    def connect(self) -> JobQueue:
        """Make the queue object, and see that the server answers."""
        if self.redis is None:
            jq = JobQueue.from_env(**self.server_options)
        else:
            jq = JobQueue(
                self.redis, connection_timeout=CONNECT_SECONDS,
                operation_timeout=ANSWER_SECONDS, **self.server_options,
            )  # fmt: skip
        click.get_current_context().call_on_close(jq.quit)
        # A server that refuses us is heard of before anything is done.
        jq._driver.send(Ask((b"EXISTS", jq._keys.paused)))
        return jq


class Failure(click.ClickException):
    """Something that a command could not do; one line says what, and what to do."""

    exit_code = EXIT_FAILED


def setup() -> Setup:
    """Give the options of this run."""
    return click.get_current_context().find_root().ensure_object(Setup)


# Names, exactly as they were given.


def exact(name: str) -> Text:
    """Give a word of the command line as Redis keeps it: its very octets if not ASCII."""
    return name if name.isascii() else os.fsencode(name)


class NameType(click.ParamType):  # type: ignore[type-arg]
    """A name that is used exactly as it stands: no splitting, no trimming, not empty."""

    def __init__(self, what: str) -> None:
        self.name = what

    def convert(self, value: Any, param: Any, ctx: Any) -> Text:
        """Refuse what can be no name."""
        if value == "":
            self.fail(f"the name of {self.name} must not be empty", param, ctx)
        return exact(value) if isinstance(value, str) else value


QUEUE = NameType("a queue")
JOB_ID = NameType("a job")
OWNER = NameType("an owner")


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A length of time: ``90``, ``90s``, ``15m``, ``2h``, ``7d``."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Give it in seconds."""
        if isinstance(value, (int, float)):
            return float(value)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", value.strip())
        if not match or len(value) > 20:
            self.fail("give a time such as 90, 90s, 15m, 2h or 7d", param, ctx)
        return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


SECONDS = Seconds()


# Options that stand before or behind the name of a command.


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            setattr(ctx.find_root().ensure_object(Setup), name, value)

    return keep


def _option(*words: str, to: str, **more: Any) -> Callable[[F], F]:
    return click.option(*words, expose_value=False, callback=_remember(to), **more)


_REDIS = _option(
    "--redis", to="redis", metavar="URL",
    help="The server: host[:port] or a redis://, rediss://, unix:// or embedded:// URL. "
    "Default: REDIS_URL, or REDIS_HOST, REDIS_PORT and REDIS_PASS, or localhost:6379. "
    "A password is safer in REDIS_URL: others see the arguments of a process.",
)  # fmt: skip
_NAMESPACE = _option(
    "--namespace", to="namespace", metavar="NAME",
    help="The first segment of all keys. Default: JobQueue.",
)  # fmt: skip
_TRACEBACK = _option("--traceback", to="traceback", is_flag=True, hidden=True)
_JSON = _option("--json", to="as_json", is_flag=True, help="Print JSON.")


def connected(function: F) -> F:
    """Let a command take the options that name the server."""
    return _REDIS(_NAMESPACE(_TRACEBACK(function)))


def readable(function: F) -> F:
    """Let a command take ``--json``, beside what `connected` gives."""
    return connected(_JSON(function))


def local(function: F) -> F:
    """Let a command that needs no server take what is left of the common options."""
    return _TRACEBACK(function)


# Help.


class Command(click.Command):
    """A command whose help ends with examples.

    Args:
        examples: lines behind the name of the program, each with a line
            ``# what it does`` before it.
    """

    def __init__(self, *args: Any, examples: str = "", **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they stand, for the program as it was called."""
        _write_examples(self.examples, ctx, formatter)


def _write_examples(examples: str, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    name = ctx.find_root().command_path
    lines = [line.strip() for line in examples.strip().splitlines()]
    if not lines:
        return
    formatter.write("\nExamples:\n")
    for line in lines:
        formatter.write(f"  {line if line.startswith('#') else f'{name} {line}'}\n")


class _Closed(Exception):
    """Nobody reads the output any more; click must not see it as the error it is for others."""


class Program(click.Group):
    """The group of all commands: any error is one line and an exit code."""

    command_class = Command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the exit codes."""
        _write_examples(EXAMPLES, ctx, formatter)
        formatter.write("\nExit codes: 0 done; 1 the server failed, or there was nothing to act "
                        "on;\n2 wrong arguments; 4 doctor found damage; work adds 3, 5, 128+N, "
                        "see its help.\n")  # fmt: skip

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; where there is none of this name, name those that come close."""
        if args and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx))
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()
            return done
        except BrokenPipeError:
            raise _Closed from None

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None,
             complete_var: str | None = None, standalone_mode: bool = True,
             **extra: Any) -> Any:  # fmt: skip
        """Run, and exit with a code; nobody sees a traceback unless he asked for it."""
        made = Setup()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, _terminated)
        try:
            code = super().main(args, prog_name, complete_var, False, obj=made, **extra)
        except _Closed:
            # Python flushes once more at its end: give it something to write to.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = made.code
        except Exception as error:
            if made.traceback:
                raise
            code = _say(error)
        except KeyboardInterrupt as stop:
            code = 128 + int(stop.args[0] if stop.args else signal.SIGINT)
        if standalone_mode:
            sys.exit(code or 0)
        return code or 0


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(number)


_LOGIN = re.compile(r"(://|(?<![^\s'\"]):)\S*@")


def discreet(message: str) -> str:
    """Give a message in one line, without what may be a password in it."""
    return _LOGIN.sub(r"\1***@", " ".join(message.split()))


def _say(error: Exception) -> int:
    name, hint, code = "redis-jobqueue", "", EXIT_FAILED
    text = str(error)
    if isinstance(error, click.Abort):
        text, code = "stopped", 128 + signal.SIGINT
    elif isinstance(error, click.ClickException):
        text, code = error.format_message(), error.exit_code
        if isinstance(error, click.UsageError) and error.ctx is not None:
            name = error.ctx.command_path
            hint = f" (see {name} --help)"
    elif isinstance(error, ArgumentError):
        code = EXIT_USAGE
    elif isinstance(error, NetworkError):
        hint = " (is the server up? --redis or REDIS_URL names another)"
    elif isinstance(error, (JobQueueError, OSError)):
        pass
    else:
        text = f"{type(error).__name__}: {text}"
        hint = " (this is a fault of ours; --traceback shows more)"
    click.echo(f"{discreet(name)}: {discreet(text)}{hint}", err=True)
    return code


EXAMPLES = """
# see it work, on a throw-away server of its own
demo
# look at all queues, and go on looking
status --watch
# run the handlers of your module, eight jobs at once
work myapp.jobs:handlers --queue thumbnails --concurrency 8
# what is wrong, for your monitoring: exit code 4 if there is anything
doctor --json
# on another server
--redis redis://db.example.com:6379/1 status
"""


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Perl's Redis::JobQueue in Python, on the same Redis keys: watch and steer queues, "
    "run workers, find and repair damage.",
)
@click.version_option(__version__, message="redis_jobqueue %(version)s")
@readable
@click.pass_context
def program(ctx: click.Context) -> None:
    """Show the help where no command is given."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def command(name: str, *, examples: str = "") -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function; its docstring is the help."""
    return click.command(name, cls=Command, examples=examples)
