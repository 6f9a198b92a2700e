"""``top``: a live view of queues, workers and running jobs, with keys."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text as Words

from redis_jobqueue.checks import Text
from redis_jobqueue.cli.base import QUEUE, SECONDS, command, connected, discreet, setup
from redis_jobqueue.cli.look import last_beat, queue_cells
from redis_jobqueue.cli.output import add_row, age, console, shown, some, table
from redis_jobqueue.errors import JobQueueError
from redis_jobqueue.metrics import Snapshot, Watch
from redis_jobqueue.queue import JobQueue

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 12
"""Columns of a sparkline, and how many looks it remembers."""

KEYS = {"\x1b[A": "up", "\x1bOA": "up", "k": "up", "\x1b[B": "down", "\x1bOB": "down",
        "j": "down", "q": "quit", "Q": "quit", "\x03": "quit", "p": "pause",
        "r": "resume"}  # fmt: skip
HELP = "up/down choose  p pause  r resume  q quit"


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers as a line of bars, the largest as the highest."""
    most = max(values, default=0)
    return "".join(
        BARS[0] if most <= 0 else BARS[min(int(each / most * (len(BARS) - 1) + 0.5), 7)]
        for each in values
    )


@attrs.define
class Screen:
    """What `top` shows.

    Attributes:
        snapshot: the last one.
        chosen: the queue that keys act on.
        note: a line for the foot of the screen.
        history: queue -> its last rates.
    """

    snapshot: Snapshot
    chosen: Text | None = None
    note: str = ""
    history: dict[Text, deque[float]] = attrs.field(factory=dict)

    def take(self, snapshot: Snapshot) -> None:
        """Show another snapshot."""
        self.snapshot = snapshot
        for name, one in snapshot.queues.items():
            self.history.setdefault(name, deque(maxlen=WIDTH)).append(one.rate or 0.0)
        if self.chosen not in snapshot.queues:
            self.chosen = next(iter(snapshot.queues), None)

    def move(self, step: int) -> None:
        """Choose the queue above or below."""
        names = list(self.snapshot.queues)
        if self.chosen in names:
            self.chosen = names[max(0, min(names.index(self.chosen) + step, len(names) - 1))]

    def draw(self, screen: Console) -> Group:
        """Lay everything out for a screen of this size."""
        room = max(screen.height - 10, 3)
        queues = self._queues(max(room // 2, 1))
        owners = self.snapshot.owners
        people = table("OWNER", "STATE", ">BEAT", ">HOLDS", ">DONE", ">FAILED")
        for one in owners[: max(room // 4, 1)]:
            about = one.about
            add_row(people, one.id, "live" if one.live else "dead", age(last_beat(one)),
                    one.holding, about.get("done", "-"), about.get("failed", "-"),
                    style=None if one.live else "red")  # fmt: skip
        work = table("RUNNING JOB", "QUEUE", "KIND", ">FOR", ">DONE")
        for each in self.snapshot.running[: max(room // 4, 1)]:
            job = each.job
            since = self.snapshot.now - job.started if job and job.started else None
            add_row(work, shown(each.id), shown(each.queue), shown(job.job) if job else "gone",
                    age(since), f"{job.progress:.0%}" if job else "-")  # fmt: skip
        live = sum(one.live for one in owners)
        held = sum(one.processing for one in self.snapshot.queues.values())
        head = (f"{time.strftime('%H:%M:%S', time.localtime(self.snapshot.now))}  "
                f"{some(len(self.snapshot.queues), 'queue')}, {some(live, 'worker')} live, "
                f"{len(owners) - live} dead, {some(held, 'job')} held")  # fmt: skip
        parts: list[Any] = [Words(head, style="bold"), queues]
        parts += [people] if owners else []
        parts += [work] if self.snapshot.running else []
        return Group(*parts, Words(self.note or HELP, style="dim", no_wrap=True))

    def _queues(self, room: int) -> Any:
        made = table("", "QUEUE", ">WAIT", ">RUN", ">DELAY", ">RETRY", ">DEAD", ">OLDEST",
                     ">/SEC", "ENDED")  # fmt: skip
        names = list(self.snapshot.queues)
        place = names.index(self.chosen) if self.chosen in names else 0
        first = max(0, min(place - room // 2, len(names) - room))
        for name in names[first : first + room]:
            one = self.snapshot.queues[name]
            label = shown(name) + (" (paused)" if one.paused else "")
            add_row(made, ">" if name == self.chosen else " ", label, *queue_cells(one),
                    sparkline(self.history.get(name, ())),
                    style="reverse" if name == self.chosen else None)  # fmt: skip
        return made


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """Let keys come one by one, without an echo; gives a function that waits for one."""
    try:
        import termios
        import tty
    except ImportError:
        raise click.UsageError("top needs a Unix terminal; use status --watch") from None
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)

    def wait(seconds: float) -> str | None:
        if not select.select([handle], [], [], max(seconds, 0))[0]:
            return None
        got = os.read(handle, 16).decode("latin-1")
        return KEYS.get(got, KEYS.get(got[:1], "")) if got else "quit"

    try:
        tty.setcbreak(handle)
        yield wait
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


@command("top", examples="""
    # everything, live
    top
    # two queues, a look each half second
    top --interval 0.5 mail thumbnails
""")  # fmt: skip
@connected
@click.argument("queues", nargs=-1, type=QUEUE, metavar="[QUEUE]...")
@click.option("--interval", type=SECONDS, default=1, show_default=True,
              help="Time between two looks.")  # fmt: skip
def top(queues: Sequence[Text], interval: float) -> None:
    """Watch queues, workers and running jobs live.

    The arrow keys choose a queue, p pauses it, r resumes it, q ends.
    """
    screen = console()
    if not (sys.stdin.isatty() and screen.is_terminal):
        raise click.UsageError("top needs a terminal; use status --watch")
    jq = setup().connect()
    looker = Watch(jq, queues or None)
    shows = Screen(looker.look(details=True))
    shows.take(shows.snapshot)
    with _keys() as wait, Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            live.update(shows.draw(screen), refresh=True)
            ends = time.monotonic() + max(interval, 0.1)
            key = wait(ends - time.monotonic())
            if key == "quit":
                return
            shows.note = ""
            try:
                if key:
                    _act(jq, shows, key)
                if not key or key in ("pause", "resume"):
                    shows.take(looker.look(details=True))
            except JobQueueError as error:
                shows.note = discreet(str(error))


def _act(jq: JobQueue, shows: Screen, key: str) -> None:
    if key in ("up", "down"):
        shows.move(-1 if key == "up" else 1)
    elif shows.chosen is not None:
        (jq.pause if key == "pause" else jq.resume)(shows.chosen)


COMMANDS = (top,)
