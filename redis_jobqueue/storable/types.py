"""The values that Perl has and Python has not, as plain data.

Strategy: nothing here acts.  A thawed object is its class name and its data;
nothing is imported, called or evaluated.  Each value freezes back to an image
that Perl reads as an equal one.

A list or a dict that Perl could tell apart from a plain one is still a list or
a dict: `PerlList` and `PerlHash` only remember more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs


@attrs.define
class ScalarRef:
    r"""A reference to a scalar, ``\"text"`` in Perl, or to another reference.

    One `ScalarRef` stands for one Perl scalar: put in two places, both refer to
    the same scalar.

    Attributes:
        value: what the scalar holds.
    """

    value: Any


@attrs.define
class Blessed:
    """A reference to an object of a Perl class, as data only.

    Attributes:
        class_name: the Perl class, one character per byte.
        value: what is blessed: a list, a dict, or a `ScalarRef`.
        overloaded: the class overloads operators.  Perl then needs the class to
            read it.  Not compared.
    """

    class_name: str
    value: Any
    overloaded: bool = attrs.field(default=False, kw_only=True, eq=False)


@attrs.define
class Hook:
    """An object whose class froze it by its own STORABLE_freeze.

    Perl needs the class to read it.

    Attributes:
        class_name: the Perl class, one character per byte.
        frozen: the string that the class wrote: ``str`` if ASCII, else ``bytes``.
        refs: the references that the class gave beside it.
        base: ``hash``, ``array``, ``scalar``, or one of these after ``tied ``.
        tied: the object behind the tie, for the bases that start with ``tied``.
        overloaded: as in `Blessed`.
    """

    class_name: str
    frozen: Any
    refs: list[Any] = attrs.field(factory=list)
    base: str = "hash"
    tied: Any = None
    overloaded: bool = attrs.field(default=False, kw_only=True, eq=False)


@attrs.define
class Regexp:
    """A compiled pattern, ``qr/.../`` in Perl.

    Attributes:
        pattern: its text: ``str``, or ``bytes`` if it is not ASCII (the image does
            not say whether those are UTF-8).
        flags: the letters behind it, such as ``"ix"``.
        class_name: ``Regexp``, or the class that it was blessed into.
    """

    pattern: Any
    flags: str = ""
    class_name: str = "Regexp"


@attrs.define
class Code:
    """A Perl sub, as its source text.  Perl takes it with ``$Storable::Eval`` only.

    The class of a blessed sub is not kept: Perl loses it too.

    Attributes:
        source: the text, braces included.
    """

    source: Any


@attrs.define
class VString:
    """A version string, ``v1.2.3`` in Perl.

    Attributes:
        literal: as it was written, ``"v1.2.3"``.
        value: the string that it stands for, ``"\\x01\\x02\\x03"``.
    """

    literal: Any
    value: Any


@attrs.define
class Tied:
    """A variable tied to an object.

    ``hash`` and ``array`` stand for a reference to the tied variable; ``scalar``,
    ``key`` and ``idx`` for the scalar itself, so they mostly sit in a `ScalarRef`.

    Attributes:
        kind: ``hash``, ``array``, ``scalar``, ``key`` or ``idx``.
        object: the object behind the tie.
        key: the key or index, for ``key`` and ``idx``.
    """

    kind: str
    object: Any
    key: Any = None


@attrs.define
class WeakRef:
    """A reference that does not keep its target alive.

    Attributes:
        value: the target, as the same reference would read were it not weak.
    """

    value: Any


class PerlText(bytes):
    """Perl text that is not Unicode, such as ``"\\x{110000}"``: Perl's own UTF-8 octets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"PerlText({bytes.__repr__(self)})"


def text(raw: bytes) -> str | PerlText:
    """Return flagged text as ``str``, or as `PerlText` where it is not Unicode."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return PerlText(raw)


class PerlList(list[Any]):
    """A list that remembers what a Python list cannot hold.

    Attributes:
        missing: the indexes that Perl never set; their value is None.
        cells: index -> the `ScalarRef` whose scalar this element is.  Perl can
            refer to an element, or have one scalar in two lists.  It counts
            only as long as both have the same value.
    """

    __slots__ = ("cells", "missing")

    def __init__(
        self,
        items: Iterable[Any] = (),
        *,
        missing: Iterable[int] = (),
        cells: dict[int, ScalarRef] | None = None,
    ) -> None:
        super().__init__(items)
        self.missing: set[int] = set(missing)
        self.cells: dict[int, ScalarRef] = dict(cells or {})


class PerlHash(dict[Any, Any]):
    """A dict that remembers what a Python dict cannot hold.

    Attributes:
        restricted: no other keys may be added (Hash::Util's ``lock_keys``).
        readonly: the keys whose values may not be changed (``lock_value``).
        placeholders: keys that are allowed, and not there now.
        cells: key -> the `ScalarRef` whose scalar this value is, as in `PerlList`.
    """

    __slots__ = ("cells", "placeholders", "readonly", "restricted")

    def __init__(
        self,
        items: Any = (),
        *,
        restricted: bool = False,
        readonly: Iterable[Any] = (),
        placeholders: Iterable[Any] = (),
        cells: dict[Any, ScalarRef] | None = None,
    ) -> None:
        super().__init__(items)
        self.restricted = restricted
        self.readonly: set[Any] = set(readonly)
        self.placeholders: list[Any] = list(placeholders)
        self.cells: dict[Any, ScalarRef] = dict(cells or {})
