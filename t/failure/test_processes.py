"""One queue object, many threads and forked children: no reply and no job is ever mixed up."""

from __future__ import annotations

import multiprocessing
import random
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest
import redis
from sizes import Size
from support.server import Server

from redis_jobqueue import ArgumentError, JobQueue

pytestmark = [
    pytest.mark.connections,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

FORK = multiprocessing.get_context("fork")
CHILDREN = 8
THREADS = 16


class Child:
    """A forked process that runs a function and sends back what it returns."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=self._run, args=(run, theirs), daemon=True)
        self.process.start()

    @staticmethod
    def _run(run: Callable[[], Any], pipe: Connection) -> None:
        try:
            pipe.send((True, run()))
        except BaseException:
            pipe.send((False, traceback.format_exc()))

    def result(self) -> Any:
        """Wait for what it returns; fail with its traceback, or when it hangs."""
        assert self._pipe.poll(60), "the child hangs"
        good, what = self._pipe.recv()
        assert good, what
        self.process.join(20)
        return what


def work(jq: JobQueue, name: str, count: int) -> tuple[list[str], list[tuple[str, object]]]:
    """Add jobs with payloads of one's own and take any; return what was added and taken."""
    added, taken = [], []
    for number in range(count):
        payload = {"by": name, "number": number, "data": name * (number % 7)}
        job = jq.add_job({"queue": "q", "expire": 600, "workload": payload})
        added.append(str(job.id))
        assert payload == jq.get_job_data(job, "workload"), "another's reply"
        got = jq.get_next_job("q")
        assert got is not None, "as many are added as taken"
        taken.append((str(got.id), got.workload))
        if number % 10 == 0:
            assert name == jq.get_job_data(job, "workload")["by"]
            got.status = "done"
            assert 2 == jq.update_job(got)
            assert "done" == jq.get_job_data(got, "status")
    return added, taken


def check(jq: JobQueue, results: list[tuple[list[str], list[tuple[str, Any]]]], count: int) -> None:
    """Check that every job was added once and taken once, with the payload it was added with."""
    added = [job_id for ids, _ in results for job_id in ids]
    taken = [job_id for _, pairs in results for job_id, _ in pairs]
    assert len(results) * count == len(set(added)) == len(added)
    assert sorted(added) == sorted(taken)
    by_id = {job_id: number for ids, _ in results for number, job_id in enumerate(ids)}
    for _, pairs in results:
        for job_id, payload in pairs:
            assert by_id[job_id] == payload["number"]
            assert payload["by"] * (payload["number"] % 7) == payload["data"]
    assert 0 == jq.queue_length("q")


def test_threads(server: Server, size: Size, jq: JobQueue) -> None:
    """Sixteen threads on one object: all ids are distinct and every payload matches."""
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(work(jq, f"t{n}", size.operations)))
        for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(110)
    assert THREADS == len(results)
    check(jq, results, size.operations)


def test_forked_children(client: redis.Redis, size: Size, jq: JobQueue) -> None:
    """Eight children forked after the first command, and the parent, each on sockets of its own."""
    count = max(size.operations // 3, 10)
    jq.queue_length("q")
    before = client.info("stats")["total_connections_received"]
    children = [Child(lambda n=n: work(jq, f"c{n}", count)) for n in range(CHILDREN)]
    mine = work(jq, "parent", count)
    results = [mine, *(child.result() for child in children)]
    check(jq, results, count)
    assert before + CHILDREN == client.info("stats")["total_connections_received"]


def test_threads_of_a_forked_child(size: Size, jq: JobQueue) -> None:
    """Children forked in the middle of the parent's calls, with many threads at once."""
    count = max(size.operations // 15, 4)
    stop = threading.Event()
    parents: list[Any] = []

    def busy(name: str) -> None:
        while not stop.is_set():
            parents.append(work(jq, name, count))

    def threads(name: str) -> list[Any]:
        results: list[Any] = []
        made = [
            threading.Thread(target=lambda n=n: results.append(work(jq, f"{name}.{n}", count)))
            for n in range(THREADS)
        ]
        for thread in made:
            thread.start()
        for thread in made:
            thread.join(50)
        assert THREADS == len(results)
        return results

    others = [threading.Thread(target=busy, args=(f"p{n}",)) for n in range(3)]
    for other in others:
        other.start()
    try:
        children = [Child(lambda n=n: threads(f"c{n}")) for n in range(size.processes)]
        results = [each for child in children for each in child.result()]
    finally:
        stop.set()
        for other in others:
            other.join(50)
    check(jq, results + parents, count)


def test_quit_in_a_child_leaves_the_parent(client: redis.Redis, jq: JobQueue) -> None:
    """A child that quits, sets a timeout or ends does not close its parent's connection."""
    jq.queue_length("q")
    opened = client.info("stats")["total_connections_received"]

    def leave() -> int:
        jq.quit()
        jq.operation_timeout = 20
        return jq.queue_length("q")

    for _ in range(3):
        assert 0 == Child(leave).result()
        assert 0 == jq.queue_length("q")
    assert opened + 3 == client.info("stats")["total_connections_received"]


def test_tls_and_pool_size_after_a_fork(server: Server, client: redis.Redis) -> None:
    """A queue with a limited pool gives each child that many connections of its own."""
    with JobQueue.from_env({"REDIS_URL": server.url, "REDIS_POOL_SIZE": "1"}) as jq:
        taken = jq._driver._take(jq._driver._pool_of_now(), None)
        try:
            assert 0 == Child(lambda: jq.queue_length("q")).result(), "not even while it is in use"
        finally:
            jq._driver._put_back(jq._driver._pool_of_now(), taken, keep=True)
        assert 0 == jq.queue_length("q")


def test_last_errorcode_of_each_thread(jq: JobQueue) -> None:
    """A thread reads the code of its own last call, whatever others do at the time."""
    wrong: list[object] = []

    def good() -> None:
        for _ in range(200):
            jq.queue_length("q")
            if jq.last_errorcode:
                wrong.append(jq.last_errorcode)

    def bad() -> None:
        for _ in range(200):
            with pytest.raises(ArgumentError):
                jq.queue_length("")
            if 1 != jq.last_errorcode:
                wrong.append(jq.last_errorcode)

    threads = [threading.Thread(target=random.choice([good, bad])) for _ in range(2)]
    threads += [threading.Thread(target=good), threading.Thread(target=bad)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert [] == wrong
