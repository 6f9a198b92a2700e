"""The master moves: Sentinel's word is followed, and a pop is never made twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import redis
from redis.sentinel import Sentinel as Manager
from support.sentinel import SERVICE, Sentinel
from support.server import Server, eventually

from redis_jobqueue import Job, JobQueue, JobQueueError, NetworkError, RedisError

pytestmark = pytest.mark.connections

JOB = {"expire": 600}


def replicate(master: Server, replica: Server) -> None:
    """Make one server a replica of the other, and wait until it has all."""
    with replica.client() as client:
        client.replicaof("127.0.0.1", str(master.port))
        eventually(lambda: client.info("replication")["master_link_status"] == "up", "the link")


class Consumer:
    """A thread that takes one job, whatever errors it meets."""

    def __init__(self, sentinel: Sentinel, queue: str, blocking: bool) -> None:
        self.jq = JobQueue(
            {"sentinels": [sentinel.name], "service": SERVICE, "cnx_timeout": 5,
             "read_timeout": 20, "sentinels_cnx_timeout": 5, "sentinels_read_timeout": 20}
        )  # fmt: skip
        self.taken: list[Job] = []
        self.errors: list[JobQueueError] = []
        self.queue, self.blocking = queue, blocking
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while not self.taken:
            try:
                if job := self.jq.get_next_job(self.queue, blocking=self.blocking):
                    self.taken.append(job)
            except JobQueueError as error:
                self.errors.append(error)
            if not self.blocking:
                time.sleep(0.01)


def test_planned_move(make_server: Callable[..., Server]) -> None:
    """Who waits or asks on the old master ends up on the new one; each job comes once.

    Redis's own word for the move is UNBLOCKED or READONLY: one error, code 6,
    and the next call asks Sentinel anew.
    """
    old, new = (make_server(repl_diskless_sync_delay=0) for _ in range(2))
    replicate(old, new)
    with Sentinel.make(old.version_name, master=old) as sentinel:
        assert isinstance(sentinel, Sentinel)
        consumers = [Consumer(sentinel, "waits", True), Consumer(sentinel, "asks", False)]
        kept = consumers[0].jq.add_job(JOB | {"queue": "other"})
        with sentinel.client(decode_responses=True) as asking, new.client() as follower:
            eventually(lambda: follower.llen("JobQueue:queue:other"), "the replica to follow")
            eventually(lambda: asking.sentinel_slaves(SERVICE), "Sentinel to know the replica")
            eventually(lambda: "blpop" in commands(old), "the one who waits")
            eventually(lambda: moves(asking), "Sentinel to begin")
            manager = Manager([("127.0.0.1", sentinel.port)], socket_timeout=20)
            eventually(
                lambda: manager.discover_master(SERVICE)[1] == new.port,
                "Sentinel to say that the master is the other one", 60,
            )  # fmt: skip
            eventually(lambda: "slave" in role(old), "the old master to follow", 60)
        with JobQueue(new.url) as jq, JobQueue(old.url) as left:
            for consumer in consumers:
                added = jq.add_job(JOB | {"queue": consumer.queue})
                consumer.thread.join(60)
                assert [added.id] == [job.id for job in consumer.taken]
                assert 0 == jq.queue_length(consumer.queue)
                eventually(lambda: left.queue_length(consumer.queue) == 0, "the replica to follow")
                assert all(isinstance(e, (RedisError, NetworkError)) for e in consumer.errors)
        assert kept.id == consumers[1].jq.get_next_job_id("other"), "moved with the master"


def role(server: Server) -> str:
    """Return what a server is; it cuts off its clients when that changes."""
    with server.client(decode_responses=True) as client:
        try:
            return str(client.role()[0])
        except redis.ConnectionError:
            return ""


def commands(server: Server) -> list[str]:
    """Return the last command of each client."""
    with server.client(decode_responses=True) as client:
        return [each["cmd"] for each in client.client_list()]


def moves(asking: redis.Redis) -> bool:
    """Ask for a failover; not at once after its start is Sentinel ready for one."""
    try:
        return bool(asking.sentinel_failover(SERVICE))
    except redis.ResponseError as error:
        return "INPROG" in str(error)
