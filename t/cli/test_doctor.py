"""``doctor`` on a namespace damaged in each of its ways, and on healthy ones."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from perl.peer import PATIENT, PerlPeer, missing
from support.server import Server

from cli.conftest import Done
from redis_jobqueue import Job, JobQueue
from redis_jobqueue.operations import doctor as steps
from redis_jobqueue.operations.diagnosis import HARMLESS, KINDS, Ages, judge
from redis_jobqueue.operations.request import Operation

Run = Callable[..., Done]

QUICK = ("--skip", "server", "--interval", "0.01", "--created-age", "60", "--working-age", "60")
"""The test servers keep nothing on disk, which is a finding of its own."""


def add(jq: JobQueue, queue: str = "mail", **more: Any) -> Job:
    """Add a job."""
    return jq.add_job({"queue": queue, "expire": 600, "workload": {"a": 1}, **more})


def lost_created(jq: JobQueue, raw: redis.Redis) -> None:
    """A Perl worker popped a job, and died before it said so."""
    job = add(jq)
    raw.lpop("JobQueue:queue:mail")
    raw.hset(f"JobQueue:{job.id}", mapping={"created": "1000", "updated": "1000"})
    raw.expire(f"JobQueue:{job.id}", 400)


def lost_working(jq: JobQueue, raw: redis.Redis) -> None:
    """A Perl worker began a job long ago, and was never heard of again."""
    job = add(jq, expire=0)
    taken = jq.get_next_job(queue="mail")
    assert taken is not None
    raw.hset(f"JobQueue:{job.id}", mapping={
        "status": "__working__", "created": "1000", "updated": "1000", "started": "1000"
    })  # fmt: skip


def entry_without_job(jq: JobQueue, raw: redis.Redis) -> None:
    """A hash was deleted by hand, its entry stayed."""
    raw.delete(f"JobQueue:{add(jq).id}")


def entry_of_nobody(jq: JobQueue, raw: redis.Redis) -> None:
    """Something was pushed that can be no job's entry."""
    raw.rpush("JobQueue:queue:mail", "", "0", "a:b 12")


def delayed_without_job(jq: JobQueue, raw: redis.Redis) -> None:
    """An id is delayed whose job is gone."""
    raw.zadd("JobQueue:delayed:jobs", {"GONE": 1e15})


def expired_dead_letter(jq: JobQueue, raw: redis.Redis) -> None:
    """A dead letter ran out."""
    raw.zadd("JobQueue:dead:jobs", {"GONE": 1e12})


def expired_entry(jq: JobQueue, raw: redis.Redis) -> None:
    """A job lived its time out while it waited."""
    raw.rpush("JobQueue:queue:mail", "GONE 1000")


def waits_twice(jq: JobQueue, raw: redis.Redis) -> None:
    """An entry was pushed a second time, by hand."""
    job = add(jq)
    raw.rpush("JobQueue:queue:mail", raw.hget(f"JobQueue:{job.id}", "__id_in_queue__") or b"")


def waits_and_is_dead(jq: JobQueue, raw: redis.Redis) -> None:
    """A job is in a queue and among the dead."""
    job = add(jq)
    raw.persist(f"JobQueue:{job.id}")
    raw.zadd("JobQueue:dead:jobs", {str(job.id): 1e12})


def wrong_entry(jq: JobQueue, raw: redis.Redis) -> None:
    """A job knows another entry than it stands under."""
    raw.hset(f"JobQueue:{add(jq).id}", "__id_in_queue__", "something else")


def other_queue(jq: JobQueue, raw: redis.Redis) -> None:
    """A Perl program changed the queue of a job that waits."""
    raw.hset(f"JobQueue:{add(jq).id}", "queue", "letters")


def unreadable(jq: JobQueue, raw: redis.Redis) -> None:
    """A field of a waiting job does not thaw."""
    raw.hset(f"JobQueue:{add(jq).id}", "workload", b"\x05\x0bgarbage")


def foreign_string(jq: JobQueue, raw: redis.Redis) -> None:
    """A string stands where Perl looks for jobs."""
    raw.set("JobQueue:lock", "mine")


def foreign_queue(jq: JobQueue, raw: redis.Redis) -> None:
    """A set stands where a queue must be."""
    raw.sadd("JobQueue:queue:letters", "mine")


def foreign_own(jq: JobQueue, raw: redis.Redis) -> None:
    """A string stands where our own set of dead jobs must be."""
    raw.set("JobQueue:paused:queues", "mine")


def foreign_hash(jq: JobQueue, raw: redis.Redis) -> None:
    """A hash that is no job is listed as one."""
    raw.hset("JobQueue:config", "color", "blue")


def without_time_to_live(jq: JobQueue, raw: redis.Redis) -> None:
    """A job that ought to expire would stay for ever."""
    raw.persist(f"JobQueue:{add(jq).id}")


def short_life(jq: JobQueue, raw: redis.Redis) -> None:
    """A Perl update started the time to live of a delayed job."""
    job = jq.add_job({"queue": "mail", "expire": 600}, delay=1000)
    raw.expire(f"JobQueue:{job.id}", 600)


def owner_gone(jq: JobQueue, raw: redis.Redis) -> None:
    """An owner died, with a job."""
    owner = jq.owner(interval=0.1, lifetime=0.2).start()
    add(jq)
    assert owner.claim("mail") is not None
    owner._heart.stop()
    while jq.live_owners():
        time.sleep(0.01)


def stray_list(jq: JobQueue, raw: redis.Redis) -> None:
    """A list of an owner is registered nowhere."""
    owner_gone(jq, raw)
    raw.delete("JobQueue:owners:lists", "JobQueue:owners:about", "JobQueue:owners:heartbeat")


def shared_list(jq: JobQueue, raw: redis.Redis) -> None:
    """A home-made Perl consumer moved an entry into a list of its own."""
    add(jq)
    raw.lmove("JobQueue:queue:mail", "JobQueue:processing:mail", "LEFT", "RIGHT")


DAMAGE: list[tuple[str, Callable[[JobQueue, redis.Redis], None]]] = [
    ("lost-job", lost_created), ("lost-job", lost_working),
    ("entry-without-job", entry_without_job), ("entry-without-job", entry_of_nobody),
    ("entry-without-job", delayed_without_job), ("expired-dead-letter", expired_dead_letter),
    ("expired-entry", expired_entry), ("two-places", waits_twice),
    ("two-places", waits_and_is_dead), ("wrong-entry", wrong_entry), ("wrong-entry", other_queue),
    ("unreadable", unreadable), ("foreign-key", foreign_string), ("foreign-key", foreign_queue),
    ("foreign-key", foreign_own), ("foreign-key", foreign_hash),
    ("no-time-to-live", without_time_to_live), ("short-life", short_life),
    ("owner-gone", owner_gone), ("stray-list", stray_list),
]  # fmt: skip


ALSO = {waits_and_is_dead: ["no-time-to-live"]}
"""What comes with a damage."""


def contents(raw: redis.Redis) -> dict[bytes, bytes]:
    """Return all keys of a server with their serialised values."""
    return {key: raw.dump(key) for key in raw.keys()}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "damage"), DAMAGE, ids=[damage.__name__ for _, damage in DAMAGE]
)
def test_each_damage_is_found_and_put_right(
    run: Run, jq: JobQueue, raw: redis.Redis, kind: str, damage: Callable[..., None]
) -> None:
    """It is named, nothing is changed without --fix, --fix puts it right, and that holds."""
    healthy = [add(jq) for _ in range(3)] if "owner" not in damage.__name__ else []
    if damage in (stray_list, lost_created, lost_working):
        for job in healthy:
            jq.delete_job(job)
        healthy = []
    damage(jq, raw)
    before = contents(raw)
    code = 0 if kind in HARMLESS else 4
    seen = run("doctor", "--json", *QUICK, code=code).json
    expected = {kind, *ALSO.get(damage, ())}
    assert expected == {each["kind"] for each in seen["findings"]}
    assert (kind in HARMLESS) == seen["healthy"]
    assert all(each["fixable"] and not each["fixed"] for each in seen["findings"])
    assert before == contents(raw)
    human = run("doctor", *QUICK, code=code).out
    assert f"{kind}: {KINDS[kind]}: " in human
    assert "--fix would: " in human

    fixed = run("doctor", "--fix", "--json", *QUICK).json
    assert all(each["fixed"] for each in fixed["findings"])
    assert [] == run("doctor", "--json", *QUICK).json["findings"]
    assert [job.id for job in healthy] == [
        each.id for each in jq.waiting("mail") if each.id in {job.id for job in healthy}
    ]


def test_list_without_owner_is_shown_and_left(
    run: Run, jq: JobQueue, raw: redis.Redis
) -> None:
    """Somebody may be working on it, so it is no damage, and only a human can decide."""
    shared_list(jq, raw)
    for words in ((), ("--fix",)):
        seen = run("doctor", "--json", *words, *QUICK).json
        assert ["shared-list"] == [each["kind"] for each in seen["findings"]]
        assert seen["healthy"] and not seen["findings"][0]["fixable"]
    assert 1 == run("recover", "--queue", "mail", "--json").json["jobs"] + jq.recover("mail").jobs


def test_repairs_bring_jobs_back(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """What was lost or held by the dead waits in its queue, and can be worked on."""
    for damage in (lost_created, lost_working, owner_gone):
        damage(jq, raw)
    run("doctor", "--fix", *QUICK)
    with jq.owner() as owner:
        found = [owner.claim("mail") for _ in range(3)]
        assert [{"a": 1}] * 3 == [job.workload for job in found if job is not None]
        for job in found:
            assert job is not None
            owner.complete(job)
        assert owner.claim("mail") is None


def test_what_was_set_aside_is_still_there(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """A foreign key gets another name, and keeps its value."""
    foreign_string(jq, raw)
    run("doctor", "--fix", *QUICK)
    assert b"mine" == raw.get("JobQueue:aside:string:lock")


def test_finished_job_with_bad_data_is_not_touched(
    run: Run, jq: JobQueue, raw: redis.Redis
) -> None:
    """Only what waits is buried: a result that cannot be read is for a human."""
    job = add(jq)
    with jq.owner() as owner:
        held = owner.claim("mail")
        assert held is not None
        owner.complete(held)
    raw.hset(f"JobQueue:{job.id}", "result", "garbage")
    done = run("doctor", "--fix", *QUICK, code=4)
    assert "by hand: write the field anew, or delete the job" in done.out
    assert b"garbage" == raw.hget(f"JobQueue:{job.id}", "result")


def test_busy_namespace_is_healthy(run: Run, jq: JobQueue) -> None:
    """Jobs in every place where a job may be, and a live owner, are no damage."""
    with jq.owner() as owner:
        for number in range(6):
            add(jq, meta_data={"n": number, "text": "caf\xe9"})
        jobs = [owner.claim("mail") for _ in range(4)]
        retried, buried, completed, _ = jobs
        assert retried is not None and buried is not None and completed is not None
        owner.retry(retried, 100)
        owner.bury(buried, "why not")
        owner.complete(completed)
        add(jq, "a:b", expire=0)
        jq.add_job({"queue": "mail", "expire": 600}, delay=500)
        jq.pause("other")
        jq.set_concurrency("mail", 3)
        taken = jq.get_next_job(queue="mail")
        assert taken is not None
        seen = run("doctor", "--json", *QUICK).json
        assert ([], True) == (seen["findings"], seen["healthy"])
        assert "all is well" in run("doctor", *QUICK).out


@pytest.mark.parametrize("ends", [False, True], ids=["held", "finished"])
def test_claims_during_the_scan_are_no_damage(
    run: Run, jq: JobQueue, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """An owner's first list of a queue may come, and go, while the keys are looked at."""
    add(jq)
    owner = jq.owner().start()
    begin, scan = steps.begin, steps.scan

    def claim_behind(chart: steps.Chart) -> Operation[None]:
        yield from begin(chart)
        held.append(owner.claim("mail"))

    def finish_behind(chart: steps.Chart, cursor: bytes) -> Operation[bytes]:
        following = yield from scan(chart, cursor)
        if following == b"0" and ends:
            seen.append(any(name.startswith(b"processing:") for name in chart.kinds))
            owner.complete(held[-1])
            owner.stop()
        return following

    held: list[Any] = []
    seen: list[bool] = []
    monkeypatch.setattr(steps, "begin", claim_behind)
    monkeypatch.setattr(steps, "scan", finish_behind)
    done = run("doctor", "--json", *QUICK).json
    assert [] == done["findings"]
    assert held and held[0] is not None and seen == [True] * ends
    owner.stop()


def test_namespace_that_perl_filled_is_healthy(
    run: Run, jq: JobQueue, server: Server, raw: redis.Redis
) -> None:
    """What the real module leaves in everyday use is no damage."""
    if reason := missing():
        pytest.skip(reason)
    with PerlPeer() as peer:
        perl = peer.queue(f"127.0.0.1:{server.port}", **PATIENT)
        for number in range(12):
            perl.add_job({
                "queue": "lime" if number % 2 else "a:b c", "expire": 0 if number % 3 else 60,
                "workload": {"n": number, "list": [1, "two"]}, "job": "strong",
                "meta_data": {"client": "x"},
            })  # fmt: skip
        for status in ("__working__", "__completed__", "__failed__", "my own"):
            job = perl.get_next_job(queue="lime")
            assert job is not None
            job.set("status", status)
            job.set("result", "done")
            perl.update_job(job)
        perl.get_next_job(queue="a:b c")
        perl.delete_job(str(perl.get_next_job_id(queue="a:b c")))
    seen = run("doctor", "--json", *QUICK).json
    assert ([], 11) == (seen["findings"], seen["jobs"])


def test_server_settings(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """Eviction, a full memory and no persistence are named, with what to do."""
    seen = run("doctor", "--json", code=4).json
    assert ["persistence"] == [each["subject"] for each in seen["findings"]]
    raw.config_set("maxmemory", "1gb")
    raw.config_set("maxmemory-policy", "allkeys-lru")
    raw.config_set("appendonly", "yes")
    try:
        seen = run("doctor", "--json", code=4).json
        assert ["maxmemory-policy"] == [each["subject"] for each in seen["findings"]]
        assert "noeviction" in seen["findings"][0]["remedy"]
        raw.config_set("maxmemory-policy", "noeviction")
        assert run("doctor", "--json").json["healthy"]
    finally:
        raw.config_set("appendonly", "no")


def test_a_memory_that_is_nearly_full(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """From nine tenths of ``maxmemory`` on it is named, also when it is over; before, it is not."""
    quiet = ("doctor", "--json", "--interval", "0.01")
    used = raw.info("memory")["used_memory"]
    for share, seen in ((0.5, False), (0.95, True), (3, True)):
        raw.config_set("maxmemory", int(used / share))
        found = {each["subject"]: each for each in run(*quiet, code=4).json["findings"]}
        assert seen == ("maxmemory" in found), (share, found)
        assert {"persistence"} == set(found) - {"maxmemory"}
    assert re.search(r"\d+ % of \d+ bytes are used", found["maxmemory"]["text"])
    assert "raise maxmemory, or purge" == found["maxmemory"]["remedy"]


def test_long_reports_are_cut(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """A thousand equal findings do not flood the screen; their number is said."""
    raw.rpush("JobQueue:queue:mail", *(f"GONE{n}" for n in range(30)))
    out = run("doctor", "--most", "3", *QUICK, code=4).out
    assert 3 == out.count("--fix would") and "... and 27 more" in out and ": 30\n" in out


def test_what_heals_meanwhile_is_no_finding(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """A job between two places while it is looked at is looked at again before it counts."""
    lost_created(jq, raw)
    chart = steps.Chart(jq._keys)
    jq._run(steps.begin(chart))
    jq._run(steps.scan(chart, b"0"))
    (job,) = [each for each in chart.seen.values() if each.there]
    assert ["lost-job"] == [each.kind for each in judge(job, chart.now, Ages(60, 60), jq._keys)]
    entry = raw.hget(f"JobQueue:{job.id.decode()}", "__id_in_queue__")
    assert entry is not None
    raw.rpush("JobQueue:queue:mail", entry)
    seen = jq._run(steps.look(job, jq._keys))
    assert [] == judge(seen, chart.now, Ages(60, 60), jq._keys)
