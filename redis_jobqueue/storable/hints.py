"""The trailer of type hints: what Python knows and an image of Perl cannot say.

Strategy: the image stays what Perl would write, and every Perl ignores what
follows it.  The trailer names nodes by number (each scalar slot and each hash
key counts one, in writing order) and says what stood there.  Whatever is wrong
with it, the image alone is good: `parse` then returns no hints, and a hint that
does not fit makes the reader start again without any.

Layout: ``00 50 59 48``, version ``01``, length of the body (be32), body, CRC-32 of
image and body (be32).  The body is a run of entries: nodes to go forward
(a varint, low seven bits first), a kind byte, for ``f`` eight bytes.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable

from .limits import MAX_INT_DIGITS, MAX_SAME_HASH
from .opcodes import BYTE, INTEGER, LSCALAR, NETINT, SCALAR

MAGIC = b"\x00PYH"
VERSION = 1

FLOAT = ord("f")
INT = ord("i")
BOOL = ord("b")
BYTES = ord("y")
TUPLE = ord("t")
NONE = ord("n")

Hint = tuple[int, bytes]  # kind, payload
Hints = dict[int, Hint]  # by node

_HEAD = struct.Struct(">4sBI")
_CRC = struct.Struct(">I")
_DOUBLE = struct.Struct(">d")
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
_SIZES = {FLOAT: 8, INT: 0, BOOL: 0, BYTES: 0, TUPLE: 0, NONE: 0}
_NUMBERS = frozenset((BYTE, NETINT, INTEGER))
_OCTETS = frozenset((SCALAR, LSCALAR))


class Unfit(Exception):
    """A hint that does not fit its node."""


def pack_float(value: float) -> Hint:
    """Return the hint for a float."""
    return FLOAT, _DOUBLE.pack(value)


def float_text(value: float) -> int | str:
    """Return a float as Perl's nfreeze writes it: a whole one as an int, else text."""
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    return _SPECIAL.get(text := f"{value:.15g}", text)


_SPECIAL = {"inf": "Inf", "-inf": "-Inf", "nan": "NaN"}


def trailer(image: bytes, hints: Hints) -> bytes:
    """Return the trailer to put behind an image."""
    body = bytearray()
    last = 0
    for node in sorted(hints):
        forward = node - last
        last = node
        while forward > 0x7F:
            body.append(forward & 0x7F | 0x80)
            forward >>= 7
        kind, payload = hints[node]
        body.append(forward)
        body.append(kind)
        body += payload
    crc = zlib.crc32(body, zlib.crc32(image))
    return _HEAD.pack(MAGIC, VERSION, len(body)) + body + _CRC.pack(crc)


def parse(data: bytes, end: int) -> Hints:
    """Return the hints behind the image that ends at ``end``; none if anything is wrong."""
    try:
        magic, version, length = _HEAD.unpack_from(data, end)
        start = end + _HEAD.size
        (crc,) = _CRC.unpack_from(data, start + length)
    except struct.error:
        return {}
    body = data[start : start + length]
    if (magic, version) != (MAGIC, VERSION):
        return {}
    if zlib.crc32(body, zlib.crc32(memoryview(data)[:end])) != crc:
        return {}
    try:
        return _entries(body)
    except (IndexError, KeyError):
        return {}


def _entries(body: bytes) -> Hints:
    hints: Hints = {}
    pos = node = 0
    while pos < len(body):
        shift = 0
        while True:
            byte = body[pos]
            pos += 1
            node += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 35:  # no image has that many nodes
                return {}
        kind = body[pos]
        pos += 1
        payload = body[pos : pos + _SIZES[kind]]
        pos += _SIZES[kind]
        if pos > len(body) or node in hints:
            return {}
        hints[node] = kind, payload
    return hints


def _as_text(value: object) -> object:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _float(value: object, payload: bytes, op: int) -> object:
    number: float = _DOUBLE.unpack(payload)[0]
    if op not in _NUMBERS | _OCTETS or str(_as_text(value)) != str(float_text(number)):
        raise Unfit
    return number


def _int(value: object, _payload: bytes, op: int) -> object:
    text = _as_text(value)
    if op not in _OCTETS or not isinstance(text, str):
        raise Unfit
    if len(text) > MAX_INT_DIGITS + 1 or not _DECIMAL.fullmatch(text):
        raise Unfit
    return int(text)


def _bool(value: object, _payload: bytes, op: int) -> object:
    if op not in _NUMBERS or value not in (0, 1):
        raise Unfit
    return bool(value)


def _bytes(value: object, _payload: bytes, op: int) -> object:
    if op not in _OCTETS:
        raise Unfit
    if isinstance(value, str):
        if not value.isascii():
            raise Unfit
        return value.encode("ascii")
    return value


def _none(value: object, _payload: bytes, op: int) -> object:
    if op not in _OCTETS or value not in ("", b""):
        raise Unfit
    return None


# What a hint makes of a scalar, by kind.
_APPLY: dict[int, Callable[[object, bytes, int], object]] = {
    FLOAT: _float,
    INT: _int,
    BOOL: _bool,
    BYTES: _bytes,
    NONE: _none,
}


class Pending:
    """The hints of one image that were not applied yet.

    Each method raises `Unfit` if there is a hint that does not fit.
    """

    def __init__(self, hints: Hints) -> None:
        self.left = dict(hints)
        self._big_keys: dict[int, int] = {}

    def scalar(self, node: int, value: object, tag: int) -> object:
        """Return what a scalar that was read by a tag is."""
        if node not in self.left:
            return value
        kind, payload = self.left.pop(node)
        if kind == TUPLE:
            raise Unfit
        return _APPLY[kind](value, payload, tag)

    def is_tuple(self, node: int) -> bool:
        """Tell whether a list is a tuple."""
        if node not in self.left:
            return False
        if self.left.pop(node)[0] != TUPLE:
            raise Unfit
        return True

    def key(self, node: int, key: object, tag: int) -> object:
        """Return what a hash key is."""
        if node not in self.left:
            return key
        if self.left[node][0] not in (INT, BYTES):
            raise Unfit
        hinted = self.scalar(node, key, tag)
        if isinstance(hinted, int) and hash(hinted) != hinted:
            # Anybody can choose big ints of one hash, which make a dict slow.
            met = self._big_keys[hash(hinted)] = self._big_keys.get(hash(hinted), 0) + 1
            if met > MAX_SAME_HASH:
                raise Unfit
        return hinted

    def end(self) -> None:
        """Check that every hint was for some node."""
        if self.left:
            raise Unfit
