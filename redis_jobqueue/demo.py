"""The main job in one command: add jobs, work on them, read the results.

The work is real: the words of this package's own texts are counted, and the
checksums of its files computed.  Everything happens in a namespace of its own
that is empty again afterwards, so it may run on a server that is in use.

Two workers do it.  The first is a process of its own (``python -m
redis_jobqueue.demo``) that is killed in the middle of a job; the second, a
thread here, brings that job back and does it, and all others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import attrs

from redis_jobqueue import (
    STATUS_COMPLETED,
    ArgumentError,
    Job,
    JobQueue,
    JobQueueError,
    Worker,
    __version__,
)

WORDS, CHECKSUMS = QUEUES = ("words", "checksums")
EXPIRE_SECONDS = 600
"""How long a job stays should this process be killed."""
CONNECT_SECONDS = ANSWER_SECONDS = 5
PARTS = 4
"""In how many parts a job is done, and how often the whole reports where nothing moves."""
INTERVAL, LIFETIME = 0.25, 1.5
"""Seconds between the beats of a worker, and after which it counts as dead; short ones."""
SHOWN = 5
"""Results of each queue that are printed; all are checked."""


class WrongResult(Exception):
    """A result is not what a second look at the files gives."""


def main(where: str) -> int:
    """Run the demo on a server and give the exit code.

    Returns:
        0 done (also when nobody reads the output any more), 1 the server
        failed or a result was wrong, 2 ``where`` is no address, 128 and the
        number of the signal if one ended it.
    """
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    logging.getLogger("redis_jobqueue").addHandler(logging.NullHandler())
    try:
        with _queue(where) as jq:
            _Demo(jq, _Screen.of_stdout(), where=where).run()
        sys.stdout.flush()
        return 0
    except BrokenPipeError:
        # Python flushes once more at its end: give it something to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as stop:
        print("\ndemo: stopped, its jobs are deleted", file=sys.stderr)
        return 128 + int(stop.args[0] if stop.args else signal.SIGINT)
    except (JobQueueError, WrongResult) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2 if isinstance(error, ArgumentError) else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)


@contextlib.contextmanager
def _queue(where: str) -> Iterator[JobQueue]:
    """Give a queue in a new namespace, which is empty afterwards, whatever happened."""
    with JobQueue(
        where,
        connection_timeout=CONNECT_SECONDS,
        operation_timeout=ANSWER_SECONDS,
        check_maxmemory=False,
        namespace=f"JobQueue-demo-{uuid.uuid4().hex[:8]}",
    ) as jq:
        jq.queue_length(WORDS)  # fails before anything is shown where the server refuses us
        try:
            yield jq
        except BaseException:
            with contextlib.suppress(JobQueueError):
                jq.clear()
            raise


@attrs.frozen
class _Screen:
    """Where the output goes: a terminal gets bold titles and a moving bar."""

    bold: bool
    moving: bool
    width: int

    @classmethod
    def of_stdout(cls) -> _Screen:
        terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        columns = min(shutil.get_terminal_size().columns, 80)
        return cls(terminal and not os.environ.get("NO_COLOR"), terminal, columns)

    def title(self, text: str) -> None:
        print(f"\n\x1b[1m{text}\x1b[0m" if self.bold else f"\n{text}")

    def line(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self.moving else text, flush=True)

    def bar(self, share: float, text: str) -> None:
        """Show how far the work is, where a line can be drawn again."""
        if self.moving:
            full = round(share * 24)
            shown = f"  [{'#' * full}{'.' * (24 - full)}] {text}"[: self.width - 1]
            print(f"\r\x1b[K{shown}", end="", flush=True)


def _words_in(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def _count_words(job: Job) -> Iterator[float]:
    """Count the words of a text part by part; gives the progress before each further part."""
    lines = job.workload["text"].splitlines()
    part = len(lines) // PARTS + 1
    counts: Counter[str] = Counter()
    for start in range(0, len(lines), part):
        if start:
            yield start / len(lines)
        counts.update(_words_in("\n".join(lines[start : start + part])))
    longer = [[word, count] for word, count in counts.most_common() if len(word) > 4]
    job.result = {"words": counts.total(), "different": len(counts), "most": longer[:3]}


def _compute_checksum(job: Job) -> Iterator[float]:
    """Compute the SHA-256 of a file part by part; progress as in `_count_words`."""
    data = job.workload["data"]
    part = len(data) // PARTS + 1
    digest = hashlib.sha256()
    for start in range(0, len(data), part):
        if start:
            yield start / len(data)
        digest.update(data[start : start + part])
    job.result = {"bytes": len(data), "sha256": digest.hexdigest()}


HANDLERS: dict[Any, Callable[[Job], Iterator[float]]] = {
    WORDS: _count_words,
    CHECKSUMS: _compute_checksum,
}


def work_on(job: Job) -> None:
    """Do a job of either queue, and let others see how far it is."""
    for job.progress in HANDLERS[job.queue](job):
        job.save()
    job.progress = 1
    job.message = f"{job.queue!s} of {job.job!s}, delivery {job.attempt}"


def _stop_midway(job: Job) -> None:
    """Do the first part of a job, say so, and wait to be killed."""
    for job.progress in HANDLERS[job.queue](job):
        break
    else:
        job.progress = 1 / PARTS  # a text of one part
    job.save()
    print(job.id, flush=True)
    sys.stdin.read()  # ends with the demo, should that be killed first
    os._exit(1)


def _work_until_killed() -> None:
    told = json.loads(sys.stdin.readline())
    jq = JobQueue(told["where"], connection_timeout=CONNECT_SECONDS, check_maxmemory=False,
                  operation_timeout=ANSWER_SECONDS, namespace=told["namespace"])  # fmt: skip
    Worker(jq, {WORDS: _stop_midway}, concurrency=1, interval=INTERVAL, lifetime=LIFETIME).run()


def _read_package() -> dict[str, bytes]:
    """Give the package's texts by their paths."""
    top = Path(__file__).parent
    return {
        path.relative_to(top).as_posix(): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.suffix in (".py", ".lua")
    }


@attrs.frozen
class _Demo:
    """One run.

    Attributes:
        files: the package's texts by path: what the work is, and what tells
            whether it was done well.
        where: the server, for the other process.
    """

    jq: JobQueue
    screen: _Screen
    files: dict[str, bytes] = attrs.field(factory=_read_package)
    where: str = ""

    def run(self) -> None:
        """Show everything from the first job added to the last one deleted."""
        private = ", ends with this program" if "rjq-private-" in self.jq.server else ""
        print(f"redis_jobqueue {__version__} works on its own files.")
        print(f"  server     {self.jq.server}{private}")
        print(f"  namespace  {str(self.jq.namespace)}, empty again at the end")
        ids = self._add()
        killed = self._kill()
        self._work(len(ids), killed)
        self._read(ids)
        self._delete(ids)

    def _add(self) -> set[Any]:
        self.screen.title("1. Add jobs to two queues")
        began = time.perf_counter()
        ids = set()
        for path, data in self.files.items():
            for queue, content in ((WORDS, {"text": data.decode()}), (CHECKSUMS, {"data": data})):
                job = self.jq.add_job(
                    {"queue": queue, "job": path, "workload": content, "expire": EXPIRE_SECONDS}
                )
                ids.add(job.id)
        seconds = time.perf_counter() - began
        print(f"  {len(ids)} jobs in {seconds * 1000:.0f} ms, {len(ids) / seconds:,.0f} a second")
        self._show_status()
        return ids

    def _show_status(self) -> None:
        self.screen.line("  queue        waiting   all jobs   longest wait")
        for queue in QUEUES:
            status = self.jq.queue_status(queue)
            age = f"{status['max_job_age']:.2f} s" if "max_job_age" in status else "-"
            print(f"  {queue:9} {status['length']:10} {status['all_jobs']:10}   {age:>12}")

    def _kill(self) -> str:
        """Let a worker take a job, and kill it in the middle; gives the job's id."""
        self.screen.title("2. Start a worker, and kill it in the middle of a job")
        # An embedded server is reached by its socket: a folder of its own would be another server.
        where = self.jq.server if self.where.startswith("embedded:") else self.where
        told = json.dumps({"where": where, "namespace": str(self.jq.namespace)})
        with subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(told + "\n")
                process.stdin.flush()
                job_id = process.stdout.readline().strip()
            finally:
                process.kill()
        if not job_id:
            raise WrongResult("the first worker ended before it had a job")
        share, name = self.jq.get_job_data(job_id, "progress", "job")
        print(f"  process {process.pid} took {WORDS} of {name!s}, came to {share:.0%}, was killed")
        held = [place.owner for place in self.jq.locate(job_id)]
        print(f"  the job is in one place: held by {', '.join(map(str, held))}")
        if len(held) != 1:
            raise WrongResult(f"the job of the killed worker is in {len(held)} places")
        return job_id

    def _work(self, total: int, killed: str) -> None:
        self.screen.title("3. Start another worker, which also does the job of the dead one")
        began = time.perf_counter()
        worker = Worker(self.jq, dict.fromkeys(QUEUES, work_on), concurrency=2,
                        interval=INTERVAL, lifetime=LIFETIME)  # fmt: skip
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        try:
            self._watch(worker, thread, total, killed)
        except BaseException:
            worker.kill()
            raise
        finally:
            worker.stop()
            thread.join()
        seconds = time.perf_counter() - began
        self._show_status()
        print(f"  {total} jobs in {seconds:.2f} s; a worker counts as dead after {LIFETIME} s")

    def _watch(self, worker: Worker, thread: threading.Thread, total: int, killed: str) -> None:
        done = part = 0
        recovered = False
        while done < total:
            if not thread.is_alive():
                raise WrongResult("the second worker ended too early")
            time.sleep(0.02)
            done = worker.counting.done
            # What anybody else sees of it, read back from the server.
            share, message, status = self.jq.get_job_data(killed, "progress", "message", "status")
            if status == STATUS_COMPLETED and not recovered:
                recovered = True
                self.screen.line(f"  the job of the killed worker is done: {message!s}")
            if done * PARTS // total > part:
                part = done * PARTS // total
                self.screen.line(f"  {done / total:4.0%}  {done} of {total} done")
            self.screen.bar(done / total, f"{done} of {total}, the dead one's job: {share:.0%}")
        if not recovered and self.jq.get_job_data(killed, "status") != STATUS_COMPLETED:
            raise WrongResult("the job of the killed worker was not done")

    def _read(self, ids: set[Any]) -> None:
        self.screen.title("4. Read the results, and compare each with the file itself")
        completed = set(self.jq.get_job_ids(status=STATUS_COMPLETED))
        if completed != ids:
            raise WrongResult(f"{len(completed)} jobs are completed, not {len(ids)}")
        results = {}
        for job_id in ids:
            job = self.jq.load_job(job_id)
            if job is None:
                raise WrongResult(f"job {job_id} is gone")
            self._check(job)
            results[job.queue, job.job] = job.result
        largest = sorted(self.files, key=lambda path: -len(self.files[path]))[:SHOWN]
        print(f"  {'words':32}    all  different   most frequent")
        for path in largest:
            result = results[WORDS, path]
            most = ", ".join(word for word, _ in result["most"])
            print(f"    {path:30} {result['words']:6,} {result['different']:10}   {most:.25}")
        print(f"  {'checksums':32}  bytes   SHA-256")
        for path in largest:
            result = results[CHECKSUMS, path]
            print(f"    {path:30} {result['bytes']:6,}   {result['sha256'][:32]}...")
        print(f"  {len(results)} results read, all of them right")

    def _check(self, job: Job) -> None:
        data = self.files[str(job.job)]
        if job.queue == WORDS:
            words = _words_in(data.decode())
            good = len(words) == job.result["words"] and all(
                words.count(word) == count for word, count in job.result["most"]
            )
        else:
            good = hashlib.sha256(data).hexdigest() == job.result["sha256"]
        if not good:
            raise WrongResult(f"the result for {job.queue!s} of {job.job!s} is wrong: {job.result}")

    def _delete(self, ids: set[Any]) -> None:
        self.screen.title("5. Delete the jobs")
        deleted = sum(map(self.jq.delete_job, ids))
        left = len(self.jq.get_job_ids()) + len(self.jq.owners()) + sum(
            one.waiting + one.processing for one in self.jq.counts().queues.values()
        )
        counters = self.jq.clear()
        print(f"  {deleted} jobs deleted, {left} left, and {counters} keys with counters cleared")
        if (deleted, left) != (len(ids), 0):
            raise WrongResult(f"{len(ids)} jobs should have been deleted, and nothing be left")
        print("\nPerl programs with Redis::JobQueue could have added these jobs or taken them.")
        print("README.rst shows how.")


if __name__ == "__main__":
    _work_until_killed()
