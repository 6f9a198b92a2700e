"""What an operator does with jobs and queues."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from redis_jobqueue.checks import Text
from redis_jobqueue.cli.base import (
    EXIT_FAILED,
    JOB_ID,
    OWNER,
    QUEUE,
    SECONDS,
    Failure,
    command,
    connected,
    readable,
    setup,
)
from redis_jobqueue.cli.output import plain, print_json, say, shown, some
from redis_jobqueue.keys import octets
from redis_jobqueue.lifecycle import INTERVAL
from redis_jobqueue.operations import views
from redis_jobqueue.queue import JobQueue

IDS = click.argument("ids", nargs=-1, required=True, type=JOB_ID, metavar="ID...")
QUEUES = click.argument("queues", nargs=-1, required=True, type=QUEUE, metavar="QUEUE...")


def _each(ids: Sequence[Text], act: Callable[[Text], str], done: str) -> int:
    """Act on each job; what could not be done is said, and the exit code tells of it."""
    refused = 0
    for job_id in ids:
        if why := act(job_id):
            refused += 1
            say(f"{shown(job_id)}: {why}")
        else:
            click.echo(f"{shown(job_id)} {done}")
    return EXIT_FAILED if refused else 0


@command("delete", examples="""
    # delete two jobs
    delete ID1 ID2
    # also one that a worker runs: its result will be refused
    delete --force ID
""")  # fmt: skip
@connected
@IDS
@click.option("--force", is_flag=True, help="Also jobs that an owner holds: what it did is then "
              "not stored.")  # fmt: skip
def delete(ids: Sequence[Text], force: bool) -> int:
    """Delete jobs, wherever they are.  A job that an owner holds is refused."""
    jq = setup().connect()

    def act(job_id: Text) -> str:
        owner = jq._run(views.holder(octets(job_id, "id"), jq._keys))
        if owner is not None and not force:
            return (f"{_holds(jq, owner)}; cancel asks it to stop, --force deletes it all the same")
        return "" if jq.delete_job(job_id) else "there is no such job"

    return _each(ids, act, "deleted")


def _holds(jq: JobQueue, owner: str) -> str:
    if not owner:
        return "a processing list without an owner holds it: recover --queue brings it back"
    live = owner in jq.live_owners()
    return f"{owner} holds it" if live else f"{owner}, which is dead, held it: recover first"


def _requeue(jq: JobQueue, job_id: Text, **options: Any) -> str:
    done = jq._run(views.requeue(octets(job_id, "id"), jq._keys, **options))
    if done.refusal == "held":
        return f"{_holds(jq, done.detail)}; nothing was changed"
    return {
        "": "",
        "gone": "there is no such job",
        "waits": "it waits in its queue already",
        "queue": "it names no queue that can take it",
        "status": f"it did not fail (its status is {done.detail}); requeue runs it all the same",
        "changed": "it was changed meanwhile",
    }[done.refusal]


@command("requeue", examples="""
    # run a job once more, whatever became of it
    requeue ID
    # next of all
    requeue --front ID
""")  # fmt: skip
@connected
@IDS
@click.option("--front", is_flag=True, help="To the head of the queue, to be taken next.")
def requeue(ids: Sequence[Text], front: bool) -> int:
    """Put jobs back into their queues: finished, lost, delayed, retrying or dead ones.

    Their attempts are forgotten.  A job that an owner holds is refused.
    """
    jq = setup().connect()
    return _each(ids, lambda each: _requeue(jq, each, front=front), "waits")


@command("retry", examples="""
    # run again what failed
    retry ID
""")  # fmt: skip
@connected
@IDS
@click.option("--front", is_flag=True, help="To the head of the queue, to be taken next.")
def retry(ids: Sequence[Text], front: bool) -> int:
    """Run failed jobs again, now: those that failed for good, wait to be retried, or are dead.

    Their attempts are forgotten.  A job that an owner holds is refused.
    """
    jq = setup().connect()
    return _each(ids, lambda each: _requeue(jq, each, front=front, failed_only=True), "waits")


@command("revive", examples="""
    # one dead job
    revive ID
    # all of them
    revive --all
""")  # fmt: skip
@connected
@click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All dead jobs.")
def revive(ids: Sequence[Text], every: bool) -> int:
    """Put dead jobs back to the tail of their queues, with their attempts forgotten."""
    if bool(ids) == every:
        raise click.UsageError("name jobs, or give --all")
    jq = setup().connect()
    if not every:
        return _each(ids, lambda each: "" if jq.revive(each) else
                     "it is not among the dead, or its data is gone", "waits")  # fmt: skip
    until, revived, page = jq.now_ms() / 1000, 0, 1
    while rows := jq.dead(page, 200):
        good = [jq.revive(each.id) for each in rows if (each.score or 0) <= until]
        revived += sum(good)
        # What cannot be revived, or died meanwhile, stays on its page: go on behind it.
        page = 1 if any(good) else page + 1
    click.echo(f"{some(revived, 'job')} put back")
    return 0


@command("purge", examples="""
    # delete what has been dead for a week, but keep the latest thousand
    purge --older 7d --keep 1000 --yes
""")  # fmt: skip
@connected
@click.option("--older", type=SECONDS, default=0.0, help="Only jobs dead for at least so long.")
@click.option("--keep", type=click.IntRange(0), default=0, help="Keep the latest so many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(older: float, keep: int, yes: bool) -> None:
    """Delete dead jobs, with all of their data."""
    jq = setup().connect()
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("it deletes jobs for good: say --yes")
        count = jq.counts([]).dead
        click.confirm(f"delete up to {some(max(count - keep, 0), 'dead job')} for good?",
                      abort=True, err=True)  # fmt: skip
    click.echo(f"{some(jq.purge_dead(older, keep=keep), 'job')} deleted")


def _steer(queues: Sequence[Text], paused: bool) -> None:
    jq = setup().connect()
    for name in queues:
        before = jq.is_paused(name)
        (jq.pause if paused else jq.resume)(name)
        word = "paused" if paused else "resumed"
        click.echo(f"{shown(name)} {'was ' if before == paused else ''}"
                   f"{'not paused' if before == paused and not paused else word}")  # fmt: skip


@command("pause", examples="""
    # let nobody claim jobs of two queues
    pause mail thumbnails
""")  # fmt: skip
@connected
@QUEUES
def pause(queues: Sequence[Text]) -> None:
    """Let workers skip queues; Perl consumers do not see it and go on."""
    _steer(queues, True)


@command("resume", examples="""
    # go on
    resume mail
""")  # fmt: skip
@connected
@QUEUES
def resume(queues: Sequence[Text]) -> None:
    """End the pause of queues."""
    _steer(queues, False)


@command("scale", examples="""
    # each running worker runs at most two jobs of this queue at once
    scale mail 2
""")  # fmt: skip
@connected
@click.argument("queue", type=QUEUE)
@click.argument("count", type=click.IntRange(0))
def scale(queue: Text, count: int) -> None:
    """Say how many jobs of a queue each worker runs at once; running ones follow."""
    jq = setup().connect()
    jq.set_concurrency(queue, count)
    click.echo(f"{shown(queue)} is to have {count}")


@command("recover", examples="""
    # look, wait five seconds, look again, and bring back what the dead held
    recover
    # at once
    recover --now
""")  # fmt: skip
@readable
@click.option("--queue", type=QUEUE, help="Only of this queue; also its list without an owner.")
@click.option("--owner", type=OWNER, help="Only what this owner holds.")
@click.option("--now", is_flag=True, help="Look once only: right after an outage every owner "
              "looks dead, and its jobs would run twice.")  # fmt: skip
@click.option("--interval", type=SECONDS, default=INTERVAL, show_default=True,
              help="Time between the two looks.")  # fmt: skip
def recover(queue: Text | None, owner: Text | None, now: bool, interval: float) -> int:
    """Bring back what dead owners hold, to the head of its queue."""
    jq = setup().connect()
    wanted = None if owner is None else octets(owner, "owner").decode("latin-1")

    def dead() -> set[str]:
        return {each.id for each in jq.owners() if not each.live
                and wanted in (None, each.id)}  # fmt: skip

    if wanted is not None and wanted in jq.live_owners():
        raise Failure(f"{wanted} is alive: its jobs stay with it")
    before = dead()
    if before and not now:
        say(f"{some(len(before), 'owner')} may be dead; looking again in {interval:g} s")
        time.sleep(interval)
    still = before & dead()
    total = {"jobs": 0, "buried": 0, "dropped": 0}
    fenced: list[str] = []
    todo: list[Text | None] = [*sorted(still)]
    if queue is not None and owner is None and not dead() - still:
        todo.append(None)  # the list without an owner
    for each in todo:
        done = jq.recover(queue, each)
        fenced += done.owners
        for name in total:
            total[name] += getattr(done, name)
    if setup().as_json:
        print_json({**total, "owners": plain(fenced)})
    else:
        click.echo(f"{some(total['jobs'], 'job')} recovered, {total['buried']} buried, "
                   f"{total['dropped']} gone; {some(len(fenced), 'dead owner')}")  # fmt: skip
    return 0


@command("promote", examples="""
    # put into their queues all jobs that are due
    promote
""")  # fmt: skip
@connected
@click.option("--queue", type=QUEUE, help="Only of this queue.")
def promote(queue: Text | None) -> None:
    """Put delayed and retrying jobs that are due into their queues.

    Workers do this by themselves; without any, run it once in a while.
    """
    jq = setup().connect()
    promoted = 0
    while count := len(jq.promote_due(queue, limit=100).jobs):
        promoted += count
    click.echo(f"{some(promoted, 'job')} promoted")


@command("cancel", examples="""
    # delete it where it waits, or ask its worker to stop
    cancel ID
""")  # fmt: skip
@connected
@IDS
def cancel(ids: Sequence[Text]) -> int:
    """Cancel jobs: one that waits is deleted, one that is held is told (job.cancelled)."""
    jq = setup().connect()
    refused = 0
    for job_id in ids:
        done = jq.cancel(job_id)
        if done is None:
            refused += 1
            say(f"{shown(job_id)}: it neither waits nor is held")
        else:
            told = "deleted" if done == "deleted" else "its worker is told with its next beat"
            click.echo(f"{shown(job_id)} {told}")
    return EXIT_FAILED if refused else 0


COMMANDS = (delete, requeue, retry, revive, purge, pause, resume, scale, recover, promote, cancel)
