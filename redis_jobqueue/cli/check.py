"""``doctor``: reads a whole namespace, says what is wrong, and puts it right if asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import attrs
import click
from rich.progress import Progress, TaskID

from redis_jobqueue.cli.base import EXIT_DAMAGED, SECONDS, command, readable, setup
from redis_jobqueue.cli.output import plain, print_json, progress, shown, some
from redis_jobqueue.errors import RedisError
from redis_jobqueue.lifecycle import INTERVAL
from redis_jobqueue.operations import doctor as steps
from redis_jobqueue.operations import overview
from redis_jobqueue.operations.diagnosis import (
    KINDS,
    Ages,
    Finding,
    judge,
    judge_keys,
    judge_owners,
    judge_server,
)
from redis_jobqueue.operations.doctor import Chart, Seen
from redis_jobqueue.operations.request import Command
from redis_jobqueue.owner import MAX_ATTEMPTS
from redis_jobqueue.queue import JobQueue

WAITS = frozenset({"lost-job", "owner-gone"})
"""What is believed only if it is still so an interval later."""


@command("doctor", examples="""
    # what is wrong, and what --fix would do
    doctor
    # put it right, then see that nothing is left
    doctor --fix && doctor
    # for monitoring: exit code 4 if jobs are in danger
    doctor --json --skip server
""")  # fmt: skip
@readable
@click.option("--fix", is_flag=True, help="Put right what can be put right.")
@click.option("--created-age", type=SECONDS, default="1h", show_default=True,
              help="A job that was taken off its queue, and never begun, is lost after this time.")
@click.option("--working-age", type=SECONDS, default="1h", show_default=True,
              help="A job that was begun, and that no owner holds, is lost so long after its last "
              "change: longer than any Perl consumer works without an update.")
@click.option("--interval", type=SECONDS, default=INTERVAL, show_default=True,
              help="Time after which lost jobs and dead owners are looked at again.")
@click.option("--no-data", is_flag=True, help="Do not read the data of jobs.")
@click.option("--skip", multiple=True, type=click.Choice(list(KINDS)), metavar="KIND",
              help=f"Do not look for this: {', '.join(KINDS)}.")
@click.option("--most", type=click.IntRange(1), default=20, show_default=True,
              help="Findings of a kind that are printed; --json has all.")  # fmt: skip
def doctor(fix: bool, created_age: float, working_age: float, interval: float, no_data: bool,
           skip: Sequence[str], most: int) -> int:  # fmt: skip
    """Look for damage in the whole namespace; changes nothing without --fix.

    Exit code 0: healthy, or everything was put right; 4: something endangers
    jobs; 1: it could not look.  What is harmless is shown and never counts.
    All is read in steps that do not hold up the server, and what looks wrong
    is looked at again before it is believed.
    """
    jq = setup().connect()
    examined = Examination(jq, Ages(created_age, working_age), frozenset(skip), interval)
    with progress(not setup().as_json) as bar:
        found = examined.run(bar, data=not no_data)
        fixed = _fix(jq, found, bar) if fix else set()
    left = [each for n, each in enumerate(found) if n not in fixed and not each.harmless]
    setup().code = EXIT_DAMAGED if left else 0
    if setup().as_json:
        print_json({
            "jobs": examined.jobs, "keys": examined.keys, "healthy": not left,
            "findings": [
                {**plain(each), "subject": shown(each.subject), "harmless": each.harmless,
                 "what": KINDS[each.kind], "fixable": each.repair is not None,
                 "fixed": n in fixed}
                for n, each in enumerate(found)
            ],
        })  # fmt: skip
    else:
        _report(found, fixed, fix, most)
        click.echo(f"{some(examined.jobs, 'job')} and {some(examined.keys, 'other key')}: "
                   f"{_summary(found, fixed, left)}")  # fmt: skip
    return setup().code


def _summary(found: Sequence[Finding], fixed: set[int], left: Sequence[Finding]) -> str:
    if not found:
        return "all is well"
    harmless = sum(each.harmless for n, each in enumerate(found) if n not in fixed)
    parts = [f"put right: {len(fixed)}"] if fixed else []
    parts += [f"dangerous: {len(left)}" if left else "nothing endangers jobs"]
    return ", ".join(parts) + (f", harmless: {harmless}" if harmless else "")


def _report(found: Sequence[Finding], fixed: set[int], fix: bool, most: int) -> None:
    counts = Counter(each.kind for each in found)
    printed: Counter[str] = Counter()
    for n, each in sorted(enumerate(found), key=lambda pair: list(KINDS).index(pair[1].kind)):
        kind = each.kind
        if not printed[kind]:
            click.echo(f"{kind}: {KINDS[kind]}: {counts[kind]}")
        printed[kind] += 1
        if printed[kind] > most:
            if printed[kind] == most + 1:
                click.echo(f"  ... and {counts[kind] - most} more (--most shows them)")
            continue
        click.echo(f"  {shown(each.subject)}: {each.text}")
        if n in fixed:
            word = "done"
        elif each.repair is None:
            word = "by hand"
        else:
            word = "not done, it has changed meanwhile" if fix else "--fix would"
        click.echo(f"    {word}: {each.remedy}")


def _fix(jq: JobQueue, found: Sequence[Finding], bar: Progress) -> set[int]:
    todo = [(n, each.repair) for n, each in enumerate(found) if each.repair is not None]
    task = bar.add_task("putting right", total=len(todo))
    fixed = set()
    for n, repair in todo:
        if jq._run(repair()):
            fixed.add(n)
        bar.advance(task)
    return fixed


@attrs.define
class Examination:
    """One look at everything.

    Attributes:
        jobs, keys: how many were looked at.
    """

    _jq: JobQueue
    _ages: Ages
    _skip: frozenset[str]
    _interval: float
    jobs: int = 0
    keys: int = 0

    def run(self, bar: Progress, *, data: bool) -> list[Finding]:
        """Read everything, judge it, and look again at what looks wrong."""
        jq, keys = self._jq, self._jq._keys
        total = jq._driver.send(Command((b"DBSIZE",)))
        chart = Chart(keys)
        jq._run(steps.begin(chart))
        gone = self._gone()
        self._scan(chart, bar, bar.add_task("looking at keys", total=total))
        jq._run(steps.registered(chart))
        self._places(chart, bar)
        if data and "unreadable" not in self._skip:
            self._data(chart, bar)
        self.jobs = sum(job.there for job in chart.seen.values())
        self.keys = len(chart.kinds)
        found = judge_keys(chart, MAX_ATTEMPTS)
        # What holds a lost job, or a dead owner, is looked for a second time, later.
        judged = [
            (job, {each.kind for each in judge(job, chart.now, self._ages, keys)} - self._skip)
            for job in chart.seen.values()
        ]
        suspects = [(job, kinds) for job, kinds in judged if kinds]
        lost = any(kinds & WAITS for _, kinds in suspects)
        if (lost or gone) and self._interval:
            bar.add_task(f"looking again in {self._interval:g} s", total=None)
            time.sleep(self._interval)
        dead = {each.subject for each in gone}
        found += [each for each in self._gone() if each.subject in dead]
        found += self._again(suspects, bar)
        found += judge_server(jq.health())
        return [each for each in found if each.kind not in self._skip]

    def _gone(self) -> list[Finding]:
        keys = self._jq._keys
        try:
            owners = self._jq._run(overview.owners(keys))
        except RedisError:
            return []  # one of their keys is of another type, which is a finding of its own
        return judge_owners(owners, MAX_ATTEMPTS, keys)

    def _scan(self, chart: Chart, bar: Progress, task: TaskID) -> None:
        cursor = b""
        while cursor != b"0":
            cursor = self._jq._run(steps.scan(chart, cursor or b"0"))
            bar.update(task, completed=len(chart.seen) + len(chart.kinds))

    def _places(self, chart: Chart, bar: Progress) -> None:
        lists = steps.lists(chart)
        task = bar.add_task("looking at lists", total=len(lists) + 3)
        for spot, key in lists:
            first, more = 0, True
            while more:
                first = self._jq._run(steps.read_list(chart, spot, key, first))
                more = first > 0
            bar.advance(task)
        for kind in ("delayed", "retrying", "dead"):
            first, more = 0, True
            while more:
                first = self._jq._run(steps.read_set(chart, kind, first))
                more = first > 0
            bar.advance(task)

    def _data(self, chart: Chart, bar: Progress) -> None:
        total = sum(job.there for job in chart.seen.values())
        task = bar.add_task("reading data", total=total)
        for part in steps.slices(chart):
            self._jq._run(steps.read_data(part, chart.keys))
            bar.advance(task, len(part))

    def _again(
        self, suspects: Sequence[tuple[Seen, set[str]]], bar: Progress
    ) -> list[Finding]:
        jq, keys = self._jq, self._jq._keys
        now = jq.now_ms() / 1000
        task = bar.add_task("looking again", total=len(suspects))
        found: list[Finding] = []
        for old, before in suspects:
            seen = jq._run(steps.look(old, keys))
            found += [each for each in judge(seen, now, self._ages, keys) if each.kind in before]
            bar.advance(task)
        return found


COMMANDS = (doctor,)
