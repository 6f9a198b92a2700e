"""How fast the everyday calls are, against a bare loop on the same connection class.

``python t/bench/add_job.py`` starts a server of its own and prints ratios: the
bare loop sends the same script (or command) with ready arguments, takes a
pooled redis-py connection each time, and does nothing else.  A ratio of 1 means
that the call costs no more than that; the goal for `add_job` is 0.5.  Loops are
interleaved and the median of the rounds is taken, so that a busy machine slows
both.  Nothing here decides a test.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import redis

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.server import Server  # noqa: E402

from redis_jobqueue import Job, JobQueue  # noqa: E402
from redis_jobqueue.operations import jobs  # noqa: E402
from redis_jobqueue.operations.request import Command, Script  # noqa: E402
from redis_jobqueue.lua import SCRIPTS  # noqa: E402

GOAL = 0.5
SMALL = {
    "queue": "bench",
    "job": "resize",
    "expire": 600,
    "workload": "thirty bytes of plain payload.",
}

Call = Callable[[], object]


def words_of(request: Any) -> list[bytes | int]:
    """Give what the driver sends for a request."""
    if isinstance(request, Command):
        return list(request.args)
    assert isinstance(request, Script)
    count = b"%d" % len(request.keys)
    return [b"EVALSHA", SCRIPTS[request.name].sha, count, *request.keys, *request.args]


def bare(pool: Any, words: list[bytes | int]) -> Call:
    """Return a call that sends these words over a pooled connection and reads the reply."""
    try:
        pool.release(pool.get_connection())
        names: tuple[str, ...] = ()
    except TypeError:  # redis-py before 5.3 wants the name of a command
        names = ("EVALSHA",)

    def call() -> object:
        connection = pool.get_connection(*names)
        try:
            connection.send_command(*words)
            return connection.read_response(disable_decoding=True)
        finally:
            pool.release(connection)

    return call


def calls(queue: JobQueue, pool: Any, count: int) -> dict[str, tuple[Call, Call]]:
    """Return what is compared: name -> our call, the bare one."""
    keys = queue._keys
    now = time.time()
    stored = queue.add_job(SMALL)
    progress = 0.0

    def update() -> object:
        nonlocal progress
        progress = (progress + 0.001) % 1
        stored.progress = progress
        return queue.update_job(stored)

    add = next(jobs.add_job(Job(SMALL), keys, new_id=lambda: "BARE", now=now, front=False,
                            max_size=1 << 29))  # fmt: skip
    stored.progress = 0.5
    change = next(jobs.update_job(stored, keys, now=now, max_size=1 << 29))
    load = next(jobs.load_job(str(stored.id).encode(), keys, "auto"))
    take = jobs._next_job([keys.queue(b"bench")], keys, now, True, None)
    # The bare loop adds under ever new ids too, so that both do the same work.
    add_words = words_of(add)
    place = add_words.index(keys.job(b"BARE"))
    number = 0
    send_add = bare(pool, add_words)

    def bare_add() -> object:
        nonlocal number
        number += 1
        add_words[place] = keys.job(b"BARE%d" % number)
        add_words[place + 2] = b"BARE%d" % number
        return send_add()

    return {
        "add_job": (lambda: queue.add_job(SMALL), bare_add),
        "update_job": (update, bare(pool, words_of(change))),
        "load_job": (lambda: queue.load_job(stored), bare(pool, words_of(load))),
        "get_next_job": (lambda: queue.get_next_job("bench"), bare(pool, words_of(take))),
    }


def rate(call: Call, count: int) -> float:
    """Return how many calls a second run."""
    begun = time.perf_counter()
    for _ in range(count):
        call()
    return count / (time.perf_counter() - begun)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="calls of each loop a round")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with Server.make() as server, JobQueue(server.url) as queue:
        pool = redis.ConnectionPool.from_url(server.url, protocol=2)
        print(f"redis-py {redis.__version__}, Redis {server.version_name}, "
              f"Python {sys.version.split()[0]}; {options.rounds} rounds of {options.count}")
        for name, (ours, plain) in calls(queue, pool, options.count).items():
            rates: list[tuple[float, float]] = []
            for turn in range(options.rounds + 1):
                if name == "get_next_job":
                    for _ in range(2 * options.count - queue.queue_length("bench")):
                        queue.add_job(SMALL)
                rates.append((rate(ours, options.count), rate(plain, options.count)))
            rates = rates[1:]  # the first round warms up
            ratio = median(one / other for one, other in rates)
            goal = f"  (goal {GOAL})" if name == "add_job" else ""
            print(f"{name:14}{median(one for one, _ in rates):8.0f}/s  bare "
                  f"{median(other for _, other in rates):8.0f}/s  ratio {ratio:.2f}{goal}")
        pool.disconnect()


if __name__ == "__main__":
    main()
