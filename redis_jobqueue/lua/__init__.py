"""The Lua scripts, one operation a file, read once at import.

The header of each file lists its KEYS, its ARGV and what it returns.  A line
``-- include: NAME`` stands for the file ``_NAME.lua``, which holds functions
that several operations share.
"""

from __future__ import annotations

import hashlib
import re
from importlib import resources

import attrs


@attrs.frozen(slots=True)
class Body:
    """The text of a script and the name by which Redis caches it (SHA-1, hex)."""

    text: bytes
    sha: bytes


def _read() -> dict[str, Body]:
    files = {
        file.name[:-4]: file.read_text("utf-8")
        for file in resources.files(__name__).iterdir()
        if file.name.endswith(".lua")
    }
    bodies = {}
    for name, text in files.items():
        if not name.startswith("_"):
            # Comments and indents are for people; Redis is sent neither.
            whole = re.sub(r"(?m)^-- include: (\w+)$", lambda at: files["_" + at[1]], text)
            lean = re.sub(r"(?m)^\s*(--.*)?\n|^\s+", "", whole).encode()
            bodies[name] = Body(lean, hashlib.sha1(lean).hexdigest().encode())
    return bodies


SCRIPTS: dict[str, Body] = _read()
