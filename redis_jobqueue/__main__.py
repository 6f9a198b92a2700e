"""``python -m redis_jobqueue``: the command, or what of it needs no package of an extra."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from redis_jobqueue import __version__, demo

NAME = "python -m redis_jobqueue"

EXAMPLES = """\
examples:
  python -m redis_jobqueue demo
      on a throw-away server of its own
  python -m redis_jobqueue demo --redis redis://localhost:6379
      on yours, in a namespace of its own; no key is left behind

status, top, jobs, work, doctor and the other commands need two packages more:
  pip install 'redis_jobqueue[cli]'
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="Perl's Redis::JobQueue in Python, on the same Redis keys.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"redis_jobqueue {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    show = commands.add_parser(
        "demo",
        help="add jobs, work on them and read the results, all before your eyes",
        description="Count the words of this package's own texts, and compute the checksums of "
        "its files, as jobs of two queues; then kill a worker in the middle of a job.",
    )
    show.add_argument(
        "--redis",
        default="embedded://",
        metavar="URL",
        help="the server: host[:port] or a redis://, rediss://, unix:// or embedded:// URL "
        "(default: %(default)s, a throw-away server of this program)",
    )
    return parser


def complete() -> bool:
    """Tell whether the packages that the whole command needs are there."""
    try:
        return find_spec("click") is not None and find_spec("rich") is not None
    except ValueError:  # somebody has put something else in their place
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of the small kind and give its exit code: 0 done, 1 failed, 2 wrong arguments.

    What only the whole command has is refused with how to install it.
    """
    parser = _parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and not words[0].startswith("-") and words[0] != "demo":
        print(f"{NAME}: {words[0]!r} is not demo; every other command needs "
              "pip install 'redis_jobqueue[cli]'", file=sys.stderr)  # fmt: skip
        return 2
    given = parser.parse_args(words)
    if given.command is None:
        parser.print_help()
        return 0
    return demo.main(given.redis)


def script() -> None:
    """Run the whole command where it can be, else the small one; the console script."""
    if complete():
        from redis_jobqueue.cli import main as whole

        whole(NAME if sys.argv[0].endswith("__main__.py") else None)
    sys.exit(main())


if __name__ == "__main__":
    script()
