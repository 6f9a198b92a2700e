"""A job: its attributes, what sets what, and which of them were changed.

The attributes are rows of a table (`_Attribute`); each knows how a value is
checked and whether setting it also sets ``updated``.  Workload, result and
metadata that came from Redis stay frozen until somebody reads them, so that a
job whose data is damaged can still be loaded, failed or deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar, overload

import attrs

from redis_jobqueue.checks import (
    Text,
    data_of,
    expire_of,
    id_of,
    progress_of,
    text_of,
    text_or_none,
    time_of,
    unfit,
)
from redis_jobqueue.errors import E_NO_ERROR, ArgumentError, ClaimLostError
from redis_jobqueue.metadata import RESERVED, MetaData, thawed
from redis_jobqueue.storable import ScalarRef, is_reference

STATUS_CREATED = "__created__"
STATUS_WORKING = "__working__"
STATUS_COMPLETED = "__completed__"
STATUS_FAILED = "__failed__"

T = TypeVar("T")


class _Attribute(Generic[T]):
    """One attribute of `Job`: checked when set, marked as modified.

    ``touches`` says whether setting it also sets and marks ``updated``.
    """

    def __init__(self, check: Callable[[str, object], T], *, touches: bool = False) -> None:
        self.check = check
        self.touches = touches

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, job: None, owner: type) -> _Attribute[T]: ...

    @overload
    def __get__(self, job: Job, owner: type) -> T: ...

    def __get__(self, job: Job | None, owner: type) -> T | _Attribute[T]:
        if job is None:
            return self
        return job._values[self.name]  # type: ignore[no-any-return]

    def __set__(self, job: Job, value: Any) -> None:
        job._values[self.name] = self.check(self.name, value)
        job._modified.add(self.name)
        if self.touches:
            touch(job._values, job._modified)


class _Status(_Attribute[Text]):
    """The status, which sets the time that belongs to it."""

    def __set__(self, job: Job, value: Any) -> None:
        super().__set__(job, value)
        job._stamp()


class _Data(_Attribute[Any]):
    """Workload or result: the data itself, thawed when first read."""

    def __get__(self, job: Job | None, owner: type) -> Any:
        if job is None:
            return self
        if (image := job._images.get(self.name)) is not None:
            job._values[self.name] = unwrap(thawed(self.name, image, job._strings))
            del job._images[self.name]
        return job._values[self.name]

    def __set__(self, job: Job, value: Any) -> None:
        super().__set__(job, value)
        job._images.pop(self.name, None)


def wrap(value: Any) -> Any:
    """Give workload or result as Perl keeps it: always a reference, one more than we show."""
    plain = isinstance(value, ScalarRef) or not is_reference(value)
    return ScalarRef(value) if plain else value


def unwrap(value: Any) -> Any:
    """Take off the one reference that `wrap` put on."""
    return value.value if type(value) is ScalarRef else value


@attrs.define(slots=True, init=False, repr=False, eq=False)
class Job:
    """A job as Perl's Redis::JobQueue::Job knows it.

    Make one from keyword arguments, a mapping, or another job, each with
    keyword arguments that win over it.  Unknown names are ignored, as in
    Perl.  ``queue`` and ``expire`` are required.

    Attributes:
        id: text without spaces; ``""`` until `JobQueue.add_job` gives one.
        queue: the name of the queue.
        job: free text: what kind of job it is.
        expire: seconds that the job lives in Redis after each change; 0 for ever.
        status: `STATUS_CREATED`, `STATUS_WORKING`, `STATUS_COMPLETED`,
            `STATUS_FAILED`, or a text of your own.  Setting one of the four
            sets the time that belongs to it.
        workload, result: the data: see "values" in the README.
        progress: a number from 0 to 1.
        message: free text.
        created, updated, started, completed, failed: seconds since 1970, 0 if never.
        meta_data: a `MetaData` mapping.

    Setting status, workload, result, progress, message, started, completed or
    failed, or a metadata field, also sets ``updated``.  As in Perl all this is
    so in making a job too, over a time that is given beside it.

    Raises:
        ArgumentError: code 0, as Perl leaves it; a value does not fit, or
            ``queue`` or ``expire`` is missing.
        StorableError: code `E_REDIS`; workload, result or a metadata field
            that came from Redis cannot be read.
    """

    _values: dict[str, Any]
    _images: dict[str, bytes]
    _modified: set[str]
    _meta: MetaData
    _strings: str
    _claim: Any

    id = _Attribute(id_of)
    queue = _Attribute(text_or_none)
    job = _Attribute(text_or_none)
    expire = _Attribute(expire_of)
    status = _Status(text_of, touches=True)
    workload = _Data(data_of, touches=True)
    result = _Data(data_of, touches=True)
    progress = _Attribute(progress_of, touches=True)
    message = _Attribute(text_or_none, touches=True)
    created = _Attribute(time_of)
    updated = _Attribute(time_of)
    started = _Attribute(time_of, touches=True)
    completed = _Attribute(time_of, touches=True)
    failed = _Attribute(time_of, touches=True)

    def __init__(self, source: Job | Mapping[str, Any] | None = None, /, **values: Any) -> None:
        if isinstance(source, Job):
            values = {**source._as_values(), **values}
        elif isinstance(source, Mapping):
            values = {**source, **values}
        elif source is not None:
            raise ArgumentError(
                f"A job is made from a mapping or a Job, not {type(source).__name__}",
                code=E_NO_ERROR,
            )
        for name in ("queue", "expire"):
            if name not in values:
                raise ArgumentError(f"Attribute ({name}) is required", code=E_NO_ERROR)
        now = time.time()
        self._strings = source._strings if isinstance(source, Job) else "auto"
        self._claim = None
        self._images = {}
        self._values = _DEFAULTS | {"created": now, "updated": now}
        for name, value in values.items():
            if (check := _CHECKS.get(name)) is not None:
                self._values[name] = check(name, value)
        if not _TOUCHING.isdisjoint(values):
            self._values["updated"] = now
        self._modified = set(JOB_ATTRIBUTES)
        self._meta = MetaData(self._strings, partial(touch, self._values, self._modified))
        if "meta_data" in values:
            self.meta_data = values["meta_data"]
            self._meta._modified.clear()
        if "status" in values:
            self._stamp()

    def __repr__(self) -> str:
        return f"Job(id={self.id!r}, queue={self.queue!r}, status={self.status!r})"

    @property
    def meta_data(self) -> MetaData:
        """The metadata; assigning a mapping replaces all of it."""
        return self._meta

    @meta_data.setter
    def meta_data(self, values: Mapping[Text, Any]) -> None:
        if not isinstance(values, Mapping):
            raise unfit("meta_data", values, "a mapping")
        self._meta.replace(values)

    @property
    def elapsed(self) -> float | None:
        """Seconds from ``started`` to ``completed``, else ``failed``, else now.

        None while the job was not started.
        """
        return elapsed(self.started, self.completed, self.failed)

    @property
    def attempt(self) -> int:
        """Which delivery of a held job this is, from 1; 1 for a job that is not held."""
        return 1 if self._claim is None else self._claim.attempts + 1

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this held job to stop; news come with the owner's beat."""
        return self._claim is not None and bool(self._claim.cancelled)

    def save(self) -> int:
        """Write what was changed while the job is held; see `Owner.save`."""
        return int(self._holder().save(self))

    def begun(self) -> None:
        """Say that work on this held job begins now; see `Owner.begun`."""
        self._holder().begun(self)

    def _holder(self) -> Any:
        if self._claim is None:
            raise ClaimLostError(f"{self!r} is not held")
        return self._claim.holder

    def modified_attributes(self) -> list[Text]:
        """Name what was changed: attributes in sorted order, then metadata fields."""
        return sorted(self._modified) + list(self._meta._modified)

    def clear_modified(self, *names: Any) -> None:
        """Forget that these were changed, or that anything was, if none is named."""
        if not names:
            self._modified.clear()
            self._meta._modified.clear()
        for name in names:
            if isinstance(name, (str, bytes)):
                self._modified.discard(name)
                self._meta._modified.pop(name, None)

    @staticmethod
    def job_attributes() -> list[str]:
        """Name all attributes, ``meta_data`` among them, in sorted order."""
        return list(JOB_ATTRIBUTES)

    @classmethod
    def _loaded(
        cls, values: dict[str, Any], images: dict[str, bytes], meta: dict[Text, bytes], strings: str
    ) -> Job:
        # A job as it came from Redis: nothing modified, no trigger run, data still frozen.
        job = cls.__new__(cls)
        job._values = values
        job._images = images
        job._modified = set()
        job._strings = strings
        job._claim = None
        # Of the parts, not of the job: a job in a circle would outlive its last user.
        job._meta = MetaData(strings, partial(touch, values, job._modified))
        for name, image in meta.items():
            job._meta._load(name, image)
        return job

    def __copy__(self) -> Job:
        # As it is, times and marks included; only the data itself is shared.
        job = Job._loaded(dict(self._values), dict(self._images), {}, self._strings)
        job._modified |= self._modified
        job._meta._take(self._meta)
        return job

    def _as_values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _CHECKS} | {"meta_data": dict(self._meta)}

    def _stamp(self) -> None:
        name = _STAMPS.get(self._values["status"])
        if name is None or (name == "started" and self._values["started"]):
            return
        self._values[name] = time.time()
        self._modified.add(name)


def touch(values: dict[str, Any], modified: set[str]) -> None:
    """Set and mark ``updated``, in the parts of a job."""
    values["updated"] = time.time()
    modified.add("updated")


def elapsed(started: float, completed: float, failed: float) -> float | None:
    """Give seconds spent on a job; see `Job.elapsed`."""
    if not started:
        return None
    return (completed or failed or time.time()) - started


_STAMPS: dict[Text, str] = {
    STATUS_CREATED: "created",
    STATUS_WORKING: "started",
    STATUS_COMPLETED: "completed",
    STATUS_FAILED: "failed",
}

_CHECKS: dict[str, Callable[[str, object], Any]] = {
    name: attribute.check
    for name, attribute in sorted(vars(Job).items())
    if isinstance(attribute, _Attribute)
}

_TOUCHING = frozenset(name for name in _CHECKS if vars(Job)[name].touches)

JOB_ATTRIBUTES: tuple[str, ...] = tuple(sorted(RESERVED))

_DEFAULTS: dict[str, Any] = {
    "completed": 0,
    "failed": 0,
    "id": "",
    "job": "",
    "message": "",
    "progress": 0,
    "result": "",
    "started": 0,
    "status": STATUS_CREATED,
    "workload": "",
}
