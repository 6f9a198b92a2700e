"""``python -m redis_jobqueue``: what can be run without writing a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from redis_jobqueue import __version__, demo

EXAMPLES = """\
examples:
  python -m redis_jobqueue demo
      on a throw-away server of its own
  python -m redis_jobqueue demo --redis redis://localhost:6379
      on yours, in a namespace of its own; no key is left behind
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m redis_jobqueue",
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
        "its files, as jobs of two queues.",
    )
    show.add_argument(
        "--redis",
        default="embedded://",
        metavar="URL",
        help="the server: host[:port] or a redis://, rediss://, unix:// or embedded:// URL "
        "(default: %(default)s, a throw-away server of this program)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code: 0 done, 1 failed, 2 wrong arguments."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help()
        return 0
    return demo.main(given.redis)


if __name__ == "__main__":
    sys.exit(main())
