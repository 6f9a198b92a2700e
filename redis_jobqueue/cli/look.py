"""``status``, ``jobs`` and ``workers``: what is there, without touching any data of jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import attrs
import click
from rich.console import RenderableType
from rich.live import Live
from rich.table import Table

from redis_jobqueue.checks import Text
from redis_jobqueue.cli.base import (
    OWNER,
    QUEUE,
    SECONDS,
    command,
    exact,
    readable,
    setup,
)
from redis_jobqueue.cli.output import (
    add_row,
    age,
    console,
    lines,
    plain,
    print_json,
    progress,
    shown,
    size,
    some,
    table,
)
from redis_jobqueue.keys import octets, text
from redis_jobqueue.metrics import QueueView, Snapshot, Watch
from redis_jobqueue.operations import views
from redis_jobqueue.operations.overview import Listed, OwnerInfo, said_number, said_texts
from redis_jobqueue.operations.views import Found, JobRow
from redis_jobqueue.queue import JobQueue


def queue_table(snapshot: Snapshot) -> Table:
    """Make the table of `status`."""
    made = table("QUEUE", ">WAITING", ">RUNNING", ">DELAYED", ">RETRY", ">DEAD", ">OLDEST",
                 ">PER SEC")  # fmt: skip
    for name, one in snapshot.queues.items():
        label = shown(name) + (" (paused)" if one.paused else "")
        if one.concurrency is not None:
            label += f" (to {one.concurrency})"
        add_row(made, label, *queue_cells(one))
    return made


def queue_cells(one: QueueView) -> tuple[str, ...]:
    """Give the numbers of a queue as a table shows them."""
    rate = "-" if one.rate is None else f"{one.rate:.1f}"
    return (f"{one.waiting}", f"{one.processing}", f"{one.delayed}", f"{one.retrying}",
            f"{one.dead}", age(one.oldest_age), rate)  # fmt: skip


def _status_json(snapshot: Snapshot) -> dict[str, object]:
    seen = {"now": snapshot.now, "queues": plain(snapshot.queues)}
    total = ("waiting", "processing", "delayed", "retrying", "dead")
    sums = {name: sum(getattr(one, name) for one in snapshot.queues.values()) for name in total}
    return {**seen, "total": sums}


@command("status", examples="""
    # all queues
    status
    # one whose name starts with a dash, and go on looking
    status --watch -- -urgent
    # for a script
    status --json mail
""")  # fmt: skip
@readable
@click.argument("queues", nargs=-1, type=QUEUE, metavar="[QUEUE]...")
@click.option("--watch", is_flag=True, help="Go on looking until Ctrl-C.")
@click.option("--interval", type=SECONDS, default=2, show_default=True,
              help="Time between two looks.")  # fmt: skip
@click.option("--rate", "span", type=SECONDS, default=0.0,
              help="Look twice, so long apart, to tell how many jobs end in a second.")
def status(queues: Sequence[Text], watch: bool, interval: float, span: float) -> None:
    """Show queues: how many jobs wait, run, are delayed, come again, or are dead.

    OLDEST is the age of the job that is next; PER SEC is how many jobs end, and
    needs two looks (--watch or --rate).  With --json and --watch one line of
    JSON is one look.
    """
    jq = setup().connect()
    looker = Watch(jq, queues or None)
    if watch:
        return _watch(looker, max(interval, 0.1))
    snapshot = looker.look()
    if span:
        time.sleep(span)
        snapshot = looker.look()
    if setup().as_json:
        print_json(_status_json(snapshot))
    elif not snapshot.queues:
        click.echo("no queue has a job")
    else:
        console().print(queue_table(snapshot))


def _watch(looker: Watch, interval: float) -> None:
    screen = console()
    if setup().as_json:
        while True:
            click.echo(json.dumps(_status_json(looker.look())))
            time.sleep(interval)
    if not screen.is_terminal:
        while True:
            screen.print(queue_table(looker.look()))
            time.sleep(interval)
    with Live(console=screen, auto_refresh=False) as live:
        while True:
            live.update(_titled(looker.look()), refresh=True)
            time.sleep(interval)


def _titled(snapshot: Snapshot) -> RenderableType:
    made = queue_table(snapshot)
    made.title = time.strftime("%H:%M:%S  Ctrl-C ends", time.localtime(snapshot.now))
    return made


PLACES = ("waiting", "processing", "delayed", "retrying", "dead")


@attrs.frozen
class Filter:
    """What `jobs` lets through."""

    queues: frozenset[bytes]
    statuses: frozenset[bytes]
    now: float
    older: float | None
    newer: float | None

    def fits(self, queue: bytes, status: bytes, created: float, updated: float) -> bool:
        """Tell whether a job is to be listed."""
        old = self.now - created
        return (
            (not self.queues or queue in self.queues)
            and (not self.statuses or status in self.statuses)
            and (self.older is None or old >= self.older)
            and (self.newer is None or old <= self.newer)
        )


@command("jobs", examples="""
    # the newest jobs of a queue
    jobs --queue mail
    # what failed in the last hour, second page, as JSON
    jobs --status failed --newer 1h --page 2 --json
    # what waits, the next job first; what a worker holds; the dead
    jobs --place waiting --queue mail
    jobs --owner host-1234-ab12cd
    jobs --place dead
    # the ids alone, for another command
    jobs --status failed --ids --size 1000 | xargs -r -n 100 redis-jobqueue retry
""")  # fmt: skip
@readable
@click.option("--queue", "queues", multiple=True, type=QUEUE, help="Only of this queue.")
@click.option("--status", "statuses", multiple=True, metavar="TEXT",
              help="Only with this status: created, working, completed, failed, or your own.")
@click.option("--place", type=click.Choice(PLACES), help="Only what stands there, in its order.")
@click.option("--owner", type=OWNER, help="Only what this owner holds.")
@click.option("--older", type=SECONDS, help="Only jobs created at least so long ago.")
@click.option("--newer", type=SECONDS, help="Only jobs created at most so long ago.")
@click.option("--page", type=click.IntRange(1), default=1, show_default=True)
@click.option("--size", "per_page", type=click.IntRange(1, 10_000), default=50,
              show_default=True, help="Jobs on a page.")
@click.option("--ids", is_flag=True, help="Print ids only, one a line.")
def jobs(queues: Sequence[Text], statuses: Sequence[str], place: str | None, owner: Text | None,
         older: float | None, newer: float | None, page: int, per_page: int,
         ids: bool) -> None:  # fmt: skip
    """List jobs, the newest first; their data is never read.

    With --place or --owner only that list is read, in its order.  Otherwise
    every job is looked at, in steps that do not hold up the server.
    """
    if place or owner:
        _check_place(place, queues, owner, bool(statuses) or (older, newer) != (None, None))
    jq = setup().connect()
    if place or owner:
        listed, total = _placed(jq, place or "processing", queues, owner, page, per_page), None
    else:
        listed, total = _searched(
            jq,
            Filter(
                frozenset(octets(name, "queue") for name in queues),
                frozenset(map(_status, statuses)), jq.now_ms() / 1000, older, newer,
            ),
            page, per_page,
        )  # fmt: skip
    if ids:
        return lines(shown(each.id) for each in listed)
    keys = jq._keys
    rows = jq._run(views.rows([octets(each.id, "id") for each in listed], keys))
    if setup().as_json:
        return print_json({"page": page, "size": per_page, "total": total, "jobs": [
            {**plain(row or {"id": each.id, "gone": True}), "owner": each.owner,
             "at": each.score}
            for each, row in zip(listed, rows)
        ]})  # fmt: skip
    _print_jobs(jq, listed, rows)
    if total is not None:
        pages = max(-(-total // per_page), 1)
        click.echo(f"page {page} of {pages}, {some(total, 'job')}")


def _status(given: str) -> bytes:
    short = given in ("created", "working", "completed", "failed")
    return octets(exact(f"__{given}__" if short else given), "status")


def _searched(
    jq: JobQueue, wanted: Filter, page: int, per_page: int
) -> tuple[list[Listed], int]:
    found, cursor = Found(), b""
    with progress(not setup().as_json) as bar:
        task = bar.add_task("looking at jobs", total=None)
        while cursor != b"0":
            cursor = jq._run(views.search(cursor or b"0", found, wanted.fits, jq._keys))
            bar.update(task, completed=found.looked)
    newest = sorted(found.ids, key=lambda each: (-found.ids[each], each))
    first = (page - 1) * per_page
    return [Listed(text(each)) for each in newest[first : first + per_page]], len(newest)


def _check_place(
    place: str | None, queues: Sequence[Text], owner: Text | None, more: bool
) -> None:
    if more:
        raise click.UsageError("--place and --owner go with --queue only")
    if len(queues) > 1:
        raise click.UsageError("name one queue with --place or --owner")
    if owner is not None and place not in (None, "processing"):
        raise click.UsageError("--owner goes with --place processing only")
    if place == "waiting" and not queues:
        raise click.UsageError("--place waiting needs --queue")


def _placed(
    jq: JobQueue, place: str, queues: Sequence[Text], owner: Text | None, page: int, per_page: int
) -> list[Listed]:
    queue = queues[0] if queues else None
    if place == "waiting" and queue is not None:
        return jq.waiting(queue, page, per_page)
    if place == "processing" and owner is None:
        return jq.processing(queue, page, per_page)
    if place == "processing":
        name = owner.decode("latin-1") if isinstance(owner, bytes) else owner
        return _some(jq, lambda number: jq.processing(queue, number, 500),
                     lambda each: each.owner == name, page, per_page)  # fmt: skip
    list_page = {"delayed": jq.delayed, "retrying": jq.retrying, "dead": jq.dead}[place]
    if queue is None:
        return list_page(page, per_page)
    return _some(jq, lambda number: list_page(number, 500),
                 lambda each: each.queue == queue, page, per_page)  # fmt: skip


def _some(jq: JobQueue, read: object, fits: object, page: int, per_page: int) -> list[Listed]:
    assert callable(read) and callable(fits)
    found: list[Listed] = []
    number = 1
    while len(found) < page * per_page and (rows := read(number)):
        found += filter(fits, rows)
        number += 1
    return found[(page - 1) * per_page : page * per_page]


def _print_jobs(jq: JobQueue, listed: Sequence[Listed], rows: Sequence[JobRow | None]) -> None:
    now = jq.now_ms() / 1000
    timed = any(each.score is not None for each in listed)
    held = any(each.owner for each in listed)
    made = table("!ID", "QUEUE", "STATUS", ">AGE", ">TRY", ">DATA",
                 "DUE/DIED" if timed else "OWNER" if held else "JOB")  # fmt: skip
    for each, row in zip(listed, rows):
        if row is None:
            add_row(made, shown(each.id), shown(each.queue), "gone", "-", "-", "-", "-")
            continue
        last = shown(row.job)
        if each.score is not None:
            gap = each.score - now
            last = f"in {age(gap)}" if gap > 0 else f"{age(-gap)} ago"
        elif held:
            last = shown(each.owner)
        add_row(made, shown(row.id), shown(row.queue), shown(row.status).strip("_"),
                age(now - row.created) if row.created else "-", str(row.attempts + 1),
                size(row.data_bytes), last)  # fmt: skip
    if listed:
        console().print(made)
    else:
        click.echo("no job fits")


def worker_table(owners: Sequence[OwnerInfo], now: float) -> Table:
    """Make the table of `workers`."""
    made = table("OWNER", "STATE", ">BEAT", ">SINCE", ">HOLDS", ">DONE", ">FAILED", "QUEUES")
    for one in owners:
        add_row(
            made, one.id, "live" if one.live else "dead", age(last_beat(one)),
            age(now - one.since) if one.since else "-", one.holding,
            _count(one, "done"), _count(one, "failed"), ", ".join(map(shown, one.queues)),
        )  # fmt: skip
    return made


def _count(one: OwnerInfo, what: str) -> str:
    value = one.about.get(what)
    return str(value) if isinstance(value, int) else "-"


def last_beat(one: OwnerInfo) -> float | None:
    """Give the seconds since an owner's last beat; None if nobody knows."""
    lifetime = said_number(one.about.get("lifetime"))
    return None if one.lapses_in is None or not lifetime else lifetime - one.lapses_in


@command("workers", examples="""
    # who works, on what, and who is dead
    workers
    # bring back what the dead ones held, which also takes them off this list
    recover
""")  # fmt: skip
@readable
@click.argument("queues", nargs=-1, type=QUEUE, metavar="[QUEUE]...")
def workers(queues: Sequence[Text]) -> None:
    """Show every consumer that claims jobs: its last beat, its queues, what it holds and did.

    A dead one stays on the list until its jobs are recovered.  Perl consumers
    leave no trace, and are not shown.
    """
    jq = setup().connect()
    wanted = {octets(name, "queue").decode("latin-1") for name in queues}
    found = [each for each in jq.owners() if not wanted or wanted & set(each.queues)]
    if setup().as_json:
        return print_json([
            {**plain(each), "last_beat": last_beat(each)} for each in found
        ])  # fmt: skip
    if not found:
        return click.echo("no worker is there")
    now = jq.now_ms() / 1000
    console().print(worker_table(found, now))
    for each in found:
        if current := said_texts(each.about.get("current")):
            where = f"{each.host} pid {each.pid}"
            click.echo(f"{each.id} ({where}) runs {', '.join(map(shown, current))}")


COMMANDS = (status, jobs, workers)
