"""Waiting until a job has ended: by looking at first, then by being told of its changes."""

from __future__ import annotations

import time

from redis_jobqueue.connection import Driver, drive
from redis_jobqueue.errors import JobQueueError, NetworkError
from redis_jobqueue.keys import Keys
from redis_jobqueue.operations.overview import status_of
from redis_jobqueue.waiting import Tracking

FIRST, GROWTH, LONGEST = 0.005, 1.5, 0.5
"""Seconds between two looks: at first, the factor by which they grow, at most."""
LOOKS = 8
"""Looks before connections of its own are worth their price: about a quarter of a second."""

_ENDED = (None, b"__completed__", b"__failed__")


def wait_for_end(driver: Driver, keys: Keys, job_id: bytes, seconds: float) -> None:
    """Return when a job is completed, failed or gone, or after so many seconds; 0: no limit.

    Raises:
        NetworkError: the server cannot be reached.
    """
    ends = time.monotonic() + seconds if seconds else float("inf")
    told: Tracking | None = None
    looks, pause = 0, FIRST
    try:
        while True:
            try:
                status = drive(status_of(job_id, keys), (told or driver).send)
                left = ends - time.monotonic()
                if status in _ENDED or left <= 0:
                    return
                if told is not None:
                    told.wait(left)
                    continue
            except NetworkError:
                if told is None:
                    raise
                told.close()
                told, looks, pause = None, 0, FIRST
                continue
            looks += 1
            if looks == LOOKS:
                told = _tracking(driver, keys, job_id)
            else:
                time.sleep(min(pause, left))
                pause = min(pause * GROWTH, LONGEST)
    finally:
        if told is not None:
            told.close()


def _tracking(driver: Driver, keys: Keys, job_id: bytes) -> Tracking | None:
    try:
        return Tracking(driver, keys, [keys.job(job_id)])
    except JobQueueError:
        return None  # refused, or the next look tells that the server is gone
