"""Hash keys: what each becomes in Perl, and whether two become one there.

Strategy: a key is octets and flags.  Perl knows a key by its characters: text
that fits latin-1 and the octets of the same numbers are one key.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from . import hints as hint
from . import opcodes as op
from .types import PerlText, text

Key = tuple[int, bytes, hint.Hint | None]  # flags, octets, what Python knows more


class BadKey(Exception):
    """A key that no Perl hash can have; the message says why."""


def hash_key(key: Any) -> Key:
    """Return what a key is written as.

    Raises:
        BadKey: it is not ``str``, ``bytes`` or ``int``.
    """
    if isinstance(key, PerlText):
        key = text(key)
        if isinstance(key, PerlText):
            return op.KEY_UTF8, bytes(key), None
    if not isinstance(key, Enum):
        if isinstance(key, str):
            return _text_key(str.__str__(key))
        if isinstance(key, bytes):
            return 0, bytes(key), (hint.BYTES, b"") if key.isascii() else None
        if isinstance(key, int) and not isinstance(key, bool):
            try:
                return 0, str(int(key)).encode("ascii"), (hint.INT, b"")
            except ValueError as error:
                raise BadKey("an int key has too many digits") from error
    raise BadKey(f"a key must be str, bytes or int, not the type {type(key).__name__}")


def _text_key(key: str) -> Key:
    if key.isascii():
        return 0, key.encode("ascii"), None
    try:
        return op.KEY_WAS_UTF8, key.encode("latin-1"), None
    except UnicodeEncodeError:
        pass
    try:
        return op.KEY_UTF8, key.encode("utf-8"), None
    except UnicodeEncodeError as error:
        code = ord(key[error.start])
        raise BadKey(f"a key with the lone surrogate U+{code:04X} is no text") from error


def hash_keys(keys: list[Any]) -> list[Key]:
    """Return what the keys of one hash are written as.

    Raises:
        BadKey: a key is of the wrong type, or two are one in Perl.
    """
    written = [hash_key(key) for key in keys]
    met: dict[tuple[int, bytes], Any] = {}
    for key, (flags, raw, _) in zip(keys, written):
        identity = flags & op.KEY_UTF8, raw
        if identity in met:
            raise BadKey(f"the keys {met[identity]!r:.50} and {key!r:.50} are one key in Perl")
        met[identity] = key
    return written
