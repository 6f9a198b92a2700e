"""The three calls: `freeze`, `nfreeze` and `thaw`.

Strategy: try the fast path, which knows the everyday shapes and gives up on
anything else; then the full reader or writer, which knows everything.  Both say
the same wherever both can.  A trailer of hints is read once the end of the
image is known.
"""

from __future__ import annotations

from typing import Any

from ..errors import StorableError
from . import fast
from . import hints as hint
from . import opcodes as op
from .opcodes import NATIVE, NETWORK, Layout
from .reader import READ, Reader
from .reading import Learned, Octets
from .types import Blessed, Code, Hook, Regexp, ScalarRef, Tied, WeakRef
from .writer import Writer, written_as


def _auto(raw: bytes) -> str | bytes:
    return raw.decode("ascii") if raw.isascii() else raw


def _utf8(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


STRINGS: dict[str, Octets] = {
    "auto": _auto,
    "bytes": bytes,
    "utf-8": _utf8,
    "latin-1": lambda raw: raw.decode("latin-1"),
}
"""How octet strings read: the values that ``strings=`` takes."""


def thaw(image: bytes, strings: str = "auto") -> Any:
    r"""Return the value that an image holds: what Perl calls ``${ thaw($image) }``.

    An image whose root is a list, a hash or an object itself, and not a scalar
    that refers to one, gives that list, dict or object.  Bytes behind the
    image are ignored, except for a good trailer of type hints.

    Args:
        image: any order, any minor version.
        strings: how octet strings and keys read.  ``auto``: ``str`` if all is
            ASCII, else ``bytes``.  ``bytes``: ``bytes``.  ``utf-8``: ``str``, or ``bytes``
            if it is not UTF-8.  ``latin-1``: ``str``.  Text is ``str`` always.

    Raises:
        StorableError: ``code`` is `E_REDIS`; the image is broken, deeper than
            `MAX_DEPTH`, or of a machine whose numbers are of other sizes.
    """
    if strings not in STRINGS:
        raise ValueError(f"strings must be one of {', '.join(STRINGS)}, not {strings!r:.50}")
    if not isinstance(image, (bytes, bytearray, memoryview)):
        raise TypeError(f"an image is bytes, not {type(image).__name__}")
    data = bytes(image)
    everyday = fast.read(data) if strings == "auto" else None
    if everyday is not None:
        value, end = everyday
    else:
        value, end = _read(data, STRINGS[strings], {})
    known = hint.parse(data, end) if data.startswith(hint.MAGIC, end) else None
    if known:
        try:
            if everyday is not None:
                return fast.apply(value, known)
            return _read(data, STRINGS[strings], known)[0]
        except hint.Unfit:
            pass
    return value


def _read(data: bytes, octets: Octets, hints: hint.Hints) -> tuple[Any, int]:
    """Return the value of any image, and where it ends.

    Raises:
        StorableError: the image is broken, or deeper than `MAX_DEPTH`.
        Unfit: a hint does not fit.
    """
    start, layout, old = _header(data)
    learned = Learned()
    while True:
        known = learned.size()
        reader = Reader(data, start, layout, octets, old, hint.Pending(hints), learned)
        value = reader.read(READ)
        if learned.size() == known:
            reader.hints.end()
            return reader.finish(value), reader.pos


def _header(data: bytes) -> tuple[int, Layout, bool]:
    """Return where the first tag is, the layout, and whether the image is of before 0.7."""
    try:
        return _parse_header(data)
    except IndexError:
        raise _not_an_image(data) from None


def _not_an_image(data: bytes) -> StorableError:
    return StorableError(f"Not a Storable image: {len(data)} bytes that start with {data[:16]!r}")


def _parse_header(data: bytes) -> tuple[int, Layout, bool]:
    major, network = data[0] >> 1, data[0] & 1
    if not 1 <= major <= op.MAJOR:
        raise _not_an_image(data)
    old = major < op.MAJOR  # has no minor
    pos = 1 if old else 2
    minor = 0 if old else data[1]
    if network:
        return pos, NETWORK, old
    end = pos + 1 + data[pos]
    order = data[pos + 1 : end]  # the bytes of a long integer, lowest first: "1234"
    count = 4 if minor >= 2 else 3
    sizes = data[end : end + count]  # of int, long, pointer, float
    if not order.isdigit() or len(sizes) < count:
        raise _not_an_image(data)
    layout = NATIVE.get(order)
    if layout is None or sizes[0] != 4 or {*sizes[1:3]} - {4, 8} or {*sizes[3:]} - {8}:
        raise StorableError(
            f"A Storable image of a machine with byte order {order.decode()} and numbers of"
            f" {[*sizes]} bytes cannot be read"
        )
    return end + len(sizes), layout, old


def nfreeze(
    value: Any,
    *,
    name: str | bytes = "value",
    hints: bool = True,
    max_size: int | None = None,
    none_as_empty: bool = False,
) -> bytes:
    r"""Return what Perl's ``nfreeze(\VALUE)`` writes, and a trailer where Python knows more.

    Args:
        value: see the table of values in the README.  It is left as it is.
        name: what an error calls the value: the start of the path.
        hints: append the trailer of type hints if there is something to hint.
        max_size: bytes; leave the trailer out if it alone makes the image longer.
            The image itself is not measured.
        none_as_empty: write ``None`` itself (not one inside) as the empty string,
            as Perl's module writes metadata of undef; the hint brings it back.

    Raises:
        StorableError: ``code`` is `E_MISMATCH_ARG`; Perl has no such value, or does
            not take it as deep.  The message names the path, ``value["a"][3]``.
    """
    return _freeze(value, NETWORK, name, hints, max_size, none_as_empty)


def freeze(
    value: Any,
    *,
    name: str | bytes = "value",
    hints: bool = True,
    max_size: int | None = None,
    none_as_empty: bool = False,
) -> bytes:
    r"""Return what Perl's ``freeze(\VALUE)`` writes on a little-endian 64-bit machine.

    Redis::JobQueue never writes this form.  Arguments and errors are those of
    `nfreeze`.
    """
    return _freeze(value, NATIVE[b"12345678"], name, hints, max_size, none_as_empty)


def _freeze(
    value: Any,
    layout: Layout,
    name: str | bytes,
    hints: bool,
    max_size: int | None,
    none_as_empty: bool,
) -> bytes:
    if value is None and none_as_empty:
        image, known = _write("", layout, name)[0], {0: (hint.NONE, b"")}
    else:
        everyday = fast.write(value) if layout.network else None
        image, known = everyday or _write(value, layout, name)
    if hints and known:
        trailer = hint.trailer(image, known)
        if max_size is None or len(image) + len(trailer) <= max_size:
            return image + trailer
    return image


def is_storable(value: Any) -> bool:
    """Tell whether Perl has a form for the type of a value; what is in it is not looked at."""
    return written_as(value) is not None


def is_reference(value: Any) -> bool:
    """Tell whether a value is a reference in Perl, and not a plain scalar."""
    if isinstance(value, Tied):
        return value.kind in ("array", "hash")
    return isinstance(value, _REFERENCES)


_REFERENCES = (list, tuple, dict, ScalarRef, Blessed, Hook, Regexp, Code, WeakRef)


def _write(value: Any, layout: Layout, name: str | bytes) -> tuple[bytes, hint.Hints]:
    """Return the image of a value, and what Python knows more.

    Raises:
        StorableError: the value cannot be frozen; the message names the path.
    """
    writer = Writer(layout, name)
    if type(value) is ScalarRef and value.value is value:
        writer.numbers[id(value)] = 0  # a scalar that refers to itself is the root
    return writer.write(writer.slot, value), writer.hints
