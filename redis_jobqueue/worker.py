"""`Worker`: claims jobs, runs their handlers, and settles what came of them.

One thread claims, for free slots only; each slot runs one job at a time; the
owner's own thread beats; one more tends the namespace (`tending`: promotes,
recovers, follows the desired concurrency).  The states are `State`, in that order.

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
from redis_jobqueue.tending import Duty, Tender

log = logging.getLogger("redis_jobqueue.worker")

EXIT_DONE = 0
"""Everything that was begun was finished."""
EXIT_RELEASED = 3
"""The grace time was over: what still ran was put back to the head of its queue."""
EXIT_BROKEN = 5
"""The process that starts the child processes was gone: what it could not run was put back."""
EXIT_FORCED = 128
"""Plus the number of the second signal: what still ran was put back at once."""

LOOK = 5.0
"""Seconds that the claiming thread waits for a job before it looks around."""
GLANCE = 0.1
"""Seconds that it waits for a slot before it looks whether it is told to stop."""
LEAVING = 5.0
"""Seconds that a worker that ends at once gives a server that does not answer."""
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
        burst: end when nothing waits, is due or runs; what comes later does not count.
        max_jobs, max_time: end, as after a signal, after so many jobs or
            seconds; 0 for no limit.
        max_attempts: deliveries at which a job is buried, whatever retries it
            has; None lets the retries alone decide, and buries one that kills
            its worker again and again at the largest number of retries of any
            handler plus one.
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
        self.table.check(self.queues)
        self.slots = processes or concurrency
        self.order = order
        self.grace = grace
        self.burst = burst
        self.max_jobs = max_jobs
        self.max_time = max_time
        self.max_attempts = (
            self.table.most_retries + 1 if max_attempts is None else max_attempts
        )
        self.retry_limit = 0 if max_attempts is None else max_attempts
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
        self._signals = 0
        self._forced = 0
        self._lost = 0
        self._ends: float | None = None
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
        if self.state is State.STOPPED:  # once more
            self.state, self._signals, self._forced, self._taken = State.NEW, 0, 0, 0
        # Children are forked before there is any thread.
        nursery = Nursery(self.table) if self._processes else None
        before: dict[int, Any] = {}
        try:
            if signals and threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT):
                    before[number] = signal.signal(number, self._signal)
            self._owner = self.jq.owner(**self._owner_options).start()
            try:
                self._work(Runner(self, self._middleware, nursery))
            finally:
                code = self._drain()
            return code or (EXIT_BROKEN if nursery is not None and nursery.gone else EXIT_DONE)
        finally:
            self.state = State.STOPPED
            for each, handler in before.items():
                signal.signal(each, handler)
            if nursery is not None:
                nursery.close()

    def stop(self) -> None:
        """Claim nothing more, and end when what runs is finished; safe anywhere."""
        if self.state in (State.NEW, State.RUNNING):
            self.state = State.DRAINING
        if self._owner is not None:
            self._owner.nudge()

    def kill(self, number: int = signal.SIGTERM) -> None:
        """End at once: what runs is put back to the head of its queue."""
        self._forced = int(number)
        self.stop()

    def _signal(self, number: int, frame: FrameType | None) -> None:
        # Counted, for it may drain already for another reason: the first one is no hurry.
        self._signals += 1
        if self._signals == 1:
            log.warning("draining: waiting for running jobs", extra={"signal": number})
            self.stop()
        else:
            self.kill(number)

    def _work(self, runner: Runner) -> None:
        self._todo = SimpleQueue()
        self._follow_concurrency()
        if self.state is State.NEW:  # not told to stop meanwhile
            self.state = State.RUNNING
        self._ends = time.monotonic() + self.max_time if self.max_time else None
        for place in range(self.slots):
            threading.Thread(
                target=self._slot, args=(runner, self._todo), daemon=True, name=f"slot-{place}"
            ).start()
        tender = Tender(
            Duty(self.owner.promote_due, "due jobs are not promoted"),
            Duty(self._follow_concurrency, "the desired concurrency is not followed"),
            Duty(self.owner.upkeep, "the namespace is not tended", self.owner.interval),
            Duty(self._describe, "what this worker does is not shown", self.owner.interval),
        ).start()
        try:
            self._claim_jobs()
        finally:
            tender.stop()

    # The thread that claims.

    def _claim_jobs(self) -> None:
        while self._may_claim():
            left = max(self._left(), 0.001)
            idle = not self._running  # before the claim: a job that ends meanwhile may add one
            names = self._open_queues()
            if not names:
                if self.burst and idle:
                    break  # the queues are scaled to nothing
                self._wait_for_change()
                continue
            try:
                job = self.owner.claim(
                    names, blocking=not self.burst, timeout=left, order=self.order
                )
                over = job is None and self.burst and idle and not self.owner.promote_due()
            except JobDeletedError as error:
                log.info("job was gone before it was claimed", extra={"job_id": error.job_id})
                continue
            except (NetworkError, RedisError) as error:
                self.lost(error)
                continue
            self.found()
            if job is not None:
                self._start(job)
            elif over:
                break
            elif self.burst and not idle:
                self._wait_for_change()
        if self.state is State.RUNNING:
            self.state = State.DRAINING

    def _may_claim(self) -> bool:
        if self.max_jobs and self._taken >= self.max_jobs:
            return False
        return self.state is State.RUNNING and self._left() > 0

    def _left(self) -> float:
        return LOOK if self._ends is None else min(self._ends - time.monotonic(), LOOK)

    def _open_queues(self) -> list[bytes]:
        with self._change:
            if len(self._running) >= self.slots:
                return []
            return [
                name
                for name in self.queues
                if self._busy[name] < self._limits.get(name, self.slots)
            ]

    def _wait_for_change(self) -> None:
        # No longer than this, for a signal handler cannot notify.
        with self._change:
            self._change.wait(GLANCE)

    def _start(self, job: Job) -> None:
        # A job that may have killed its workers takes no neighbour with it.
        alone = not self._processes and 1 < self.max_attempts <= job.attempt
        while alone and self._running and self._may_claim():
            self._wait_for_change()
        if not self._may_claim():  # told to stop while it was claimed, or since
            try:
                self.owner.release(job)
            except JobQueueError as error:
                log.debug("a job will be put back by the next beat: %s", error)
            return
        with self._change:
            self._taken += 1
            self._running[id(job)] = job
            self._busy[job._claim.queue] += 1
        self._todo.put(job)
        while alone and self._running and self._may_claim():
            self._wait_for_change()

    def lost(self, error: JobQueueError) -> None:
        """Wait a little longer after each failure of the server; log the first one only.

        The wait ends when the worker is told to stop, or to stop at once.
        """
        if not self._lost:
            log.error("the server does not serve us; trying again: %s", error)
        pause = PAUSES[min(self._lost, len(PAUSES) - 1)]
        self._lost += 1
        state, ends = self.state, time.monotonic() + pause
        while time.monotonic() < ends and not self.forced and self.state is state:
            time.sleep(0.05)

    def found(self) -> None:
        """Note that the server serves us."""
        if self._lost:
            log.warning("the server serves us again")
            self._lost = 0

    # The threads that run jobs.

    def _slot(self, runner: Runner, todo: SimpleQueue[Job | None]) -> None:
        while True:
            job = todo.get()
            if job is None:
                return
            queue = job._claim.queue
            try:
                runner.run(job)
            except BaseException as error:
                # No server to settle it, or a fault of ours: the job's token dies with
                # it, and a beat puts the job back.  No traceback, which would show
                # what the handler raised.
                why = str(error) if isinstance(error, JobQueueError) else type(error).__name__
                log.error("a job could not be settled: %s", why, extra={"job_id": job.id})
            finally:
                with self._change:
                    self._running.pop(id(job), None)
                    self._busy[queue] -= 1
                    self._change.notify_all()
                full = queue in self._limits
            del job
            if full and self.state is State.RUNNING:
                self.owner.nudge()

    @property
    def forced(self) -> bool:
        """Whether it ends without waiting for what runs, or has ended."""
        return bool(self._forced) or self.state is State.STOPPED

    # What is tended beside the jobs.

    def _follow_concurrency(self) -> None:
        wanted = self.owner._run(control.all_concurrency(self.jq._keys))
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
            if self.state is not State.DRAINING:  # something went wrong on the way
                self.state = State.DRAINING
            while self._running and not self._forced and time.monotonic() < ends:
                self._change.wait(GLANCE)
            left = list(self._running.values())
        code = EXIT_DONE
        if left:
            code = EXIT_FORCED + self._forced if self._forced else EXIT_RELEASED
            log.warning("jobs are put back to their queues", extra={"jobs": len(left)})
        for _ in range(self.slots):
            self._todo.put(None)
        # Before the children are killed: else their jobs were taken for failed.  In a
        # thread of its own, so that a second signal need not wait for a dead server.
        leaver = threading.Thread(target=self._leave, daemon=True, name="redis_jobqueue-leave")
        leaver.start()
        hurry: float | None = None
        while leaver.is_alive():
            leaver.join(GLANCE)
            if self._forced:
                hurry = hurry or time.monotonic() + LEAVING
                if time.monotonic() > hurry:
                    log.error("the server does not answer, the jobs wait to be recovered")
                    break
        return code

    def _leave(self) -> None:
        try:
            self.owner.stop()
        except JobQueueError as error:
            log.error("the owner could not be stopped, its jobs wait to be recovered: %s", error)
