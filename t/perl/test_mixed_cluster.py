"""The main job: producers and workers of both languages on the same queues."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from sizes import Size
from support.server import Server, eventually

from perl.forms import perl_form
from perl.peer import PERL, PerlPeer, PerlQueue
from redis_jobqueue import STATUS_COMPLETED, STATUS_WORKING, JobQueue

HERE = Path(__file__).parent
QUEUES = ["mail", "report:daily"]
SECONDS = 90.0
"""How long the cluster may take before the test gives up."""


def test_perl_asks_python_answers(perl: PerlQueue, jq: JobQueue, raw: redis.Redis) -> None:
    """Perl adds a job, Python takes it, works and answers, Perl reads the answer."""
    asked = perl.add_job(
        {"queue": "q", "expire": 600, "job": "sum", "workload": {"numbers": [1, 2, 39]}}
    )
    job = jq.get_next_job(queue="q")
    assert job is not None
    job.status = STATUS_WORKING
    jq.update_job(job)
    assert [perl_form(STATUS_WORKING)] == perl.get_job_data(asked, "status")
    job.result = {"sum": sum(job.workload["numbers"]), "unit": "\u20ac"}
    job.status = STATUS_COMPLETED
    jq.update_job(job)
    answered = perl.load_job(asked)
    assert answered is not None
    assert STATUS_COMPLETED == answered["status"]
    assert perl_form({"sum": 42, "unit": "\u20ac"}) == answered.attributes["result"]
    assert perl.delete_job(asked)
    assert [] == raw.keys()


def test_python_asks_perl_answers(perl: PerlQueue, jq: JobQueue, raw: redis.Redis) -> None:
    """Python adds a job, Perl takes it, works and answers, Python reads the answer."""
    asked = jq.add_job(
        {"queue": "q", "expire": 600, "job": "sum", "workload": {"numbers": [1, 2.5]}}
    )
    job = perl.get_next_job(queue="q")
    assert job is not None
    assert perl_form({"numbers": [1, 2.5]}) == job.attributes["workload"]
    job.set("status", STATUS_WORKING)
    perl.update_job(job)
    assert STATUS_WORKING == jq.get_job_data(asked, "status")
    job.set("result", {"sum": 3.5, "unit": "\u20ac"}).set("status", STATUS_COMPLETED)
    perl.update_job(job)
    answered = jq.load_job(asked)
    assert answered is not None
    assert STATUS_COMPLETED == answered.status
    assert {"sum": "3.5", "unit": "\u20ac"} == answered.result
    assert jq.delete_job(asked)
    assert [] == raw.keys()


class Cluster:
    """Producers and workers as processes; whatever still runs at the end is killed."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._address = f"127.0.0.1:{server.port}"
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, script: str, name: str, *words: object) -> None:
        """Start producer.pl, worker.pl, or "produce" or "work" of cluster.py."""
        if script.endswith(".pl"):
            command = [PERL, str(HERE / script)]
        else:
            command = [sys.executable, str(HERE / "cluster.py"), script]
        command += [self._address, name, *map(str, words)]
        with open(self._folder / name, "wb") as out:
            self._processes[name] = subprocess.Popen(command, stdout=out)

    def printed(self, name: str) -> list[str]:
        """The ids that a process has printed so far, whole lines only."""
        text = (self._folder / name).read_text()
        return text[: text.rfind("\n") + 1].split()

    def join(self, name: str) -> list[str]:
        """Wait for a process to end well; the ids that it has printed."""
        assert 0 == self._processes[name].wait(timeout=SECONDS), name
        return self.printed(name)

    def check(self) -> None:
        """Fail if a process ended badly."""
        for name, process in self._processes.items():
            assert process.poll() in (None, 0), f"{name} ended with {process.returncode}"

    def kill(self) -> None:
        """End what still runs."""
        for process in self._processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def cluster(peer: PerlPeer, server: Server, tmp_path: Path) -> Iterator[Cluster]:
    """Return a cluster without processes yet."""
    cluster = Cluster(server, tmp_path)
    yield cluster
    cluster.kill()


@pytest.mark.timeout(300)
def test_every_job_is_done_once(
    cluster: Cluster, perl: PerlQueue, jq: JobQueue, raw: redis.Redis, size: Size
) -> None:
    """Jobs of both languages, taken by workers of both, each by exactly one, all answered well."""
    each = size.jobs // 4
    workers = [f"worker-{number}" for number in range(size.processes)]
    perl_workers = [f"perl-{name}" for name in workers]
    for name in workers:
        cluster.start("work", name, *QUEUES)
    for name in perl_workers:
        cluster.start("worker.pl", name, *QUEUES)
    producers = ["python-1", "perl-1", "python-2", "perl-2"]
    for name in producers:
        cluster.start("producer.pl" if name.startswith("perl") else "produce", name, each, *QUEUES)

    produced = {name: cluster.join(name) for name in producers}
    everybody = workers + perl_workers

    def all_done() -> bool:
        cluster.check()
        return sum(len(cluster.printed(name)) for name in everybody) >= 4 * each

    eventually(all_done, "all jobs done", SECONDS)
    for number in range(len(everybody)):  # one for each: whoever takes it stops
        jq.add_job({"queue": QUEUES[0], "job": "stop", "expire": 600})
    done = Counter(job_id for name in everybody for job_id in cluster.join(name))

    assert Counter(job_id for ids in produced.values() for job_id in ids) == done
    assert {1} == set(done.values())
    for name, ids in produced.items():
        for number, job_id in enumerate(ids, 1):
            check_answer(jq.load_job(job_id), name, number, everybody)
    assert done.keys() == perl.get_job_ids(status=STATUS_COMPLETED)
    for number, job_id in enumerate(done):
        assert perl.delete_job(job_id) if number % 2 else jq.delete_job(job_id)
    assert [] == raw.keys()


def check_answer(job: Any, producer: str, number: int, workers: list[str]) -> None:
    """Hold an answer against what the producer asked."""
    words: dict[Any, int] = {producer: 1, "sends": 1}
    coffee = sorted(set(job.result["words"]) - set(words), key=str)
    assert coffee in ([b"caf\xe9"], ["caf\xe9"])
    assert {"sum": sum(range(1, number + 1)), "words": {**words, coffee[0]: number}} == job.result
    assert (STATUS_COMPLETED, 1) == (job.status, job.progress)
    assert producer == job.meta_data["producer"]
    assert job.meta_data["worker"] in workers
    assert f"done by {job.meta_data['worker']}" == job.message
    assert 0 < job.started <= job.completed


def test_one_language_does_all(cluster: Cluster, jq: JobQueue) -> None:
    """A worker of either language alone does jobs of both."""
    for script in ("work", "worker.pl"):
        cluster.start("produce", f"python-for-{script}", 5, *QUEUES)
        cluster.start("producer.pl", f"perl-for-{script}", 5, *QUEUES)
        asked = cluster.join(f"python-for-{script}") + cluster.join(f"perl-for-{script}")
        for queue in QUEUES:
            jq.add_job({"queue": queue, "job": "stop", "expire": 600})
        cluster.start(script, f"first-{script}", QUEUES[0])
        cluster.start(script, f"second-{script}", QUEUES[1])
        done = cluster.join(f"first-{script}") + cluster.join(f"second-{script}")
        assert sorted(asked) == sorted(done)
