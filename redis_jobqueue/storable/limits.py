"""The limits of the codec: every one a named constant, with the reason beside it."""

from __future__ import annotations

MAX_DEPTH = 10_000
"""Levels that `thaw` follows: one for each list, hash or reference on the way down.

Ours.  Perl has none and crashes on some ten thousands.
"""

MAX_FREEZE_DEPTH = 512
"""The deepest level at which a list or a reference may stand when freezing.

Perl's: its own nfreeze refuses level 513.
"""

MAX_FREEZE_HASH_DEPTH = 256
"""The deepest level at which a dict may stand when freezing, lists around it counted.

Perl's: its own nfreeze refuses a hash at level 257.
"""

MAX_LENGTH = 2**31 - 1
"""Bytes in one string or key, items in one list or hash.

Perl's: a longer one needs a tag that no released Perl writes below 2 GB.
"""

MAX_INT_DIGITS = 4_300
"""Decimal digits of one int.

Ours, and Python's own default: turning more digits into an int takes quadratic time.
"""

MAX_SAME_HASH = 100
"""Int keys of more than 60 bits that may have one hash.

Ours: an image with more of them is made to be slow, and reads without its hints.
"""
