"""Fixtures of the codec's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.storable_peer import StorablePeer


@pytest.fixture(scope="session")
def perl() -> Iterator[StorablePeer]:
    """Return Perl's core Storable; without perl, skip here and fail in CI."""
    with StorablePeer() as peer:
        yield peer
