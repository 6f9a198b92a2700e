"""The Lua scripts, one operation a file, read once at import.

The header of each file lists its KEYS, its ARGV and what it returns.
"""

from __future__ import annotations

import hashlib
from importlib import resources

import attrs


@attrs.frozen(slots=True)
class Body:
    """The text of a script and the name by which Redis caches it (SHA-1, hex)."""

    text: bytes
    sha: bytes


def _read() -> dict[str, Body]:
    bodies = {}
    for file in resources.files(__name__).iterdir():
        if file.name.endswith(".lua"):
            text = file.read_bytes()
            bodies[file.name[:-4]] = Body(text, hashlib.sha1(text).hexdigest().encode())
    return bodies


SCRIPTS: dict[str, Body] = _read()
