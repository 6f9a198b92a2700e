"""The everyday shapes, fast: what most jobs hold, a few levels deep.

Strategy: plain recursion to a small fixed depth, the frequent tags and types
tried in turn without a call for each.  Anything else (a shared part, a class, a
key that is not ASCII, a broken image) ends the attempt, and the full reader or
writer starts from the beginning: only they say what is wrong.  Where this
module does answer, the answer is theirs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from . import hints as hint
from .opcodes import (
    ARRAY,
    BYTE,
    HASH,
    LSCALAR,
    LUTF8STR,
    NETINT,
    NETWORK_HEADER,
    REF,
    SCALAR,
    SV_UNDEF,
    UNDEF,
    UTF8STR,
)
from .types import ScalarRef

DEPTH = 16
"""Levels that the fast path follows.  Ours: far below any limit of Perl or Python."""


class NotEveryday(Exception):
    """Something that the full reader or writer must look at."""


# -- reading --

_U32 = struct.Struct(">I").unpack_from
_I32 = struct.Struct(">i").unpack_from


def read(data: bytes) -> tuple[Any, int] | None:
    """Return the value of an image in network order, strings as ``auto``, and its end.

    None if this image is not an everyday one, or not a good one.
    """
    if data[:1] != NETWORK_HEADER[:1]:
        return None
    # Slices of one decoded string cost less than decoding each slice.
    latin1 = data.decode("latin-1")
    try:
        values, end = _read(data, latin1, 2, 1, False, DEPTH)
    except (NotEveryday, IndexError, struct.error, UnicodeDecodeError):
        return None
    return (values[0], end) if end <= len(data) else None


def _read(
    data: bytes, latin1: str, pos: int, count: int, keyed: bool, depth: int
) -> tuple[Any, int]:
    """Read so many values, each with a key behind it if it is a hash."""
    values: list[Any] = []
    keys: list[str | bytes] = []
    value: Any
    for _ in range(count):
        tag = data[pos]
        if tag == SCALAR:
            end = pos + 2 + data[pos + 1]
            value = latin1[pos + 2 : end]
            if not value.isascii():
                value = data[pos + 2 : end]
            pos = end
        elif tag == BYTE:
            value = data[pos + 1] - 128
            pos += 2
        elif tag == NETINT:
            value = _I32(data, pos + 1)[0]
            pos += 5
        elif tag == REF:
            value, pos = _read_ref(data, latin1, pos + 1, depth)
        elif tag == UNDEF:
            value = None
            pos += 1
        elif tag == UTF8STR:
            end = pos + 2 + data[pos + 1]
            value = data[pos + 2 : end].decode()
            if value.isascii():
                raise NotEveryday  # `apply` takes an ASCII str for octets
            pos = end
        elif tag == LSCALAR:
            end = pos + 5 + _U32(data, pos + 1)[0]
            value = latin1[pos + 5 : end]
            if not value.isascii():
                value = data[pos + 5 : end]
            pos = end
        else:
            raise NotEveryday
        values.append(value)
        if keyed:
            end = pos + 4 + _U32(data, pos)[0]
            key = latin1[pos + 4 : end]
            keys.append(key if key.isascii() else data[pos + 4 : end])
            pos = end
    return (dict(zip(keys, values)) if keyed else values), pos


def _read_ref(data: bytes, latin1: str, pos: int, depth: int) -> tuple[Any, int]:
    tag = data[pos]
    if not depth:
        raise NotEveryday
    if tag == HASH or tag == ARRAY:
        return _read(data, latin1, pos + 5, _U32(data, pos + 1)[0], tag == HASH, depth - 1)
    if tag == SV_UNDEF:
        return ScalarRef(None), pos + 1
    values, pos = _read(data, latin1, pos, 1, False, depth - 1)
    return ScalarRef(values[0]), pos


def apply(value: Any, hints: hint.Hints) -> Any:
    """Return a value that `read` gave with its hints applied; lists and dicts may be new.

    Raises:
        Unfit: a hint does not fit.
    """
    pending = hint.Pending(hints)
    value, _ = _apply(value, pending, 0)
    pending.end()
    return value


def _apply(value: Any, hints: hint.Pending, node: int) -> tuple[Any, int]:
    kind = type(value)
    if kind is list:
        is_tuple = hints.is_tuple(node)
        items = []
        node += 1
        for item in value:
            item, node = _apply(item, hints, node)
            items.append(item)
        return (tuple(items) if is_tuple else items), node
    if kind is dict:
        pairs = {}
        node += 1
        for key, item in value.items():
            item, node = _apply(item, hints, node)
            pairs[hints.key(node, key, SCALAR)] = item
            node += 1
        return pairs, node
    if kind is ScalarRef:
        inner, node = _apply(value.value, hints, node + 1)
        return ScalarRef(inner), node
    return hints.scalar(node, value, _TAGS.get(kind, UNDEF)), node + 1


_TAGS = {int: BYTE, str: SCALAR, bytes: SCALAR}


# -- writing --

_REF = bytes((REF,))
_UNDEF = bytes((UNDEF,))
_SV_UNDEF = bytes((SV_UNDEF,))
_SHORT_OCTETS = [bytes((SCALAR, size)) for size in range(256)]
_SHORT_TEXT = [bytes((UTF8STR, size)) for size in range(256)]
_SHORT_KEY = [struct.pack(">I", size) for size in range(256)]
_BYTES = {value: bytes((BYTE, value + 128)) for value in range(-128, 128)}
_TAG_I32 = struct.Struct(">Bi").pack
_TAG_U32 = struct.Struct(">BI").pack
_REF_TAG_U32 = struct.Struct(">BBI").pack


def write(value: Any) -> tuple[bytes, hint.Hints] | None:
    """Return the image of a value in network order, and its hints; None if not everyday."""
    writer = _Writer()
    try:
        writer.write((value,), None, DEPTH)
    except (NotEveryday, IndexError, struct.error, UnicodeEncodeError):
        return None
    return NETWORK_HEADER + b"".join(writer.out), writer.hints


class _Writer:
    """One image in the making.

    Attributes:
        out: one part for each node, so that its place is the number of the node.
        met: ids of the lists, dicts and references that are written.
    """

    __slots__ = ("hints", "met", "out")

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.hints: hint.Hints = {}
        self.met: set[int] = set()

    def write(self, values: Iterable[Any], keys: Iterator[Any] | None, depth: int) -> None:
        """Write values, each with its key behind it if there are keys."""
        add = self.out.append
        for value in values:
            kind = type(value)
            if kind is str:
                raw = value.encode()
                size = len(raw)
                if size > 255:
                    add(_TAG_U32(LSCALAR if size == len(value) else LUTF8STR, size) + raw)
                elif size == len(value):
                    add(_SHORT_OCTETS[size] + raw)
                else:
                    add(_SHORT_TEXT[size] + raw)
            elif kind is int:
                if -128 <= value <= 127:
                    add(_BYTES[value])
                else:
                    try:
                        add(_TAG_I32(NETINT, value))
                    except struct.error:
                        self.write_big(value, hint.INT, b"")
            elif kind is dict:
                self.enter(value, depth)
                add(_REF_TAG_U32(REF, HASH, len(value)))
                self.write(value.values(), iter(value), depth - 1)
            elif kind is list:
                self.enter(value, depth)
                add(_REF_TAG_U32(REF, ARRAY, len(value)))
                self.write(value, None, depth - 1)
            else:
                self.write_other(value, kind, depth)
            if keys is not None:
                key = next(keys)
                if type(key) is not str:
                    raise NotEveryday
                raw = key.encode()
                if len(raw) != len(key):
                    raise NotEveryday
                add(_SHORT_KEY[len(raw)] + raw)

    def enter(self, value: Any, depth: int) -> None:
        if id(value) in self.met or not depth:
            raise NotEveryday
        self.met.add(id(value))

    def write_big(self, value: int, kind: int, payload: bytes) -> None:
        if value.bit_length() > 800:
            raise NotEveryday  # more than 255 digits, or near it
        self.hints[len(self.out)] = kind, payload
        raw = str(value).encode()
        self.out.append(_SHORT_OCTETS[len(raw)] + raw)

    def write_float(self, value: float, depth: int) -> None:
        kind, payload = hint.pack_float(value)
        plain = hint.float_text(value)
        if isinstance(plain, int) and not -0x80000000 <= plain <= 0x7FFFFFFF:
            return self.write_big(plain, kind, payload)
        self.hints[len(self.out)] = kind, payload
        return self.write((plain,), None, depth)

    def write_other(self, value: Any, kind: type, depth: int) -> None:
        if value is None:
            self.out.append(_UNDEF)
        elif kind is bool:
            self.hints[len(self.out)] = hint.BOOL, b""
            self.out.append(_BYTES[value])
        elif kind is float:
            self.write_float(value, depth)
        elif kind is ScalarRef:
            self.enter(value, depth)
            self.out.append(_REF)
            if value.value is None and len(self.out) == 1:  # the root: \undef in Perl
                self.out.append(_SV_UNDEF)
            else:
                self.write((value.value,), None, depth - 1)
        else:
            raise NotEveryday
