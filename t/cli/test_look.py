"""``status``, ``jobs``, ``workers`` and ``show``: tables, JSON, pages, and what they read."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from support.server import Server

from cli.conftest import Done
from redis_jobqueue import Job, JobQueue, Owner

Run = Callable[..., Done]

UUID = re.compile(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}")


def still(text: str) -> str:
    """Return output with ids and times of the same width that never change."""
    text = UUID.sub("<id>".ljust(36, "."), text)
    text = re.sub(r"\b\d+\.\d(s|m)\b", r"0.0\1", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<a moment in time>.", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def expected(text: str) -> str:
    """Return a golden text from its indented form."""
    return textwrap.dedent(text).strip()


@pytest.fixture
def owner(jq: JobQueue) -> Iterator[Owner]:
    """Return an owner that lives as long as the test."""
    with jq.owner(id="ann") as started:
        yield started


def add(jq: JobQueue, queue: str = "mail", **more: Any) -> Job:
    """Add a job."""
    return jq.add_job({"queue": queue, "expire": 600, **more})


def fill(jq: JobQueue, owner: Owner) -> dict[str, Job]:
    """Put a job into every kind of place, all of one queue."""
    jobs = {"delayed": jq.add_job({"queue": "mail", "expire": 600}, delay=500)}
    for place in ("processing", "retrying", "dead", "done"):
        add(jq, job=place)
        held = owner.claim("mail")
        assert held is not None
        jobs[place] = held
    owner.retry(jobs["retrying"], 300)
    owner.bury(jobs["dead"], "no such address")
    owner.complete(jobs["done"])
    jobs["waiting"] = add(jq, job="send", workload={"to": ["ada"]})
    return jobs


def test_status_of_all_queues(run: Run, jq: JobQueue, owner: Owner) -> None:
    """The table has every number of every queue, in 80 columns, by name."""
    fill(jq, owner)
    add(jq, "a, b")
    jq.pause("a, b")
    jq.set_concurrency("mail", 3)
    assert still(run("status").out) == expected("""
        QUEUE          WAITING  RUNNING  DELAYED  RETRY  DEAD  OLDEST  PER SEC
        ──────────────────────────────────────────────────────────────────────
        a, b (paused)        1        0        0      0     0    0.0s        -
        mail (to 3)          1        1        1      1     1    0.0s        -
    """)


def test_status_knows_queues_that_only_have_dead_jobs(
    run: Run, jq: JobQueue, owner: Owner
) -> None:
    """A queue without a waiting job is not forgotten while one of its jobs is dead."""
    add(jq, "old")
    held = owner.claim("old")
    assert held is not None
    owner.bury(held, "why not")
    assert 1 == run("status", "--json").json["queues"]["old"]["dead"]


def test_status_as_json(run: Run, jq: JobQueue, owner: Owner) -> None:
    """Everything that the table shows is there as numbers; a queue can be chosen."""
    fill(jq, owner)
    add(jq, "other")
    seen = run("status", "--json", "mail").json
    assert ["mail"] == list(seen["queues"])
    mail = seen["queues"]["mail"]
    places = ("waiting", "processing", "delayed", "retrying", "dead")
    assert [1] * 5 == [mail[place] for place in places]
    assert dict.fromkeys(places, 1) == seen["total"]
    assert 1 == mail["counters"]["completed"]
    assert mail["oldest_age"] >= 0 and mail["rate"] is None


def test_status_measures_a_rate(run: Run, jq: JobQueue) -> None:
    """With a second look it says how many jobs end in a second; here none does."""
    add(jq)
    assert 0.0 == run("status", "--json", "--rate", "0.01").json["queues"]["mail"]["rate"]


def test_empty_namespace(run: Run) -> None:
    """Where nothing is, every list says so."""
    assert "no queue has a job\n" == run("status").out
    assert "no worker is there\n" == run("workers").out
    assert run("jobs").out.startswith("no job fits\n")
    assert {} == run("status", "--json").json["queues"]
    assert [] == run("workers", "--json").json
    assert [] == run("jobs", "--json").json["jobs"]


def test_jobs_table(run: Run, jq: JobQueue) -> None:
    """The list has a row for each job, the newest first, and says which page it is."""
    for number in range(3):
        add(jq, job=f"kind {number}", workload="x" * 2000)
    assert still(run("jobs", "--size", "2").out) == expected("""
        ID                                    QUEUE  STATUS    AGE  TRY    DATA  JOB
        ───────────────────────────────────────────────────────────────────────────────
        <id>................................  mail   created  0.0s    1  2.0 kB  kind 2
        <id>................................  mail   created  0.0s    1  2.0 kB  kind 1
        page 1 of 2, 3 jobs
    """)
    assert "kind 0" in run("jobs", "--size", "2", "--page", "2").out


def test_jobs_filters(run: Run, jq: JobQueue, owner: Owner, raw: redis.Redis) -> None:
    """Queue, status and age let through what fits all of them."""
    jobs = fill(jq, owner)
    old = add(jq, "other", status="my own")
    raw.hset(f"JobQueue:{old.id}", "created", "1000")

    def ids(*words: str) -> set[str]:
        return set(run("jobs", "--ids", *words).out.split())

    assert {str(old.id)} == ids("--queue", "other")
    assert {str(old.id)} == ids("--status", "my own") == ids("--older", "7d")
    assert {str(jobs["done"].id)} == ids("--status", "completed")
    assert {str(job.id) for job in jobs.values()} == ids("--newer", "1h")
    assert set() == ids("--queue", "other", "--newer", "1h")
    assert 7 == len(ids())


def test_jobs_by_place(run: Run, jq: JobQueue, owner: Owner) -> None:
    """Each place is listed in its own order, and an owner's jobs are those that it holds."""
    jobs = fill(jq, owner)

    def ids(*words: str) -> list[str]:
        return [each["id"] for each in run("jobs", "--json", *words).json["jobs"]]

    for place in ("delayed", "processing", "retrying", "dead"):
        assert [jobs[place].id] == ids("--place", place)
        assert [jobs[place].id] == ids("--place", place, "--queue", "mail")
        assert [] == ids("--place", place, "--queue", "other")
    assert [jobs["waiting"].id] == ids("--place", "waiting", "--queue", "mail")
    assert [jobs["processing"].id] == ids("--owner", owner.id)
    assert [] == ids("--owner", "somebody")
    assert "in 8.3m" in run("jobs", "--place", "delayed").out or \
        "in 8m" in run("jobs", "--place", "delayed").out  # fmt: skip


def test_held_jobs_show_owner_and_deliveries(run: Run, jq: JobQueue, owner: Owner) -> None:
    """An operator sees which jobs are in flight, whose they are, how old, and how often tried."""
    job = fill(jq, owner)["processing"]
    row = run("jobs", "--json", "--place", "processing").json["jobs"][0]
    assert (job.id, owner.id, 0) == (row["id"], row["owner"], row["attempts"])
    assert 0 < row["started"]
    table = run("jobs", "--place", "processing").out
    assert str(job.id) in table and "ann-" in table


def test_lists_read_no_data(run: Run, jq: JobQueue, owner: Owner, raw: redis.Redis) -> None:
    """With 40 jobs of 500 kB the lists cost kilobytes."""
    for _ in range(40):
        add(jq, workload="x" * 500_000)
    for _ in range(5):
        held = owner.claim("mail")
        assert held is not None
        owner.bury(held, "because")
    before = raw.info("stats")["total_net_output_bytes"]
    for words in (["status"], ["jobs"], ["jobs", "--json"], ["jobs", "--place", "dead"],
                  ["workers"], ["jobs", "--place", "waiting", "--queue", "mail"]):  # fmt: skip
        run(*words)
    assert raw.info("stats")["total_net_output_bytes"] - before < 500_000


def test_many_keys_are_read_in_bounded_steps(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """Among many foreign keys no command looks at more than some 500 of them, and none is KEYS."""
    with raw.pipeline(transaction=False) as pipe:
        for number in range(20_000):
            pipe.set(f"foreign:{number}", "")
        pipe.execute()
    with raw.pipeline(transaction=False) as pipe:
        for number in range(3_000):
            pipe.hset(f"JobQueue:{number}", mapping={
                "id": number, "queue": "q", "status": "__created__", "created": 1,
                "expire": 0, "__id_in_queue__": number})  # fmt: skip
            pipe.rpush("JobQueue:queue:q", number)
        pipe.execute()
    raw.config_resetstat()
    assert 3_000 == run("status", "--json").json["queues"]["q"]["waiting"]
    assert 3_000 == run("jobs", "--json").json["total"]
    assert 3_000 == run("doctor", "--json", "--skip", "server").json["jobs"]
    sent = raw.info("commandstats")
    assert "cmdstat_keys" not in sent
    assert 3 * 23_000 // 600 <= sent["cmdstat_scan"]["calls"]
    assert 3_000 // 500 <= sent["cmdstat_lrange"]["calls"]


def test_workers_table(run: Run, jq: JobQueue, owner: Owner) -> None:
    """Each owner has a row: whether it lives, its last beat, its queues, what it holds."""
    fill(jq, owner)
    owner.describe(queues=["mail"], done=3, failed=1, current=["X"])
    out = run("workers").out.replace(owner.id, "ann-........")
    assert still(out).splitlines()[:3] == expected("""
        OWNER         STATE  BEAT  SINCE  HOLDS  DONE  FAILED  QUEUES
        ─────────────────────────────────────────────────────────────
        ann-........  live   0.0s   0.0s      1     3       1  mail
    """).splitlines()
    assert "runs X" in out
    seen = run("workers", "--json", "mail").json[0]
    assert (owner.id, True, 1) == (seen["id"], seen["live"], seen["holding"])
    assert [] == run("workers", "--json", "other").json


def test_dead_workers_are_marked_until_recovered(run: Run, jq: JobQueue) -> None:
    """One that stopped to beat is shown as dead with the age of its beat, and goes by recovery."""
    dead = jq.owner(id="bob", interval=0.1, lifetime=0.2).start()
    add(jq)
    assert dead.claim("mail") is not None
    dead._heart.stop()
    while jq.live_owners():
        pass
    row = run("workers", "--json").json[0]
    assert (False, True) == (row["live"], row["last_beat"] > 0.1)
    assert " dead " in run("workers").out
    done = run("recover", "--json", "--interval", "0.01").json
    assert (1, [dead.id]) == (done["jobs"], done["owners"])
    assert "no worker is there\n" == run("workers").out


def test_show_a_waiting_job(run: Run, jq: JobQueue) -> None:
    """All fields are decoded, and the job's place and future explained."""
    job = add(jq, job="send", workload={"to": ["ada", "bob"], "urgent": True}, message="hello",
              meta_data={"tries": 3})  # fmt: skip
    assert still(run("show", str(job.id)).out) == expected("""
        id          <id>................................
        queue       mail
        job         send
        status      __created__
        message     hello
        progress    0%
        expire      600 s after each change; now: gone in 10m
        created     <a moment in time>.
        updated     <a moment in time>.
        started     -
        completed   -
        failed      -
        where       waiting in queue mail
        next        the next free worker of its queue, or Perl consumer, takes it in its turn
        workload    {
                      'to': ['ada', 'bob']
                      'urgent': True
                    }
        result      ''
        meta tries  3
    """)
    seen = run("show", "--json", str(job.id)).json
    assert {"to": ["ada", "bob"], "urgent": True} == seen["workload"]
    assert {"tries": 3} == seen["meta_data"]


@pytest.mark.parametrize(
    ("place", "where", "following"),
    [
        ("waiting", "waiting in queue mail", "the next free worker"),
        ("delayed", "it is delayed, due in", "promote"),
        ("processing", "held by ann-", "its worker finishes it"),
        ("retrying", "it failed 1 time and comes again, due in", "retry does it now"),
        ("dead", "among the dead since", "revive"),
        ("done", "done", "it expires by its time to live"),
    ],
)
def test_show_says_where_and_what_next(
    run: Run, jq: JobQueue, owner: Owner, place: str, where: str, following: str
) -> None:
    """For each place a job can be in, show says so, and what comes next."""
    seen = run("show", "--json", str(fill(jq, owner)[place].id)).json
    assert seen["where"].startswith(where)
    assert following in seen["next"]


def test_show_of_what_is_not_there(run: Run) -> None:
    """An unknown id is one clear line and exit code 1."""
    done = run("show", "NO-SUCH", code=1)
    assert "there is no job NO-SUCH" in done.err
    assert 1 == len(done.err.splitlines())


def test_show_of_damaged_data(run: Run, jq: JobQueue, raw: redis.Redis) -> None:
    """A field that does not thaw is named with the reason; all else is shown."""
    job = add(jq, message="look at me")
    raw.hset(f"JobQueue:{job.id}", mapping={"workload": "garbage", "odd": b"\xff\xfe"})
    out = run("show", str(job.id)).out
    assert "look at me" in out and 2 == out.count("cannot be read")
    assert "$unreadable" in run("show", "--json", str(job.id)).json["workload"]


@pytest.mark.parametrize("said", ["9" * 400, "inf", "nan", "Infinity", "-9" + "0" * 300])
def test_damaged_numbers_are_shown(
    run: Run, jq: JobQueue, raw: redis.Redis, said: str
) -> None:
    """No number that stands where it must not be stops any view, for humans or programs."""
    job = add(jq)
    for name in ("created", "updated", "started", "completed", "failed", "progress", "expire"):
        raw.hset(f"JobQueue:{job.id}", name, said)
    raw.hset("JobQueue:attempts:jobs", str(job.id), said)
    raw.hset("JobQueue:owners:about", "odd", f'{{"pid": {said}, "since": {said}, "lifetime": {said}'
             f', "done": {said}, "current": 5}}')  # fmt: skip
    raw.zadd("JobQueue:owners:heartbeat", {"odd": "+inf"})
    raw.zadd("JobQueue:delayed:jobs", {str(job.id): "inf"})
    for words in (["status"], ["jobs"], ["show", str(job.id)], ["workers"],
                  ["jobs", "--place", "delayed"]):  # fmt: skip
        assert run(*words).out and run(*words, "--json").json is not None
    run("doctor", "--interval", "0.01", code=4)


def test_terminal_codes_in_data_are_harmless(run: Run, jq: JobQueue) -> None:
    """What a job holds cannot steer the terminal of whoever looks at it."""
    job = add(jq, message="\x1b[2Jgone", job="\x1b]0;title\x07", workload="\x1b[31mred",
              status="\x9bx".encode("latin-1"))  # fmt: skip
    for words in (["jobs"], ["show", str(job.id)], ["status"]):
        assert not re.search(r"[\x1b\x9b\x07]", run(*words).out)


def test_long_values_are_cut_off_unless_asked_for(run: Run, jq: JobQueue) -> None:
    """A payload of megabytes does not flood the screen; --full shows it."""
    job = add(jq, workload="x" * 100_000)
    assert len(run("show", str(job.id)).out) < 10_000
    assert "--full" in run("show", str(job.id)).out
    assert len(run("show", "--full", str(job.id)).out) > 100_000


def test_old_server_is_looked_at_too(run: Run, jq: JobQueue, server: Server) -> None:
    """What only reads needs nothing that an owner needs."""
    add(jq)
    assert run("--namespace", "Other", "status").out == "no queue has a job\n"
