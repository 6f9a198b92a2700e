"""What a worker runs: functions that take a Job, and how each of them is to be run."""

from __future__ import annotations

import contextvars
import random
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from redis_jobqueue.address import refused
from redis_jobqueue.checks import Text
from redis_jobqueue.job import Job

Function = Callable[[Job], Any]

RETRIES = 3
"""How often a job that failed comes again, where nobody says otherwise."""

ERROR_FIELD = "_error"
"""The metadata field with the traceback of a job that failed."""

LONGEST_ERROR = 32_000
"""Characters of a traceback that are kept, from its end."""


class Retry(Exception):
    """Raise it in a handler to let the job come again, one attempt poorer.

    Attributes:
        delay: seconds, None for what the back-off says.
    """

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class Bury(Exception):
    """Raise it in a handler to put the job among the dead, whatever attempts are left."""


class Drop(Exception):
    """Raise it in a handler to delete the job: nobody wants its result any more."""


class TimeLimit(Exception):
    """A job ran longer than its handler's ``timeout``."""


class Died(Exception):
    """The process that ran a job is gone."""


@attrs.frozen(slots=True)
class Backoff:
    """How long a job waits before it comes again.

    The n-th wait is ``base * factor ** (n - 1)`` seconds, ``most`` at the
    most, times a random number from ``1 - jitter`` to ``1 + jitter``, so that
    what failed together does not come again together.
    """

    base: float = 5.0
    factor: float = 2.0
    most: float = 3600.0
    jitter: float = 0.25

    def delay(self, attempt: int) -> float:
        """Give the seconds to wait after this failed attempt, counted from 1."""
        # The exponent is bounded: a float overflows long before anybody waits so long.
        wait = min(self.base * self.factor ** min(attempt - 1, 64), self.most)
        return wait * random.uniform(1 - self.jitter, 1 + self.jitter)


@attrs.frozen(slots=True)
class Handler:
    """A function and how to run it.

    Attributes:
        function: takes the Job, returns the result.  None leaves the job's
            ``result`` as the function set it.
        retries: how often a failed job comes again; a job's own metadata
            field ``_retries`` wins over it.
        timeout: seconds that one attempt may take, None for no limit.  In a
            process of its own it is killed; in a thread it is told
            (``job.cancelled``), because a thread cannot be killed.
        backoff: how long it waits before it comes again.
    """

    function: Function
    retries: int = attrs.field(default=RETRIES)
    timeout: float | None = None
    backoff: Backoff = attrs.field(factory=Backoff)

    @retries.validator
    def _whole(self, _: Any, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refused("retries must be a whole number, 0 or more")

    def retries_of(self, job: Job) -> int:
        """Give how often this job comes again."""
        own = job.meta_data.get("_retries")
        return own if isinstance(own, int) and not isinstance(own, bool) and own >= 0 \
            else self.retries  # fmt: skip


def handler(
    *, retries: int = RETRIES, timeout: float | None = None, backoff: Backoff | None = None
) -> Callable[[Function], Handler]:
    """Decorate a function with how to run it; see `Handler`."""
    return lambda function: Handler(function, retries, timeout, backoff or Backoff())


Handlers = Mapping[Text, "Function | Handler | Mapping[Text, Function | Handler]"]
"""Queue -> what runs its jobs: one handler, or one for each text in ``job.job``."""


@attrs.frozen(slots=True)
class Table:
    """Finds the handler of a job.

    Attributes:
        queues: the names of the queues, in the order given.
    """

    _rows: dict[Text, Handler | dict[Text, Handler]]

    @classmethod
    def of(cls, handlers: Handlers) -> Table:
        """Check what a caller gives.

        Raises:
            ArgumentError: code 0; not a mapping of queues to functions.
        """
        if not isinstance(handlers, Mapping) or not handlers:
            raise refused("handlers must be a mapping from queues to functions")
        return cls({queue: _row(queue, given) for queue, given in handlers.items()})

    @property
    def queues(self) -> list[Text]:
        """The queues that have a handler."""
        return list(self._rows)

    @property
    def most_retries(self) -> int:
        """The largest number of retries of any handler."""
        rows = [
            each
            for row in self._rows.values()
            for each in (row.values() if isinstance(row, dict) else [row])
        ]
        return max(each.retries for each in rows)

    def get(self, queue: Text, job: Job) -> Handler | None:
        """Give the handler of a job that came from this queue; None if there is none."""
        row = self._rows.get(queue)
        return row.get(job.job or "") if isinstance(row, dict) else row

    def find(self, queue: Text, job: Job) -> Handler:
        """Give the handler of a job that came from this queue.

        Raises:
            Bury: nobody handles it.
        """
        if (found := self.get(queue, job)) is None:
            raise Bury(f"no handler for job {job.job!r} of queue {queue!r}")
        return found


def _row(queue: Text, given: Any) -> Handler | dict[Text, Handler]:
    if isinstance(given, Mapping):
        return {job: _handler(f"{queue!r}, {job!r}", each) for job, each in given.items()}
    return _handler(repr(queue), given)


def _handler(where: str, given: Any) -> Handler:
    if isinstance(given, Handler):
        return given
    if not callable(given):
        raise refused(f"the handler of {where} must be a function, not {type(given).__name__}")
    return Handler(given)


_current: contextvars.ContextVar[Job | None] = contextvars.ContextVar("current_job", default=None)


def current_job() -> Job | None:
    """Give the job that this handler runs for; None outside of a handler."""
    return _current.get()


def call(function: Function, job: Job) -> Any:
    """Run a function for a job; its return value becomes the result."""
    token = _current.set(job)
    try:
        result = function(job)
    finally:
        _current.reset(token)
    if result is not None:
        job.result = result
    return result


def describe(error: BaseException) -> tuple[str, str]:
    """Give one line for the message, which is ASCII, and the traceback."""
    text = str(error)
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return ascii_line(line), trace[-LONGEST_ERROR:]


def ascii_line(text: str) -> str:
    """Give a text as a plain field may hold it."""
    return " ".join(text.split())[:1000].encode("ascii", "backslashreplace").decode()
