"""The real module on a namespace full of every new key: it answers as if they were not there."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
import redis

from claims.tools import (
    ABOUT,
    ATTEMPTS,
    CANCELLED,
    DEAD,
    DELAYED,
    HEARTBEAT,
    LISTS,
    RETRY,
    claimed,
    let_die,
    make_due,
    places,
)
from perl.peer import PerlQueue
from redis_jobqueue import JobDeletedError, JobQueue, Owner

QUEUES = ("q", "q:x", "work")
FILTERS: tuple[dict[str, object], ...] = (
    {}, {"queued": 1}, {"queue": "q"}, {"queue": ["q", "q:x"], "queued": 1},
    {"status": "__created__"}, {"status": ["__working__", "__failed__"]},
    {"queue": "work", "status": "__created__"}, {"queue": "q", "status": "__failed__", "queued": 1},
)  # fmt: skip


@attrs.define
class Full:
    """A namespace with every key that Perl does not know, and the ids by their place."""

    jq: JobQueue
    owner: Owner
    dead: Owner
    held: list[object]
    ids: dict[str, str]


@pytest.fixture
def full(jq: JobQueue, perl: PerlQueue, raw: redis.Redis) -> Iterator[Full]:
    """Return a namespace in which each feature is in use."""
    for name in QUEUES:
        perl.add_job({"queue": name, "expire": 600, "workload": name})
    owner, dead = jq.owner(id="live").start(), jq.owner(id="dead").start()
    held = [claimed(owner, "q"), claimed(dead, "q:x")]
    held[1].begun()
    ids = {"held": str(held[0].id), "orphan": str(held[1].id)}
    for place in ("retrying", "dead", "failed", "completed", "waiting"):
        job = jq.add_job({"queue": "q", "expire": 600, "meta_data": {"a": [1]}})
        ids[place] = str(job.id)
        if place != "waiting":
            job = claimed(owner, "q")
            call = {"retrying": owner.retry, "dead": owner.bury, "failed": owner.fail,
                    "completed": owner.complete}[place]  # fmt: skip
            call(job, 1000) if place == "retrying" else call(job)  # type: ignore[operator]
    ids["delayed"] = str(jq.add_job({"queue": "work", "expire": 600}, delay=1000).id)
    assert "told" == jq.cancel(held[0])
    jq.pause("work")
    jq.set_concurrency("q", 3)
    let_die(dead, raw)
    wanted = {HEARTBEAT, LISTS, ABOUT, ATTEMPTS, CANCELLED, DELAYED, RETRY, DEAD,
              "JobQueue:paused:queues", "JobQueue:concurrency:queues", "JobQueue:stats:q",
              f"JobQueue:claims:{owner.id}", f"JobQueue:processing:q:{owner.id}",
              f"JobQueue:processing:q:x:{dead.id}"}  # fmt: skip
    assert wanted <= {key.decode() for key in raw.keys("*")}
    yield Full(jq, owner, dead, list(held), ids)
    owner.stop()


def new_keys(raw: redis.Redis) -> list[bytes]:
    """The keys of two segments or more that are no queues."""
    return [key for key in raw.keys("JobQueue:*:*") if not key.startswith(b"JobQueue:queue:")]


def answers(perl: PerlQueue) -> list[object]:
    """All that Perl says of the namespace, but for ages."""
    found: list[object] = []
    for name in (*QUEUES, "none", "processing", "claims", "owners"):
        status = perl.queue_status(name)
        found.append((name, status["length"], status["all_jobs"], perl.queue_length(name),
                      "lifetime" in status))  # fmt: skip
    found += [sorted(perl.get_job_ids(**filters)) for filters in FILTERS]
    for job_id in sorted(perl.get_job_ids()):
        job = perl.load_job(job_id)
        assert job is not None
        fields = sorted(perl.get_job_meta_fields(job_id))
        found.append((job_id, job["queue"], job["status"], fields))
    return found


def test_what_is_asked(full: Full, perl: PerlQueue, raw: redis.Redis) -> None:
    """queue_status, queue_length, get_job_ids with every filter, load_job: the same answers."""
    with_them = answers(perl)
    raw.delete(*new_keys(raw))
    assert not new_keys(raw)
    assert answers(perl) == with_them


def test_each_job_is_seen(full: Full, perl: PerlQueue) -> None:
    """Perl lists and loads a job wherever it is, with the status that it has there."""
    wanted = {"held": "__working__", "orphan": "__working__", "retrying": "__created__",
              "dead": "__failed__", "failed": "__failed__", "completed": "__completed__",
              "waiting": "__created__", "delayed": "__created__"}  # fmt: skip
    ids = full.ids
    loaded = {place: perl.load_job(job_id) for place, job_id in ids.items()}
    assert wanted == {place: job["status"] for place, job in loaded.items() if job}
    assert set(ids.values()) <= perl.get_job_ids()


def test_what_is_fetched(full: Full, perl: PerlQueue) -> None:
    """get_next_job gives what waits, of a paused queue too, and nothing else; no error."""
    taken = []
    for name in QUEUES:
        while job := perl.get_next_job(queue=name):
            taken.append((name, job.id))
    assert [("q", full.ids["waiting"])] == [each for each in taken if each[0] == "q"]
    assert ["q", "work"] == [name for name, _ in taken]


@pytest.mark.parametrize(
    "place", ["held", "orphan", "retrying", "dead", "failed", "completed", "waiting", "delayed"]
)
def test_what_is_deleted(place: str, full: Full, perl: PerlQueue, raw: redis.Redis) -> None:
    """delete_job deletes a job wherever it is; afterwards it is nowhere, and disturbs nobody."""
    job_id = full.ids[place]
    assert perl.delete_job(job_id)
    assert not perl.delete_job(job_id)
    assert perl.load_job(job_id) is None
    assert job_id not in perl.get_job_ids()
    if place == "held":
        with pytest.raises(JobDeletedError):
            full.owner.complete(full.held[0])  # type: ignore[arg-type]
    make_due(raw)
    full.jq.recover()
    full.jq.promote_due()
    full.owner.upkeep()
    assert job_id not in places(raw)
    jobs = []
    for name in QUEUES:
        while job := perl.get_next_job(queue=name):
            jobs.append(job.id)
    assert job_id not in jobs


def test_what_comes_back(full: Full, perl: PerlQueue, raw: redis.Redis) -> None:
    """Recovered, promoted and revived jobs: Perl fetches each once, and can delete each."""
    make_due(raw)
    assert 1 == full.jq.recover().jobs
    assert {full.ids["delayed"], full.ids["retrying"]} == set(full.jq.promote_due().jobs)
    assert full.jq.revive(full.ids["dead"])
    assert 1 == full.owner.release(full.held[0])  # type: ignore[arg-type]
    waiting = {"orphan", "delayed", "retrying", "dead", "held", "waiting"}
    assert perl.delete_job(full.ids["retrying"])
    assert perl.delete_job(full.ids["orphan"])
    fetched = []
    for name in QUEUES:
        while job := perl.get_next_job(queue=name):
            fetched.append(job.id)
            ttl = raw.ttl(f"JobQueue:{job.id}")
            assert 590 <= ttl <= 600
    wanted = {full.ids[place] for place in waiting - {"retrying", "orphan"}}
    assert wanted < set(fetched)
    assert len(fetched) == len(set(fetched)) == len(wanted) + 1  # and the one that Perl added
    assert 0 == sum(perl.queue_length(name) or 0 for name in QUEUES)


def test_what_is_updated(full: Full, perl: PerlQueue, raw: redis.Redis) -> None:
    """An update by Perl of a job that waits for its time costs it nothing."""
    for place in ("delayed", "retrying", "dead", "held"):
        job = perl.load_job(full.ids[place])
        assert job is not None
        job.set("message", "seen")
        assert perl.update_job(job)
        assert raw.ttl(f"JobQueue:{job.id}") > 0
    full.owner.upkeep()
    for place in ("delayed", "retrying", "dead"):
        assert -1 == raw.ttl(f"JobQueue:{full.ids[place]}")
    held = full.held[0]
    full.owner.complete(held)  # type: ignore[arg-type]
    found = perl.load_job(full.ids["held"])
    assert found is not None
    assert ("__completed__", "seen") == (found["status"], found["message"])
