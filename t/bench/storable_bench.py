"""How fast the codec is, as ratios: `python t/bench/storable_bench.py`.

Each ratio is the median of five runs that take turns, so that a machine that is
busy with other things is busy for both sides alike.  The peer is PyPI's package
`storable` (``pip install storable``); without it only our own ratio is printed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from timeit import timeit

from redis_jobqueue.storable import nfreeze, thaw

PAYLOADS = Path(__file__).parent.parent / "data" / "payloads.json"
RUNS = 5
LIMIT_THAW = 0.35
"""Our thaw takes at most this part of the peer's time, ..."""
MEASURED = "hash1k"
"""... of this payload, which is like most jobs."""
LIMIT_FREEZE = 1.0
"""Our freeze takes at most this part of our thaw's time."""


def ratio(ours: Callable[[], object], theirs: Callable[[], object], number: int) -> float:
    """Return the time of one as a part of the time of the other."""
    ratios = []
    for _ in range(RUNS):
        mine = timeit(ours, timer=process_time, number=number)
        ratios.append(mine / timeit(theirs, timer=process_time, number=number))
    return median(ratios)


def main() -> None:
    """Print one line for each ratio."""
    payloads = json.loads(PAYLOADS.read_text("utf-8"))
    try:
        from storable import thaw as peer
    except ImportError:
        peer = None
    for name, row in payloads.items():
        image = base64.b64decode(row["b64"])
        value = thaw(image)
        number = max(2, 3_000_000 // len(image))
        if peer is not None:
            found = ratio(lambda: thaw(image), lambda: peer(image), number)
            limit = f" (limit {LIMIT_THAW})" if name == MEASURED else ""
            print(f"{name}: thaw / thaw of PyPI's storable {found:.2f}{limit}")
        found = ratio(lambda: nfreeze(value), lambda: thaw(image), number)
        print(f"{name}: freeze / thaw {found:.2f} (limit {LIMIT_FREEZE})")


if __name__ == "__main__":
    main()
