"""The recordings under `t/data`, and two more where the checkout has them beside it."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent.parent
DATA = HERE / "data"
BESIDE = HERE.parent.parent / "shared" / "wire"
"""Images from Perl's own test files lie here in some checkouts; they are not ours to copy."""

Row = dict[str, Any]


@cache
def rows(name: str) -> tuple[Row, ...]:
    """Return the rows of a recording, ``storable`` for `t/data/storable.json`."""
    return tuple(json.loads((DATA / f"{name}.json").read_text("utf-8")))


def rows_beside(name: str) -> list[Any]:
    """Return the rows of a recording that is beside the checkout, or one that is skipped."""
    path = BESIDE / f"{name}.json"
    if path.exists():
        return [pytest.param(row, id=row["name"]) for row in json.loads(path.read_text("utf-8"))]
    reason = f"{name}.json is not beside this checkout"
    return [pytest.param({}, id=name, marks=pytest.mark.skip(reason=reason))]


def image_of(row: Row) -> bytes:
    """Return the image of a row."""
    if "b64" in row:
        return b64decode(row["b64"])
    return zlib.decompress(b64decode(row["b64_zlib"]))
