"""Workers whose server refuses, forgets or goes silent, and whose namespace is damaged."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.proxy import Proxy
from support.server import Server
from support.workers import ended, eventually

from redis_jobqueue import (
    STATUS_COMPLETED,
    Handler,
    Job,
    JobQueue,
    MaxMemoryError,
    Retry,
    Worker,
    waiting,
)

Work = Callable[..., Worker]


def add(jq: JobQueue, workload: Any = None, queue: str = "q") -> Job:
    """Add a job."""
    return jq.add_job({"queue": queue, "expire": 600, "workload": workload})


@pytest.mark.parametrize("setting", ["min-replicas-to-write", "slave-priority"])
def test_a_server_that_refuses_to_write(
    setting: str, make_server: Callable[..., Server], server_version: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A job that ends meanwhile runs once, and its end is stored when the server takes writes."""
    server = make_server(server_version)
    go, runs = threading.Event(), []

    def handle(job: Job) -> str:
        runs.append(job.attempt)
        go.wait(30)
        return "done"

    with JobQueue(server.url) as jq, server.client() as client:
        worker = Worker(jq, {"q": handle}, interval=0.2, lifetime=20)
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        job = add(jq)
        eventually(lambda: runs)
        if setting == "min-replicas-to-write":
            client.config_set(setting, 1)
        else:
            client.replicaof("127.0.0.1", "1")  # a replica of nothing
        go.set()
        eventually(lambda: worker._lost > 1)
        client.config_set("min-replicas-to-write", 0)
        client.replicaof("NO", "ONE")
        assert "done" == ended(jq, job, STATUS_COMPLETED).result
        worker.stop()
        thread.join(30)
        assert [1] == runs
        assert not jq.redis.exists("JobQueue:attempts:jobs")
    told = [each for each in caplog.records if "does not serve us" in each.getMessage()]
    assert 1 <= len(told) <= 2


def test_a_full_server(make_server: Callable[..., Server], server_version: str) -> None:
    """A worker starts on it, does and stores every job, and so makes room again."""
    server = make_server(server_version)
    with JobQueue(server.url) as jq, server.client() as client:
        jobs = jq.add_jobs({"queue": "q", "expire": 600, "workload": n} for n in range(50))
        retried = jq.add_job({"queue": "q", "expire": 600, "workload": -1}, delay=0)
        client.config_set("maxmemory", 1)
        with pytest.raises(MaxMemoryError):
            add(jq)

        def handle(job: Job) -> int:
            if job.workload < 0 and job.attempt == 1:
                raise Retry("once more", delay=0)
            return int(job.workload) * 2

        assert 0 == Worker(jq, {"q": handle}, burst=True).run(signals=False)
        while jq.get_job_data(retried, "status") != STATUS_COMPLETED:
            assert 0 == Worker(jq, {"q": handle}, burst=True).run(signals=False)
        found = [jq.load_job(job) for job in jobs]
        assert [2 * n for n in range(50)] == [job.result for job in found if job]
        assert [] == jq.owners()


def test_connections_that_end_again_and_again(
    make_server: Callable[..., Server], server_version: str
) -> None:
    """Five killed connections and two restarts under load: the worker goes on, nothing is lost."""
    server = make_server(server_version, appendonly="yes", appendfsync="always")
    runs: dict[str, int] = {}

    def handle(job: Job) -> None:
        runs[str(job.id)] = runs.get(str(job.id), 0) + 1
        time.sleep(0.01)

    with JobQueue(server.url) as jq:
        jobs = jq.add_jobs({"queue": "q", "expire": 600} for _ in range(400))
        worker = Worker(jq, {"q": Handler(handle)}, concurrency=4, interval=0.3, lifetime=30)
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        for _ in range(5):
            with server.client() as client:
                for each in client.client_list(_type="normal") + client.client_list(_type="pubsub"):
                    client.execute_command("CLIENT", "KILL", "ID", each["id"], "SKIPME", "yes")
            time.sleep(0.2)
        for _ in range(2):
            server.restart()
            eventually(jq.ping)
            time.sleep(0.5)
        done = [ended(jq, job, STATUS_COMPLETED) for job in jobs]
        assert 400 == len(done) == len(runs)
        assert set(runs.values()) <= {1, 2}  # twice where a claim's answer was lost for good
        later = add(jq)
        ended(jq, later, STATUS_COMPLETED)
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
        assert 0 == jq.counts(["q"]).queues["q"].processing


def test_a_silent_network(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """All packets are swallowed while it is idle: it comes back by itself and does the job.

    The queue has no timeouts of its own: without a deadline it would wait for ever.
    """
    monkeypatch.setattr(waiting, "ARMED", 0.5)
    monkeypatch.setattr(waiting, "ANSWER", 1.0)
    monkeypatch.setattr("redis_jobqueue.lifecycle.ANSWER", 1.0)
    with Proxy(server) as proxy, JobQueue(server.url) as direct:
        jq = JobQueue(proxy.url)
        worker = Worker(jq, {"q": lambda job: "done"}, interval=0.5, lifetime=30, concurrency=2)
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        first = add(direct)
        ended(direct, first, STATUS_COMPLETED)
        proxy.silence()
        second, late = add(direct), direct.add_job({"queue": "q", "expire": 60}, delay=0)
        for job in (second, late):
            assert "done" == ended(direct, job, STATUS_COMPLETED).result
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
        proxy.heal()


def test_a_silent_network_while_a_job_runs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the handler did is stored over a new connection, and it ran once."""
    monkeypatch.setattr("redis_jobqueue.lifecycle.ANSWER", 1.0)
    go, runs = threading.Event(), []

    def handle(job: Job) -> str:
        runs.append(job.attempt)
        go.wait(30)
        return "done"

    with Proxy(server) as proxy, JobQueue(server.url) as direct:
        worker = Worker(JobQueue(proxy.url), {"q": handle}, interval=0.5, lifetime=30)
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        job = add(direct)
        eventually(lambda: runs)
        proxy.silence()
        go.set()
        assert "done" == ended(direct, job, STATUS_COMPLETED).result
        worker.stop()
        thread.join(60)
        assert not thread.is_alive()
        assert [1] == runs
        proxy.heal()


def test_one_duty_bars_no_other(
    jq: JobQueue, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    """With a foreign key in the place of the delayed, orphans are recovered; it is said once."""
    jq.redis.set("JobQueue:delayed:jobs", "no set")
    dead = jq.owner(id="dead").start()
    orphan = add(jq)
    assert dead.claim("q") is not None
    dead._heart.stop()
    jq.redis.zadd("JobQueue:owners:heartbeat", {dead.id: 1}, xx=True)
    jq.redis.set("JobQueue:queue:bad", "no list")
    worker = work({"q": lambda job: "done"}, interval=0.2, lifetime=1.0)
    assert "done" == ended(jq, orphan, STATUS_COMPLETED).result
    jq.set_concurrency("q", 3)
    eventually(lambda: worker._limits)
    time.sleep(2.5)  # two more turns
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert 1 == sum("due jobs are not promoted" in each for each in told)


def test_due_jobs_of_others_hold_up_none_of_ours(jq: JobQueue, work: Work) -> None:
    """A thousand due jobs of a paused queue, and ten of a served one behind them."""
    jq.pause("paused")
    for number in range(1_000):
        jq.redis.hset(f"JobQueue:P{number}", mapping={"id": f"P{number}", "queue": "paused",
                                                      "expire": 0, "created": 1})  # fmt: skip
    jq.redis.zadd("JobQueue:delayed:jobs", {f"P{number}": 1 for number in range(1_000)})
    ours = [jq.add_job({"queue": "q", "expire": 600}, delay=0) for _ in range(10)]
    work({"q": lambda job: "done"})
    eventually(lambda: jq.counts(["q"]).queues["q"].counters["completed"] == 10, 5)
    assert {"done"} == {jq.get_job_data(job, "result") for job in ours}
    assert 1_000 == jq.queue_length("paused")


def test_bad_entries(jq: JobQueue, work: Work, caplog: pytest.LogCaptureFixture) -> None:
    """What can be no job's is dropped with one line each, and those behind it run."""
    jq.redis.set("JobQueue:text", "no hash")
    bad = [b"", b"0", b"text", b"x" * 1_000_000, b"\xff\xfe", b"gone", b"gone 1", b"a:b 5"]
    jq.redis.rpush("JobQueue:queue:q", *bad)
    good = [add(jq, number) for number in range(5)]
    caplog.set_level(logging.INFO)
    work({"q": lambda job: job.workload})
    assert list(range(5)) == [ended(jq, job, STATUS_COMPLETED).result for job in good]
    told = [r for r in caplog.records if "entry that can be no job's" in r.getMessage()]
    gone = [r for r in caplog.records if "removed prior to use" in r.getMessage()]
    assert len(bad) - 1 == len(told) + len(gone)  # the one whose time was over is no news
    assert b"no hash" == jq.redis.get("JobQueue:text")
