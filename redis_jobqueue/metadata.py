"""The metadata of a job: a mapping that knows what was changed, and thaws on reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from redis_jobqueue.checks import Text, text_of, unfit
from redis_jobqueue.errors import E_NO_ERROR, ArgumentError, StorableError
from redis_jobqueue.storable import thaw

FIELDS = (
    "completed", "created", "expire", "failed", "id", "job", "message", "progress", "queue",
    "result", "started", "status", "updated", "workload",
)  # fmt: skip
"""The 14 fields that every job's hash has, in sorted order."""

RESERVED = frozenset({*FIELDS, "meta_data"})
"""Names that no metadata field may have."""


class MetaData(MutableMapping[Text, Any]):
    """The metadata of a job: a mapping that knows what was changed.

    It can also be called as in Perl: ``meta_data()`` gives the mapping,
    ``meta_data(name)`` a value or None, ``meta_data(name, value)`` sets one,
    and ``meta_data({...})`` replaces all.  As in Perl, ``meta_data(name,
    None)`` reads; ``meta_data[name] = None`` stores None.

    A name must not be one of a job's own attributes, nor start with two
    underscores; else `ArgumentError` with code 0.
    """

    __slots__ = ("_strings", "_touch", "_values", "_images", "_modified")

    def __init__(self, strings: str, touch: Callable[[], None]) -> None:
        self._strings = strings
        self._touch = touch
        self._values: dict[Text, Any] = {}
        self._images: dict[Text, bytes] = {}
        self._modified: dict[Text, None] = {}

    def __getitem__(self, name: Text) -> Any:
        name = self._known(name)
        if (image := self._images.get(name)) is not None:
            self._values[name] = thawed(name, image, self._strings)
            del self._images[name]
        return self._values[name]

    def __setitem__(self, name: Text, value: Any) -> None:
        name = self._check(name)
        self._put(name, value)
        self._touch()

    def __delitem__(self, name: Text) -> None:
        name = self._known(name)
        del self._values[name]
        self._images.pop(name, None)
        self._modified[name] = None
        self._touch()

    def __iter__(self) -> Iterator[Text]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return self._known(name) in self._values

    def __repr__(self) -> str:
        return f"MetaData({', '.join(map(repr, self._values))})"

    def __call__(self, name: Text | Mapping[Text, Any] | None = None, value: Any = None) -> Any:
        """Read or set as in Perl; see the class."""
        if name is None:
            return self
        if isinstance(name, Mapping):
            self.replace(name)
            return None
        if value is None:
            return self.get(_name(name))
        self[name] = value
        return None

    def replace(self, values: Mapping[Text, Any]) -> None:
        """Put these values in the place of all; marks only their names, as in Perl."""
        checked = {self._check(name): value for name, value in values.items()}
        deleted = [name for name in self._modified if name not in self._values]
        self._values = checked
        self._images = {}
        self._modified = dict.fromkeys([*deleted, *checked])

    def _load(self, name: Text, image: bytes) -> None:
        # As Perl reads it: these two are not thawed.
        if image in (b"", b"0"):
            self._values[name] = image.decode()
        else:
            self._values[name] = None
            self._images[name] = image

    def _take(self, other: MetaData) -> None:
        self._values = dict(other._values)
        self._images = dict(other._images)
        self._modified = dict(other._modified)

    def _put(self, name: Text, value: Any) -> None:
        self._values[name] = value
        self._images.pop(name, None)
        self._modified[name] = None

    def _known(self, name: Any) -> Any:
        # The name as it is stored, if this is one of its forms: b"foo" for "foo", 5 for "5".
        try:
            return name if name in self._values else text_of("meta_data", name)
        except ArgumentError:
            return name

    def _check(self, name: object) -> Text:
        given = _name(name)
        if given in RESERVED or given[:2] in ("__", b"__"):
            raise ArgumentError(
                "The name of the metadata field is the same as a standard job field name: "
                + repr(given),
                code=E_NO_ERROR,
            )
        return given


def thawed(name: Text, image: bytes, strings: str) -> Any:
    """Thaw a field of a job.

    Raises:
        StorableError: code `E_REDIS`; the message names the field.
    """
    try:
        return thaw(image, strings=strings)
    except StorableError as error:
        shown = name if isinstance(name, str) else ascii(name)
        raise StorableError(f"{shown}: {error}", code=error.code) from None


def _name(name: object) -> Text:
    try:
        return text_of("meta_data", name)
    except ArgumentError:
        raise unfit("meta_data", name, "named by text") from None
