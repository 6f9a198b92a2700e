"""The command ``redis-jobqueue``: watch, steer and repair queues, and run workers.

It needs ``click`` and ``rich``: ``pip install 'redis_jobqueue[cli]'``.  `main` is
the entry point; each module here has the commands of one topic.
"""

from __future__ import annotations

from redis_jobqueue.cli.act import COMMANDS as ACT
from redis_jobqueue.cli.add import COMMANDS as ADD
from redis_jobqueue.cli.base import EXIT_DAMAGED, EXIT_FAILED, EXIT_USAGE, program
from redis_jobqueue.cli.check import COMMANDS as CHECK
from redis_jobqueue.cli.images import COMMANDS as IMAGES
from redis_jobqueue.cli.look import COMMANDS as LOOK
from redis_jobqueue.cli.run import COMMANDS as RUN
from redis_jobqueue.cli.show import COMMANDS as SHOW
from redis_jobqueue.cli.watch import COMMANDS as WATCH

for command in (*RUN, *LOOK, *WATCH, *SHOW, *ADD, *ACT, *CHECK, *IMAGES):
    program.add_command(command)


def main(name: str | None = None) -> None:
    """Run the command of this process's arguments, and exit."""
    program.main(prog_name=name)


__all__ = ["EXIT_DAMAGED", "EXIT_FAILED", "EXIT_USAGE", "main", "program"]
