"""``show``: one job, all of it, where it is and why, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from redis_jobqueue.checks import Text
from redis_jobqueue.cli.base import JOB_ID, Failure, command, readable, setup
from redis_jobqueue.cli.output import age, moment, pairs, plain, print_json, shown, some
from redis_jobqueue.cli.values import text_of, to_json
from redis_jobqueue.errors import StorableError
from redis_jobqueue.job import STATUS_COMPLETED, STATUS_FAILED, Job
from redis_jobqueue.keys import octets
from redis_jobqueue.operations import views
from redis_jobqueue.operations.overview import Place
from redis_jobqueue.operations.request import Command, Operation
from redis_jobqueue.queue import JobQueue

LONGEST = 2000
"""Characters of a value that are shown without ``--full``."""

TIMES = ("created", "updated", "started", "completed", "failed")


@command("show", examples="""
    # all of a job
    show 4C5A3B8E-7D8B-4F43-9F0B-0B4E8C1B7F2A
    # with all of its data, as JSON
    show --json 4C5A3B8E-7D8B-4F43-9F0B-0B4E8C1B7F2A
""")  # fmt: skip
@readable
@click.argument("job_id", type=JOB_ID, metavar="ID")
@click.option("--full", is_flag=True, help="Do not cut off long values.")
def show(job_id: Text, full: bool) -> None:
    """Show a job: every field decoded, where it is and why, and what comes next."""
    jq = setup().connect()
    job = jq.load_job(job_id)
    places = jq.locate(job_id)
    if job is None and not places:
        raise Failure(f"there is no job {shown(job_id)}: it expired, was deleted, or never was")
    story, following = _story(jq, job_id, job, places)
    life = jq._run(_life(octets(job_id, "id"), jq))
    if setup().as_json:
        fields = {} if job is None else _fields(job)
        return print_json({"id": job_id, "there": job is not None, **fields,
                           "time_to_live": life, "places": plain(places),
                           "where": story, "next": following})  # fmt: skip
    rows = [("id", shown(job_id))]
    if job is not None:
        rows += _plain_rows(job, life)
    rows += [("where", story), ("next", following)]
    if job is not None:
        most = None if full else LONGEST
        rows += [(name, _text(job, name, most)) for name in ("workload", "result")]
        rows += [
            (f"meta {shown(name)}", _text(job, name, most, meta=True))
            for name in sorted(job.meta_data, key=octets_of)
        ]
    pairs(rows)


def octets_of(name: Text) -> bytes:
    """Give a name for sorting."""
    return name if isinstance(name, bytes) else name.encode()


def _life(job_id: bytes, jq: JobQueue) -> Operation[int | None]:
    left = yield Command((b"TTL", jq._keys.job(job_id)))
    return left if left >= 0 else None


def _plain_rows(job: Job, life: int | None) -> list[tuple[str, str]]:
    kept = "for ever" if not job.expire else f"{job.expire} s after each change"
    left = "no time to live" if life is None else f"gone in {age(life)}"
    return [
        ("queue", shown(job.queue)), ("job", shown(job.job)), ("status", shown(job.status)),
        ("message", shown(job.message)), ("progress", f"{job.progress:.0%}"),
        ("expire", f"{kept}; now: {left}"),
        *((name, moment(getattr(job, name))) for name in TIMES),
    ]  # fmt: skip


def _value(job: Job, name: Text, meta: bool) -> Any:
    return job.meta_data[name] if meta else getattr(job, str(name))


def _text(job: Job, name: Text, most: int | None, meta: bool = False) -> str:
    try:
        value = _value(job, name, meta)
    except StorableError as error:
        return f"cannot be read: {error}"
    if isinstance(value, str) and "\n" in value:
        text = "\n".join(map(shown, value.splitlines()))
        return text if most is None or len(text) <= most else text_of(value, most=most)
    return text_of(value, most=most)


def _fields(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: plain(getattr(job, name))
        for name in ("queue", "job", "status", "message", "progress", "expire", *TIMES)
    }
    found["elapsed"] = job.elapsed
    for name in ("workload", "result"):
        found[name] = _json(job, name)
    found["meta_data"] = {shown(name): _json(job, name, meta=True) for name in job.meta_data}
    return found


def _json(job: Job, name: Text, meta: bool = False) -> Any:
    try:
        return to_json(_value(job, name, meta))
    except StorableError as error:
        return {"$unreadable": str(error)}


def _story(
    jq: JobQueue, job_id: Text, job: Job | None, places: Sequence[Place]
) -> tuple[str, str]:
    """Say where a job is and why, and what comes next."""
    if job is None:
        where = " and ".join(_place(each) for each in places)
        return f"its data is gone; its id stands {where}", "redis-jobqueue doctor takes it off"
    if len(places) > 1:
        where = " and ".join(_place(each) for each in places)
        return f"in {len(places)} places: {where}", "redis-jobqueue doctor --fix leaves it in one"
    if not places:
        return _nowhere(jq, job)
    place = places[0]
    queue = shown(job.queue)
    if place.kind == "waiting":
        paused = place.queue is not None and jq.is_paused(place.queue)
        return f"{_place(place)}{' (paused)' if paused else ''}", (
            f"it waits until somebody resumes {queue}" if paused else
            "the next free worker of its queue, or Perl consumer, takes it in its turn"
        )  # fmt: skip
    if place.kind == "processing":
        return _held(jq, job_id, place)
    now = jq.now_ms() / 1000
    due = (place.score or 0) - now
    when = f"due in {age(due)}" if due > 0 else f"due for {age(-due)}"
    tries = jq._run(views.rows([octets(job_id, "id")], jq._keys))[0]
    failed = 0 if tries is None else tries.attempts
    if place.kind == "retrying":
        return f"it failed {some(failed, 'time')} and comes again, {when}", (
            f"a worker, or redis-jobqueue promote, puts it into {queue} then; "
            "redis-jobqueue retry does it now"
        )  # fmt: skip
    if place.kind == "delayed":
        return f"it is delayed, {when}", (
            f"a worker, or redis-jobqueue promote, puts it into {queue} then"
        )
    return f"among the dead since {age(-due)}: {shown(job.message)}", (
        "nothing; redis-jobqueue revive puts it back, delete or purge ends it"
    )


def _place(place: Place) -> str:
    if place.kind == "waiting":
        return f"waiting in queue {shown(place.queue)}"
    if place.kind == "processing":
        return f"held by {place.owner or 'an unknown consumer'} (queue {shown(place.queue)})"
    return f"among the {place.kind}"


def _held(jq: JobQueue, job_id: Text, place: Place) -> tuple[str, str]:
    owner = next((each for each in jq.owners() if each.id == place.owner), None)
    tries = jq._run(views.rows([octets(job_id, "id")], jq._keys))[0]
    attempt = f", delivery {tries.attempts + 1}" if tries is not None else ""
    if owner is not None and owner.live:
        return f"{_place(place)} on {owner.host} pid {owner.pid}{attempt}", (
            "its worker finishes it; redis-jobqueue cancel asks it to stop"
        )
    return f"{_place(place)}, which is dead{attempt}", (
        "any worker, or redis-jobqueue recover, brings it back"
    )


def _nowhere(jq: JobQueue, job: Job) -> tuple[str, str]:
    if job.status == STATUS_COMPLETED:
        return "done", "nothing; it expires by its time to live" if job.expire else "nothing"
    if job.status == STATUS_FAILED:
        return "it failed for good", "nothing; redis-jobqueue retry runs it again"
    quiet = jq.now_ms() / 1000 - max(job.updated, job.created, job.started)
    return (
        f"no queue, owner or set holds it; last changed {age(quiet)} ago",
        "a Perl consumer may be working on it; if not, it is lost, and redis-jobqueue requeue "
        "puts it back",
    )


COMMANDS = (show,)
