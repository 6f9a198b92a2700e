"""Perl's Storable in Python: `freeze`, `nfreeze`, `thaw`, and the values that only Perl has.

Strategy: an image is data and stays data.  Reading never imports, calls or
evaluates anything, and never allocates on the word of the image; writing gives
byte for byte what Perl writes.  `opcodes` is the table of tags that both sides
share, `reader` and `writer` mirror each other, `fast` knows the everyday shapes.
"""

from __future__ import annotations

from ..errors import StorableError
from .codec import STRINGS, freeze, is_reference, is_storable, nfreeze, thaw
from .limits import (
    MAX_DEPTH,
    MAX_FREEZE_DEPTH,
    MAX_FREEZE_HASH_DEPTH,
    MAX_INT_DIGITS,
    MAX_LENGTH,
)
from .types import (
    Blessed,
    Code,
    Hook,
    PerlHash,
    PerlList,
    PerlText,
    Regexp,
    ScalarRef,
    Tied,
    VString,
    WeakRef,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_FREEZE_DEPTH",
    "MAX_FREEZE_HASH_DEPTH",
    "MAX_INT_DIGITS",
    "MAX_LENGTH",
    "STRINGS",
    "Blessed",
    "Code",
    "Hook",
    "PerlHash",
    "PerlList",
    "PerlText",
    "Regexp",
    "ScalarRef",
    "StorableError",
    "Tied",
    "VString",
    "WeakRef",
    "freeze",
    "is_reference",
    "is_storable",
    "nfreeze",
    "thaw",
]
