"""What a worker runs: functions that take a Job, and how each of them is to be run."""

from __future__ import annotations

import contextvars
import random
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import attrs

from redis_jobqueue.address import refused
from redis_jobqueue.arguments import ms_of, name_of
from redis_jobqueue.checks import Text
from redis_jobqueue.job import Job
from redis_jobqueue.keys import octets, text

T = TypeVar("T")

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

    Raises:
        ArgumentError: ``delay`` is no time that anybody can wait: a number of
            seconds, 0 or more, or a `timedelta`.
    """

    delay: float | None = None

    def __init__(self, message: str = "", *, delay: float | timedelta | None = None) -> None:
        super().__init__(message)
        if isinstance(delay, timedelta):
            delay = delay.total_seconds()
        if delay is not None:
            ms_of(delay, "delay")  # here, where the traceback shows who gave it
            self.delay = float(delay)


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

    The n-th wait is ``base * factor ** (n - 1)`` seconds times a random number
    from ``1 - jitter`` to ``1 + jitter``, so that what failed together does
    not come again together.  It is never longer than ``most``, and those that
    would be are spread below it.

    Raises:
        ArgumentError: a number does not fit.
    """

    base: float = 5.0
    factor: float = 2.0
    most: float = 3600.0
    jitter: float = 0.25

    def __attrs_post_init__(self) -> None:
        ms_of(self.base, "base")
        ms_of(self.most, "most")
        if not (1 <= self.factor <= 1000 and 0 <= self.jitter <= 1):
            raise refused("factor must be a number from 1 to 1000, and jitter one from 0 to 1")

    def delay(self, attempt: int) -> float:
        """Give the seconds to wait after this failed attempt, counted from 1."""
        # The exponent is bounded: a float overflows long before anybody waits so long.
        wait = self.base * self.factor ** min(attempt - 1, 64)
        wait = min(wait, self.most / (1 + self.jitter))
        return min(wait * random.uniform(1 - self.jitter, 1 + self.jitter), self.most)


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
            ArgumentError: not a mapping of queues to functions; a name that
                no queue or job can have, or twice the same.
        """
        if not isinstance(handlers, Mapping) or not handlers:
            raise refused("handlers must be a mapping from queues to functions")
        return cls({
            queue: _row(queue, given) for queue, given in _named(handlers, "queue", name_of)
        })  # fmt: skip

    @property
    def queues(self) -> list[Text]:
        """The queues that have a handler."""
        return list(self._rows)

    def check(self, queues: Iterable[bytes]) -> None:
        """See that each of these queues has a handler: else its jobs were buried one by one.

        Raises:
            ArgumentError: code 0; one has none.
        """
        for queue in map(text, queues):
            if queue not in self._rows:
                known = ", ".join(map(repr, self._rows))
                raise refused(f"no handler for queue {queue!r} (there are some for {known})")

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


def _named(
    given: Mapping[Any, T], what: str, read: Callable[[Any, str], bytes]
) -> Iterator[tuple[Text, T]]:
    # Names as a job has them, whether they were given as text, octets or numbers.
    met = set()
    for key, value in given.items():
        name = text(read(key, what))
        if name in met:
            raise refused(f"handlers has the {what} {name!r} twice")
        met.add(name)
        yield name, value


def _row(queue: Text, given: Any) -> Handler | dict[Text, Handler]:
    if isinstance(given, Mapping):
        if not given:
            raise refused(f"queue {queue!r} has no handler")
        return {
            job: _handler(f"{queue!r}, {job!r}", each)
            for job, each in _named(given, "job", octets)
        }
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
    said = words_of(error)
    line = f"{type(error).__name__}: {said}" if said else type(error).__name__
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return ascii_line(line), _clean(trace[-LONGEST_ERROR:])


def words_of(error: BaseException) -> str:
    """Give the text of any error, as it can be stored; empty if it cannot say what it is."""
    try:
        return _clean(str(error))
    except Exception:
        return ""


def _clean(said: str) -> str:
    # A lone surrogate is no text: nothing can store it.
    return said.encode("utf-8", "backslashreplace").decode()


def ascii_line(said: str) -> str:
    """Give a text as a plain field may hold it."""
    return " ".join(said.split())[:1000].encode("ascii", "backslashreplace").decode()
