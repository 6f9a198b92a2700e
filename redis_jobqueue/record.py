"""A Job to and from the fields of its hash.

Workload, result and every metadata field are frozen; the other twelve fields
are the plain text of the value, None as the empty string.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from redis_jobqueue.errors import ArgumentError, DataTooLargeError
from redis_jobqueue.checks import Spelled, Text
from redis_jobqueue.job import Job, wrap
from redis_jobqueue.metadata import FIELDS
from redis_jobqueue.keys import octets, text
from redis_jobqueue.storable import nfreeze

ENTRY_FIELD = b"__id_in_queue__"
"""The field that holds the very entry which stands in the queue."""

FROZEN = frozenset({"workload", "result"})
EMPTY_DATA = nfreeze(wrap(""))
"""What a workload or result that nobody set is frozen to."""

_NUMBERS = frozenset({"progress", "created", "updated", "started", "completed", "failed"})
_STANDARD = {name.encode(): name for name in FIELDS}
_NOT_METADATA = frozenset({*_STANDARD, ENTRY_FIELD, b"meta_data"})


def plain(name: str, value: Any) -> bytes:
    """Give the octets of a plain field, numbers as Perl writes them (``%.15g``).

    Raises:
        ArgumentError: code `E_MISMATCH_ARG`; text beyond ASCII.
    """
    if isinstance(value, str):  # by far the most frequent
        if value.isascii():
            return value.encode()
    elif value is None:
        return b""
    elif isinstance(value, Spelled):
        return value.text.encode("ascii")
    return octets(value, name)


def freeze_field(name: Text, value: Any, max_size: int) -> bytes:
    """Freeze workload, result or a metadata field.

    Raises:
        DataTooLargeError: the image is longer than ``max_size`` bytes.
        StorableError: code `E_MISMATCH_ARG`; Perl has no form for a part of it.
    """
    if name in FROZEN:
        if value == "" and type(value) is str:
            image = EMPTY_DATA
        else:
            image = nfreeze(wrap(value), name=name, max_size=max_size)
    else:
        image = nfreeze(value, name=name, max_size=max_size, none_as_empty=True)
    if len(image) > max_size:
        raise DataTooLargeError(f"Data is too large: {_shown(name)}")
    return image


def _shown(name: Text) -> str:
    return name if isinstance(name, str) else ascii(name)


def fields_of(job: Job, names: Iterable[str], max_size: int) -> list[bytes]:
    """Give the named attributes of a job as ``field, value, field, value, ...``.

    A frozen field that nobody has read yet goes back as it came.
    """
    pairs: list[bytes] = []
    for name in names:
        pairs.append(name.encode())
        if name not in FROZEN:
            pairs.append(plain(name, job._values[name]))
        elif (image := job._images.get(name)) is not None:
            pairs.append(image)
        else:
            pairs.append(freeze_field(name, job._values[name], max_size))
    return pairs


def metadata_of(job: Job, names: Iterable[Text], max_size: int) -> list[bytes]:
    """Give the named metadata fields of a job as ``field, value, ...``."""
    meta = job._meta
    pairs: list[bytes] = []
    for name in names:
        image = meta._images.get(name)
        pairs.append(octets(name, "the name of a metadata field"))
        pairs.append(freeze_field(name, meta._values[name], max_size) if image is None else image)
    return pairs


def changes_of(
    job: Job, max_size: int, skipped: Set[str] = frozenset()
) -> tuple[list[bytes], list[bytes]]:
    """Give what was changed in a job: names of metadata fields that were deleted, and
    ``field, value, ...`` of the rest.  ``id`` and ``expire`` are never among them.
    """
    names = sorted(job._modified - {"id", "expire", "meta_data"} - skipped)
    meta: list[Text] = list(job._meta._modified)
    if "meta_data" in job._modified:  # a new Job: all of its metadata
        meta = list(dict.fromkeys([*meta, *job._meta]))
    gone = [octets(name, "the name of a metadata field") for name in meta if name not in job._meta]
    pairs = fields_of(job, names, max_size)
    pairs += metadata_of(job, (name for name in meta if name in job._meta), max_size)
    return gone, pairs


def apply_changes(job: Job, gone: Iterable[bytes], pairs: Sequence[bytes]) -> None:
    """Make the changes that `changes_of` gave for a copy of this job, still frozen."""
    for lost in gone:
        job._meta.pop(text(lost), None)
    fields = iter(pairs)
    for field, value in zip(fields, fields):
        if (name := _STANDARD.get(field)) is None:
            job._meta._load(text(field), value)
            job._meta._modified[text(field)] = None
            continue
        if name in FROZEN:
            job._images[name] = value
        else:
            job._values[name] = read_plain(name, value)
        job._modified.add(name)


def job_of(reply: Sequence[bytes], strings: str) -> Job:
    """Make a Job from the reply of ``HGETALL``; nothing in it is modified."""
    values: dict[str, Any] = dict(_ABSENT)
    images: dict[str, bytes] = {}
    meta: dict[Text, bytes] = {}
    fields = iter(reply)
    for field, value in zip(fields, fields):
        name = _STANDARD.get(field)
        if name is None:
            if field not in _NOT_METADATA:
                meta[text(field)] = value
        elif name in FROZEN:
            # Perl does not thaw these two either.
            if value in (b"", b"0"):
                values[name] = value.decode()
            else:
                images[name] = value
        else:
            values[name] = read_plain(name, value)
    return Job._loaded(values, images, meta, strings)


def read_plain(name: str, value: bytes) -> Any:
    """Give the value of a plain field: ``expire`` an int, times and progress numbers.

    What is no number reads as 0, so that a damaged job can be loaded.
    """
    if name == "expire":
        try:
            return int(value)
        except ValueError:
            return 0
    if name in _NUMBERS:
        try:
            return float(value)
        except ValueError:
            return 0.0
    return value.decode() if value.isascii() else value


_ABSENT: dict[str, Any] = {
    name: read_plain(name, b"") if name not in FROZEN else "" for name in FIELDS
}


def check_expire(value: int | None, now: float) -> int:
    """Give a job's ``expire`` if Redis can take it, in seconds.

    Raises:
        ArgumentError: code `E_MISMATCH_ARG`; None, or so large that the end
            lies beyond what Redis can count (in ms, 63 bits).
    """
    if value is None:
        raise ArgumentError("Invalid argument (expire is not set)")
    if value * 1000 + int(now * 1000) >= 1 << 63:
        raise ArgumentError(f"Invalid argument (expire {value} is too large)")
    return value
