"""`Worker`: claims jobs, runs their handlers, and settles what came of them.

One thread claims, for free slots only; each slot runs one job at a time; the
owner's own thread beats; one more tends the namespace (promotes, recovers,
follows the desired concurrency).  The states are `State`, in that order.

With processes a slot hands its job to a child of its own (`children`), and
everything that talks to Redis stays in the parent.
"""

from __future__ import annotations

import enum
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from queue import SimpleQueue
from types import FrameType
from typing import Any

from redis_jobqueue.address import refused
from redis_jobqueue.arguments import names_of
from redis_jobqueue.checks import Text
from redis_jobqueue.children import Nursery
from redis_jobqueue.errors import (
    JobDeletedError,
    JobQueueError,
    NetworkError,
    RedisError,
)
from redis_jobqueue.handlers import Handlers, Table
from redis_jobqueue.job import Job
from redis_jobqueue.keys import text
from redis_jobqueue.middleware import Counting, Logging, Middleware
from redis_jobqueue.operations import control
from redis_jobqueue.owner import INTERVAL, LIFETIME, Owner
from redis_jobqueue.queue import JobQueue
from redis_jobqueue.running import Runner

log = logging.getLogger("redis_jobqueue.worker")

EXIT_DONE = 0
"""Everything that was begun was finished."""
EXIT_RELEASED = 3
"""The grace time was over: what still ran was put back to the head of its queue."""
EXIT_FORCED = 128
"""Plus the number of the second signal: what still ran was put back at once."""

LOOK = 5.0
"""Seconds that the claiming thread waits at most before it looks around."""
TEND = 1.0
"""Seconds between two promotions."""
PAUSES = (0.1, 0.3, 1.0, 3.0, 5.0)
"""Seconds to wait after one failure of the server after another."""


class State(enum.Enum):
    """What a worker does."""

    NEW = "new"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


class Worker:
    """Runs the jobs of some queues until it is told to stop.

    Args:
        jq: the queue object.
        handlers: queue -> function or `Handler`, or queue -> {``job.job`` -> one of these}.
        concurrency: how many jobs run at once, in threads.
        processes: how many jobs run at once in child processes; 0 for threads.
        queues: the queues to serve; None for all that have a handler.
        order: ``random``, or ``listed``: first come those named first.
        grace: seconds that running jobs have after the first signal.
        burst: end when the queues are empty and nothing runs.
        max_jobs, max_time: end, as after a signal, after so many jobs or
            seconds; 0 for no limit.
        max_attempts: deliveries at which a job is buried, also one that kills
            its worker again and again; None for the largest number of retries
            plus one.
        interval, lifetime, id: of its `Owner`.
        middleware: is told of each job, after our own logging and counting.

    Raises:
        ArgumentError: code 0; something does not fit.
    """

    def __init__(
        self,
        jq: JobQueue,
        handlers: Handlers,
        *,
        concurrency: int = 8,
        processes: int = 0,
        queues: Iterable[Text] | None = None,
        order: str = "random",
        grace: float = 30.0,
        burst: bool = False,
        max_jobs: int = 0,
        max_time: float = 0.0,
        max_attempts: int | None = None,
        interval: float = INTERVAL,
        lifetime: float = LIFETIME,
        id: Text | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        for name, value, least in (("concurrency", concurrency, 1), ("processes", processes, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise refused(f"{name} must be a whole number, {least} or more")
        if order not in ("random", "listed"):
            raise refused("order must be 'random' or 'listed'")
        self.table = Table.of(handlers)
        served = self.table.queues if queues is None else list(queues)
        if not served:
            raise refused("a worker needs a queue")
        self.jq = jq
        self.queues = names_of(served, "queue")
        self.slots = processes or concurrency
        self.order = order
        self.grace = grace
        self.burst = burst
        self.max_jobs = max_jobs
        self.max_time = max_time
        self.max_attempts = (
            self.table.most_retries + 1 if max_attempts is None else max_attempts
        )
        self.counting = Counting()
        self.state = State.NEW
        self._owner_options: dict[str, Any] = {
            "id": id, "interval": interval, "lifetime": lifetime,
            "max_attempts": self.max_attempts,
        }  # fmt: skip
        self._middleware: Sequence[Middleware] = (Logging(), self.counting, *middleware)
        self._processes = processes
        self._todo: SimpleQueue[Job | None] = SimpleQueue()
        self._change = threading.Condition()
        self._running: dict[int, Job] = {}
        self._busy: Counter[bytes] = Counter()
        self._limits: dict[bytes, int] = {}
        self._taken = 0
        self._forced = 0
        self._lost = 0
        self._owner: Owner | None = None

    def __repr__(self) -> str:
        names = ", ".join(repr(text(name)) for name in self.queues)
        return f"Worker({names}, {self.state.value})"

    @property
    def owner(self) -> Owner:
        """The owner that claims for it.

        Raises:
            JobQueueError: the worker does not run.
        """
        if self._owner is None:
            raise JobQueueError("the worker does not run")
        return self._owner

    def run(self, *, signals: bool = True) -> int:
        """Work until told to stop; returns an exit code: see the `EXIT_DONE` family.

        Args:
            signals: drain at SIGTERM and SIGINT; a second one stops at once.
                Only in the main thread.

        Raises:
            NetworkError, RedisError: the server cannot be reached at the
                start, or cannot do claims.  Later it is waited for.
        """
        # Children are forked before there is any thread.
        nursery = Nursery(self.table) if self._processes else None
        before: dict[int, Any] = {}
        try:
            self._owner = self.jq.owner(**self._owner_options).start()
            self._follow_concurrency()
            self.state = State.RUNNING
            if signals and threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT):
                    before[number] = signal.signal(number, self._signal)
            runner = Runner(self, self._middleware, nursery)
            for place in range(self.slots):
                threading.Thread(
                    target=self._slot, args=(runner,), daemon=True, name=f"slot-{place}"
                ).start()
            tender = threading.Thread(target=self._tend, daemon=True, name="redis_jobqueue-tend")
            tender.start()
            try:
                self._claim_jobs()
            finally:
                code = self._drain()
            return code
        finally:
            self.state = State.STOPPED
            for each, handler in before.items():
                signal.signal(each, handler)
            if nursery is not None:
                nursery.close()

    def stop(self) -> None:
        """Claim nothing more, and end when what runs is finished; safe anywhere."""
        if self.state is State.RUNNING:
            self.state = State.DRAINING
        if self._owner is not None:
            self._owner.nudge()

    def kill(self, number: int = signal.SIGTERM) -> None:
        """End at once: what runs is put back to the head of its queue."""
        self._forced = int(number)
        self.stop()

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if self.state is State.RUNNING:
            log.warning("draining: waiting for running jobs", extra={"signal": number})
            self.stop()
        else:
            self.kill(number)

    # The thread that claims.

    def _claim_jobs(self) -> None:
        ends = time.monotonic() + self.max_time if self.max_time else None
        while self.state is State.RUNNING:
            if self.max_jobs and self._taken >= self.max_jobs:
                break
            left = LOOK if ends is None else min(ends - time.monotonic(), LOOK)
            if left <= 0:
                break
            names = self._open_queues()
            if not names:
                self._wait_for_change(left)
                continue
            try:
                job = self.owner.claim(
                    names, blocking=not self.burst, timeout=left, order=self.order
                )
            except JobDeletedError as error:
                log.info("job was gone before it was claimed", extra={"job_id": error.job_id})
                continue
            except (NetworkError, RedisError) as error:
                self.lost(error)
                continue
            self.found()
            if job is not None:
                self._start(job)
            elif self.burst:
                if not self._running:
                    break
                self._wait_for_change(0.05)
        if self.state is State.RUNNING:
            self.state = State.DRAINING

    def _open_queues(self) -> list[bytes]:
        with self._change:
            if len(self._running) >= self.slots:
                return []
            return [
                name
                for name in self.queues
                if self._busy[name] < self._limits.get(name, self.slots)
            ]

    def _wait_for_change(self, seconds: float) -> None:
        with self._change:
            if self.state is State.RUNNING:
                self._change.wait(seconds)

    def _start(self, job: Job) -> None:
        # A job that may have killed its workers takes no neighbour with it.
        alone = not self._processes and 1 < self.max_attempts <= job.attempt
        if alone:
            self._wait_until_idle()
        with self._change:
            self._taken += 1
            self._running[id(job)] = job
            self._busy[job._claim.queue] += 1
        self._todo.put(job)
        if alone:
            self._wait_until_idle()

    def _wait_until_idle(self) -> None:
        with self._change:
            while self._running and not self._forced:
                self._change.wait(0.5)

    def lost(self, error: JobQueueError) -> None:
        """Wait a little longer after each failure of the server; log the first one only."""
        if not self._lost:
            log.error("the server does not serve us; trying again: %s", error)
        pause = PAUSES[min(self._lost, len(PAUSES) - 1)]
        self._lost += 1
        ends = time.monotonic() + pause
        while time.monotonic() < ends and not self._forced and self.state is not State.STOPPED:
            time.sleep(0.05)

    def found(self) -> None:
        """Note that the server serves us."""
        if self._lost:
            log.warning("the server serves us again")
            self._lost = 0

    # The threads that run jobs.

    def _slot(self, runner: Runner) -> None:
        while True:
            job = self._todo.get()
            if job is None:
                return
            queue = job._claim.queue
            try:
                runner.run(job)
            except Exception:
                # Ours, not the handler's: the job's token dies with it, and the
                # next beat puts the job back.
                log.exception("a job could not be settled", extra={"job_id": job.id})
            finally:
                with self._change:
                    self._running.pop(id(job), None)
                    self._busy[queue] -= 1
                    self._change.notify_all()
                full = queue in self._limits
            del job
            if full:
                self.owner.nudge()

    @property
    def forced(self) -> bool:
        """Whether it ends without waiting for what runs."""
        return bool(self._forced)

    # The thread that tends the namespace.

    def _tend(self) -> None:
        tended = 0.0
        while self.state is State.RUNNING:
            try:
                self.jq.promote_due(limit=100)
                self._follow_concurrency()
                if time.monotonic() - tended >= self.owner.interval:
                    tended = time.monotonic()
                    self.owner.upkeep()
                    self._describe()
            except JobQueueError as error:
                log.debug("tending failed: %s", error)
            with self._change:
                if self.state is State.RUNNING:
                    self._change.wait(TEND)

    def _follow_concurrency(self) -> None:
        wanted = self.jq._run(control.all_concurrency(self.jq._keys))
        limits = {name: each.count for name, each in wanted.items() if name in self.queues}
        if limits != self._limits:
            self._limits = limits
            self.owner.nudge()
            with self._change:
                self._change.notify_all()

    def _describe(self) -> None:
        with self._change:
            current = [str(job.id) for job in self._running.values()]
        self.owner.describe(
            queues=[name.decode("latin-1") for name in self.queues],
            slots=self.slots,
            kind="processes" if self._processes else "threads",
            current=current,
            done=self.counting.done,
            failed=self.counting.failed,
        )

    # The end.

    def _drain(self) -> int:
        ends = time.monotonic() + self.grace
        with self._change:
            while self._running and not self._forced and time.monotonic() < ends:
                self._change.wait(0.1)
            left = list(self._running.values())
        code = EXIT_DONE
        if left:
            code = EXIT_FORCED + self._forced if self._forced else EXIT_RELEASED
            log.warning("jobs are put back to their queues", extra={"jobs": len(left)})
        for _ in range(self.slots):
            self._todo.put(None)
        # Before the children are killed: else their jobs were taken for failed.
        try:
            self.owner.stop()
        except JobQueueError as error:
            log.error("the owner could not be stopped, its jobs wait to be recovered: %s", error)
        return code
