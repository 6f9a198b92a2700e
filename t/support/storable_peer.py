"""Perl's core Storable as a peer of the codec: one Perl process, spoken to over pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("storable_peer.pl")


class PerlDied(Exception):
    """What Perl said when it died."""


class StorablePeer:
    """One Perl process; use it in a `with` statement."""

    def __init__(self) -> None:
        perl = shutil.which("perl")
        if perl is None:
            message = "no perl on this machine"
            pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
        self._process = subprocess.Popen(
            [perl, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> StorablePeer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "died" in answer:
            raise PerlDied(answer["died"])
        return answer

    def describe(self, image: bytes, overloaded: Iterable[str] = ()) -> str:
        """Return all that Perl can tell about what it thaws from an image.

        Two images describe alike if, and only if, Perl reads equal values from
        them: the same strings, classes, sharing, weakness, locks and ties.
        """
        text: str = self._ask(describe=_text(image), overloaded=list(overloaded))["text"]
        return text

    def refreeze(self, image: bytes, overloaded: Iterable[str] = ()) -> tuple[bytes, bytes]:
        """Return Perl's own nfreeze and freeze of what it thaws from an image."""
        answer = self._ask(refreeze=_text(image), overloaded=list(overloaded))
        return b64decode(answer["image"]), b64decode(answer["native"])

    def evaluate(self, expression: str) -> bytes:
        r"""Return Perl's nfreeze(\VALUE) of the value of a Perl expression."""
        return b64decode(self._ask(evaluate=expression)["image"])


def _text(image: bytes) -> str:
    return b64encode(image).decode("ascii")
