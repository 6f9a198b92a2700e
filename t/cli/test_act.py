"""What an operator does: add, delete, bring back, steer."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from support.server import Server

from cli.conftest import COMMAND, PLAIN, Done
from redis_jobqueue import Job, JobQueue, Owner
from redis_jobqueue.storable import nfreeze, thaw

Run = Callable[..., Done]


KEPT: list[Job] = []
"""Jobs of dead owners: one that is forgotten is put back by a beat."""


def add(jq: JobQueue, queue: str = "mail", **more: Any) -> Job:
    """Add a job."""
    return jq.add_job({"queue": queue, "expire": 600, **more})


def claim(owner: Owner, queue: str = "mail") -> Job:
    """Claim a job that is there."""
    job = owner.claim(queue)
    assert job is not None
    return job


def dead_owner(jq: JobQueue) -> Owner:
    """Return an owner that holds a job of ``mail`` and does not beat any more."""
    owner = jq.owner(interval=0.1, lifetime=0.2).start()
    KEPT.append(claim(owner))
    owner._heart.stop()
    while owner.id in jq.live_owners():
        time.sleep(0.01)
    return owner


# add


def test_add_one(run: Run, jq: JobQueue) -> None:
    """A JSON object becomes a job; its id is printed."""
    job_id = run("add", json.dumps({
        "queue": "mail", "expire": 60, "job": "send", "message": "hi",
        "workload": {"to": ["ada"], "n": 1.5, "no": None}, "meta_data": {"by": "me"},
    })).out.strip()  # fmt: skip
    job = jq.load_job(job_id)
    assert job is not None
    assert ("mail", 60, "send", "hi") == (job.queue, job.expire, job.job, job.message)
    assert {"to": ["ada"], "n": 1.5, "no": None} == job.workload
    assert "me" == job.meta_data["by"]
    assert [job_id] == [each.id for each in jq.waiting("mail")]


def test_add_many_from_a_file_and_from_standard_input(
    run: Run, jq: JobQueue, tmp_path: Path
) -> None:
    """One job a line, in their order; options fill in what a line does not say."""
    file = tmp_path / "jobs.jsonl"
    file.write_text("".join(f'{{"workload": {n}}}\n\n' for n in range(150)))
    words = ("add", "--queue", "mail", "--expire", "1h", "--job", "count")
    ids = run(*words, str(file)).out.split()
    ids += run(*words, "--json", "-", text='{"workload": 150, "job": "last"}\n').json["added"]
    waiting = jq.find_jobs(each.id for each in jq.waiting("mail"))
    jobs = [job for job in waiting.values() if job is not None]
    assert (ids, list(range(151))) == ([job.id for job in jobs], [job.workload for job in jobs])
    assert {"count", "last"} == {job.job for job in jobs} and {3600} == {j.expire for j in jobs}


def test_add_delayed_and_in_front(run: Run, jq: JobQueue) -> None:
    """--delay and --front do what `add_job` does with them."""
    add(jq)
    job_id = run("add", "--front", '{"queue": "mail", "expire": 1}').out.strip()
    assert job_id == jq.waiting("mail")[0].id
    later = run("add", "--delay", "10m", '{"queue": "mail", "expire": 1}').out.strip()
    assert [later] == [each.id for each in jq.delayed()]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{", "the job is no JSON"),
        ("[" * 100_000, "cannot be read"),
        ('{"a":' * 100_000, "the job is no JSON"),
        ('{"expire": 1}', "the job: it has no queue"),
        ('{"queue": "q"}', "the job: it has no expire"),
        ('{"queue": "q", "expire": 1, "worklod": 2}', "no attribute 'worklod'"),
        ('{"queue": "q", "expire": -1}', "expire"),
        ('{"queue": "q", "expire": 1, "progress": 2}', "progress"),
        ('{"queue": "q", "expire": 1, "workload": {"$bytes": "?"}}', "$bytes"),
        ('{"queue": "q", "expire": 1, "workload": {"$what": 1}}', "$what is no form"),
        ('{"queue": "caf\xe9", "expire": 1}', "utf8 in queue"),
        ("no-such-file", "no-such-file cannot be read: No such file"),
    ],
)
def test_bad_jobs_are_refused(run: Run, jq: JobQueue, source: str, says: str) -> None:
    """What cannot become a job is named in one line, and nothing is added."""
    done = run("add", '{"queue": "good", "expire": 1}', source, code=2)
    assert says in done.err, done.err
    assert 1 == len(done.err.splitlines())
    assert "" == done.out and [] == jq.get_job_ids()


def test_bad_line_is_named_and_nothing_is_added(run: Run, jq: JobQueue) -> None:
    """All lines are checked before any is sent."""
    text = '{"queue": "q", "expire": 1}\n' * 3 + "oops\n"
    assert "line 4 of standard input" in run("add", "-", text=text, code=2).err
    assert "line 1 of standard input is not UTF-8" in run("add", "-", text=b"\xff\n", code=2).err
    assert "there is no job" in run("add", "-", text="", code=2).err
    assert [] == jq.get_job_ids()


# held jobs


@pytest.mark.parametrize("verb", ["delete", "requeue", "retry"])
def test_held_job_is_refused_and_its_owner_named(run: Run, jq: JobQueue, verb: str) -> None:
    """Nobody takes a job from under a live owner by accident: it still finishes it."""
    add(jq)
    with jq.owner() as owner:
        job = claim(owner)
        done = run(verb, str(job.id), code=1)
        assert f"{job.id}: {owner.id} holds it" in done.err and "" == done.out
        owner.complete(job)
    assert "__completed__" == jq.get_job_data(job, "status")


def test_forced_deletion_is_safe(run: Run, jq: JobQueue) -> None:
    """With --force a held job is deleted, and its owner learns it."""
    add(jq)
    with jq.owner() as owner:
        job = claim(owner)
        run("delete", "--force", str(job.id))
        with pytest.raises(Exception, match="job was removed prior to use"):
            owner.complete(job)
    assert [] == jq.get_job_ids()


def test_job_of_a_dead_owner_needs_recovery(run: Run, jq: JobQueue) -> None:
    """It says that the owner is dead and what to do; after that it works."""
    job = add(jq)
    owner = dead_owner(jq)
    done = run("requeue", str(job.id), code=1)
    assert f"{owner.id}, which is dead, held it: recover first" in done.err
    assert "1 job recovered" in run("recover", "--now").out
    assert f"{job.id} deleted\n" == run("delete", str(job.id)).out


def test_job_in_a_list_without_an_owner_is_held(
    run: Run, jq: JobQueue, raw: redis.Redis
) -> None:
    """Where a home-made Perl consumer has put it, it is not put into its queue a second time."""
    job = add(jq)
    raw.lmove("JobQueue:queue:mail", "JobQueue:processing:mail", "LEFT", "RIGHT")
    assert "without an owner holds it" in run("requeue", str(job.id), code=1).err
    assert "1 job recovered" in run("recover", "--queue", "mail").out
    assert ["waiting"] == [place.kind for place in jq.locate(job)]


# requeue, retry, revive, purge


def test_requeue_from_everywhere(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """A delayed, retrying, dead, finished or lost job waits again, as if it were new."""
    with jq.owner() as owner:
        jobs = [jq.add_job({"queue": "mail", "expire": 600}, delay=500)]
        for end in (lambda job: owner.retry(job, 500), owner.bury, owner.complete, owner.fail):
            add(jq)
            jobs.append(claim(owner))
            end(jobs[-1])
        jobs.append(add(jq, "lost"))
        raw.delete("JobQueue:queue:lost")
        for job in jobs:
            assert f"{job.id} waits\n" == run("requeue", str(job.id)).out
            places = jq.locate(job)
            assert ["waiting"] == [place.kind for place in places]
            data = jq.get_job_data(job, "status", "started", "failed", "completed")
            assert ["__created__", 0, 0, 0] == data
            assert 0 < raw.ttl(f"JobQueue:{job.id}") <= 600
        assert 0 == raw.hlen("JobQueue:attempts:jobs")
        assert "it waits in its queue already" in run("requeue", str(jobs[0].id), code=1).err
        last = add(jq)
        run("delete", str(last.id))
        done = add(jq)
        for _ in range(5):
            owner.complete(claim(owner))
        owner.complete(claim(owner))
        add(jq)
        run("requeue", "--front", str(done.id))
        assert done.id == claim(owner).id
    assert [] == run("doctor", "--json", "--skip", "server").json["findings"]


def test_retry_is_for_failed_jobs(run: Run, jq: JobQueue) -> None:
    """A job that did not fail is refused, with what to use instead; failed ones come again."""
    with jq.owner() as owner:
        add(jq)
        done = claim(owner)
        owner.complete(done)
        add(jq)
        failed = claim(owner)
        owner.fail(failed)
        err = run("retry", str(done.id), str(failed.id), code=1).err
        assert f"{done.id}: it did not fail" in err and "requeue" in err
        assert failed.id == claim(owner).id
    assert "there is no such job" in run("retry", "NO", code=1).err


def test_revive(run: Run, jq: JobQueue) -> None:
    """One dead job, or all of them, wait again; others are refused."""
    with jq.owner() as owner:
        for _ in range(3):
            add(jq)
        jobs = [claim(owner) for _ in range(3)]
        for job in jobs:
            owner.bury(job)
    assert f"{jobs[0].id} waits\n" == run("revive", str(jobs[0].id)).out
    assert "not among the dead" in run("revive", str(jobs[0].id), code=1).err
    assert "2 jobs put back\n" == run("revive", "--all").out
    assert [] == jq.dead() and 3 == jq.queue_length("mail")
    run("revive", code=2)


def test_purge_wants_to_be_sure(run: Run, jq: JobQueue) -> None:
    """Without a terminal to ask on, --yes is needed; age and number are respected."""
    with jq.owner() as owner:
        for _ in range(3):
            add(jq)
            owner.bury(claim(owner))
    assert "say --yes" in run("purge", code=2).err
    assert "0 jobs deleted\n" == run("purge", "--older", "1h", "--yes").out
    assert "2 jobs deleted\n" == run("purge", "--keep", "1", "--yes").out
    assert 1 == len(jq.dead())


# steering


def test_pause_and_resume(run: Run, jq: JobQueue) -> None:
    """Each queue named is paused or resumed; what it was before is said."""
    assert "mail paused\nx paused\n" == run("pause", "mail", "x").out
    assert "mail was paused\n" == run("pause", "mail").out
    assert jq.is_paused("mail") and jq.is_paused("x")
    assert "mail resumed\n" == run("resume", "mail").out
    assert "mail was not paused\n" == run("resume", "mail").out
    assert not jq.is_paused("mail")


def test_scale(run: Run, jq: JobQueue) -> None:
    """The number is stored; it must be one."""
    run("scale", "mail", "3")
    wanted = jq.desired_concurrency("mail")
    assert wanted is not None and 3 == wanted.count
    run("scale", "mail", "-3", code=2)
    run("scale", "mail", "many", code=2)


NAMES = ["user-requested-refreshes", "a,b", "a b", "q=5", "-x", "--all", "n" * 200,
         "a\nb*", "caf\xe9", "*", "\udcff"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_are_used_exactly(run: Run, jq: JobQueue, raw: redis.Redis, name: str) -> None:
    """A queue's name is what was given, to the octet; never another queue."""
    octets = name.encode("utf-8", "surrogateescape")
    run("pause", "--", name)
    assert {octets} == raw.smembers("JobQueue:paused:queues")
    run("scale", "--", name, "2")
    assert [octets] == raw.hkeys("JobQueue:concurrency:queues")
    seen = run("status", "--json", "--", name).json["queues"]
    assert 1 == len(seen) and all(one["paused"] for one in seen.values())
    run("jobs", "--queue=" + name)
    assert 1 == len(raw.smembers("JobQueue:paused:queues"))


def test_empty_names_are_refused(run: Run) -> None:
    """An empty name is a usage error everywhere."""
    for words in (["status", ""], ["pause", ""], ["show", ""], ["jobs", "--queue", ""],
                  ["recover", "--owner", ""]):  # fmt: skip
        assert "must not be empty" in run(*words, code=2).err


def test_recover_looks_twice(jq: JobQueue, server: Server) -> None:
    """An owner that beats again before the second look keeps its jobs."""
    add(jq)
    owner = dead_owner(jq)
    with subprocess.Popen(
        [*COMMAND, "recover", "--interval", "1"], env={**PLAIN, "REDIS_URL": server.url},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        assert command.stdout is not None and command.stderr is not None
        assert "1 owner may be dead; looking again in 1 s\n" == command.stderr.readline()
        while command.poll() is None:
            assert owner.beat()
            time.sleep(0.02)
        assert "0 jobs recovered, 0 buried, 0 gone; 0 dead owners\n" == command.stdout.read()
    owner.complete(owner.held[0])
    owner.stop()


def test_recover_brings_back_what_stays_dead(run: Run, jq: JobQueue) -> None:
    """One that is dead at both looks loses its job to its queue, and is gone."""
    job = add(jq)
    dead_owner(jq)
    done = run("recover", "--interval", "0.01")
    assert "1 owner may be dead; looking again in 0.01 s\n" == done.err
    assert "1 job recovered, 0 buried, 0 gone; 1 dead owner\n" == done.out
    assert job.id == jq.waiting("mail")[0].id
    assert [] == jq.owners()


def test_recover_of_a_live_owner_is_refused(run: Run, jq: JobQueue) -> None:
    """A live owner's jobs stay with it, and the answer says so."""
    add(jq)
    with jq.owner() as owner:
        job = claim(owner)
        assert "is alive" in run("recover", "--now", "--owner", owner.id, code=1).err
        assert "0 jobs recovered" in run("recover", "--now").out
        owner.complete(job)


def test_promote_and_cancel(run: Run, jq: JobQueue) -> None:
    """Due jobs join their queues; a waiting job is deleted, a held one is told."""
    jq.add_job({"queue": "mail", "expire": 60}, at=1)
    assert "0 jobs promoted\n" == run("promote", "--queue", "x").out
    assert "1 job promoted\n" == run("promote").out
    with jq.owner(interval=0.05, lifetime=5) as owner:
        held, waits = claim(owner), add(jq)
        out = run("cancel", str(held.id), str(waits.id)).out
        assert f"{held.id} its worker is told" in out and f"{waits.id} deleted" in out
        while not held.cancelled:
            time.sleep(0.01)
    assert "neither waits nor is held" in run("cancel", "NO", code=1).err


# storable


def test_storable_dump(run: Run, jq: JobQueue, tmp_path: Path) -> None:
    """An image from a file, standard input or a job is shown, as text or JSON."""
    value = {"to": ["ada", 1], "raw": b"\xff\x00", "none": None}
    image = nfreeze(value)
    file = tmp_path / "image"
    file.write_bytes(image)
    out = run("storable", "dump", str(file)).out
    assert "'to': ['ada', 1]" in out and "b'\\xff\\x00'" in out
    assert out == run("storable", "dump", "-", text=image).out
    job = add(jq, workload=value, meta_data={"by": "me"})
    assert out.replace("\n", "") in run("storable", "dump", "--job", str(job.id)).out.replace(
        "\n", "")  # fmt: skip
    assert "'me'\n" == run("storable", "dump", "--job", str(job.id), "--field", "by").out
    raw = base64.b64encode(b"\xff\x00").decode()
    assert {"to": ["ada", 1], "raw": {"$bytes": raw}, "none": None} == run(
        "storable", "dump", "--json", str(file)).json  # fmt: skip
    assert image[:4].hex(" ") in run("storable", "dump", "--hex", str(file)).out


def test_storable_load_is_the_way_back(run: Run, tmp_path: Path) -> None:
    """What `dump --json` wrote becomes an image with the same value."""
    source = {"a": [1, 2.5, None, True, "caf\xe9"], "b": {"$bytes": "/wA="},
              "c": {"$blessed": ["My::Class", {"x": 1}]}, "d": {"$ref": "text"},
              "e": {"$hash": [["$x", 1]]}, "f": {"$float": "inf"}}  # fmt: skip
    out = tmp_path / "image"
    run("storable", "load", "-", "--out", str(out), text=json.dumps(source))
    value = thaw(out.read_bytes())
    assert ([1, 2.5, None, True, "caf\xe9"], b"\xff\x00", {"$x": 1}) == (
        value["a"], value["b"], value["e"])  # fmt: skip
    assert "My::Class" == value["c"].class_name and "text" == value["d"].value
    assert source == run("storable", "dump", "--json", str(out)).json


def test_storable_errors_are_one_line(run: Run, jq: JobQueue) -> None:
    """What is no image says so, with its first octets; a missing field is named."""
    done = run("storable", "dump", "-", text="hello", code=1)
    assert "68 65 6c 6c 6f" in done.err and 1 == len(done.err.splitlines())
    assert "has no field nope" in run("storable", "dump", "--job", str(add(jq).id), "--field",
                                      "nope", code=1).err  # fmt: skip
    run("storable", "dump", code=2)
    run("storable", "load", "-", text="{", code=2)


def test_cyclic_data_can_be_shown(run: Run) -> None:
    """Data that refers to itself ends."""
    value: list[Any] = [1]
    value.append(value)
    assert "the same as" in run("storable", "dump", "-", text=nfreeze(value)).out
