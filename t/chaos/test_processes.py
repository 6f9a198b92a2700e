"""Real processes that are killed, frozen and cut off: every job is completed, and once."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
import redis
from sizes import Size
from support.proxy import Proxy
from support.server import Server, eventually, gone

from chaos.fleet import LOST, QUEUE, Fleet, add_work, completed, judge, nothing_is_left
from redis_jobqueue import JobQueue, NetworkError, RedisError

pytestmark = pytest.mark.timeout(300)

KILLING = 0.2
"""Seconds between two kills."""
Record = Callable[[str, object], None]
"""Notes a figure in the report of the run (``--junitxml``)."""
PATIENCE = 150.0
"""Seconds that a fleet may take."""


@pytest.fixture
def fleet(own_server: Server) -> Iterator[Fleet]:
    """Return a fleet without workers yet."""
    with Fleet(own_server) as fleet:
        yield fleet


@pytest.fixture
def jq(own_server: Server) -> Iterator[JobQueue]:
    """Return a queue on the server of the fleet."""
    with JobQueue(own_server.url) as queue:
        yield queue


@pytest.fixture
def raw(own_server: Server) -> Iterator[redis.Redis]:
    """Return a plain client on it."""
    with own_server.client() as client:
        yield client


class Trouble(threading.Thread):
    """Makes trouble again and again, every so many seconds."""

    def __init__(self, make: Callable[[], object], seconds: float) -> None:
        super().__init__(daemon=True)
        self.times = 0
        self._make, self._seconds = make, seconds
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Make trouble."""
        try:
            while not self._over.wait(self._seconds):
                self._make()
                self.times += 1
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Trouble:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self.join()
        if self._error is not None:
            raise self._error


def wait_for(jq: JobQueue, count: float) -> None:
    """Wait until the server has counted so many completions."""

    def done() -> bool:
        try:
            return completed(jq) >= count
        except (NetworkError, RedisError):
            return False  # our connection was meant, too, or the server is just starting

    eventually(done, f"{count} jobs done", PATIENCE)


def test_killed(
    fleet: Fleet, jq: JobQueue, raw: redis.Redis, size: Size, record_property: Record
) -> None:
    """A random worker is killed every 200 ms, at whatever it does."""
    fleet.start_all(size.chaos_workers, raw)
    jobs = add_work(jq, size.chaos_jobs)
    with Trouble(fleet.kill_one, KILLING) as trouble:
        wait_for(jq, len(jobs) * 0.8)
    assert trouble.times > 0
    wait_for(jq, len(jobs))
    record_property("duplicates", judge(jq, raw, jobs))
    fleet.stop()
    nothing_is_left(jq, raw)


def test_frozen(
    fleet: Fleet, jq: JobQueue, raw: redis.Redis, size: Size, record_property: Record
) -> None:
    """A worker that stands still for longer than its lifetime is refused when it goes on."""
    fleet.start_all(size.chaos_workers, raw, lifetime=1.0, interval=0.2)
    jobs = add_work(jq, size.chaos_jobs)
    wait_for(jq, 1)
    held: list[bytes] = []
    while not held:
        frozen = fleet.freeze(fleet.pids[::2])
        raw.ping()  # what they had sent is executed by now
        held = [
            entry
            for pid in frozen
            for key in raw.keys(f"JobQueue:processing:{QUEUE}:*-{pid}-*")
            for entry in raw.lrange(key, 0, -1)
        ]
        if not held:
            fleet.signal(signal.SIGCONT)
            assert completed(jq) < len(jobs)
    wait_for(jq, len(jobs))
    fleet.signal(signal.SIGCONT)
    eventually(lambda: raw.scard(LOST) >= len(held), "they are refused", PATIENCE)
    duplicates = judge(jq, raw, jobs)
    record_property("duplicates", duplicates)
    assert duplicates >= len(held)
    fleet.stop()
    nothing_is_left(jq, raw)


def test_server_killed(
    make_server: Callable[..., Server], server_version: str, size: Size, record_property: Record
) -> None:
    """The server is killed and comes back with its append-only file: no worker ends."""
    server = make_server(server_version, appendonly="yes", appendfsync="always")
    with Fleet(server) as fleet, JobQueue(server.url) as jq, server.client() as raw:
        pids = fleet.start_all(size.chaos_workers, raw)
        jobs = add_work(jq, size.chaos_jobs)
        for part in (0.2, 0.6):
            wait_for(jq, len(jobs) * part)
            server.kill()
            server.start()
        wait_for(jq, len(jobs))
        record_property("duplicates", judge(jq, raw, jobs))
        assert not any(map(gone, pids)), "a worker ended"
        fleet.stop()
        nothing_is_left(jq, raw)


def test_network(
    own_server: Server, fleet: Fleet, jq: JobQueue, raw: redis.Redis, size: Size,
    record_property: Record,
) -> None:  # fmt: skip
    """Connections are killed, cut, delayed, half-closed and silenced while workers work."""
    with Proxy(own_server) as proxy:
        fleet.start_all(size.chaos_workers // 2, raw, lifetime=4.0)
        fleet.start_all(size.chaos_workers, raw, url=proxy.url, lifetime=4.0)
        jobs = add_work(jq, size.chaos_jobs)
        kill = ("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        delays = itertools.cycle((20, 0, 5))
        faults = itertools.cycle(
            [
                proxy.cut,
                lambda: raw.execute_command(*kill),
                proxy.half_close,
                lambda: proxy.lose_reply(b"EVALSHA"),
                lambda: setattr(proxy, "delay_ms", next(delays)),
                lambda: proxy.cut_before(b"EVALSHA"),
                proxy.silence,
            ]
        )
        with Trouble(lambda: next(faults)(), 0.1) as trouble:
            wait_for(jq, len(jobs) * 0.8)
        assert trouble.times > 0
        proxy.heal()
        wait_for(jq, len(jobs))
        record_property("duplicates", judge(jq, raw, jobs))
        fleet.stop()
    nothing_is_left(jq, raw)
