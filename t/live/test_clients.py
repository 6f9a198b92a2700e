"""Ready clients and other queues as the constructor's argument: what is shared, and what is not."""

from __future__ import annotations

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from support.server import Server, eventually
from support.watching import counted, watched

from redis_jobqueue import JobQueue

pytestmark = pytest.mark.connections

WORK = {"queue": "q", "expire": 60, "workload": b"\xff\x00"}


def works(queue: JobQueue) -> bool:
    """Tell whether a job goes in and comes out."""
    added = queue.add_job(WORK)
    taken = queue.get_next_job("q")
    return taken is not None and taken.id == added.id and taken.workload == b"\xff\x00"


def clients(server: Server) -> list[redis.Redis]:
    """Return clients with settings that would break a queue that used them."""
    many = Retry(ConstantBackoff(0.01), 10)
    return [
        redis.Redis(port=server.port, decode_responses=True, encoding="latin-1"),
        redis.Redis(port=server.port, retry=many, retry_on_timeout=True),
        redis.Redis(port=server.port, retry_on_error=[redis.ConnectionError]),
        redis.Redis(port=server.port, protocol=3),
        redis.Redis(port=server.port, protocol=3, decode_responses=True),
        redis.Redis(port=server.port, socket_timeout=0.05, health_check_interval=1),
        redis.Redis(port=server.port, single_connection_client=True),
        redis.Redis(
            connection_pool=redis.BlockingConnectionPool(
                max_connections=1, timeout=0, port=server.port, decode_responses=True
            )
        ),
    ]


@pytest.mark.filterwarnings("ignore:.*retry_on_timeout")
@pytest.mark.parametrize("which", range(8))
def test_ready_client(server: Server, which: int) -> None:
    """No setting of a ready client breaks the queue, and it stays open and as it was."""
    client = clients(server)[which]
    before = dict(client.connection_pool.connection_kwargs)
    client.set("key", "value")
    with JobQueue(client) as queue:
        assert client is queue.redis
        assert works(queue)
        assert {"length": 0, "all_jobs": 1} == queue.queue_status("q")
        queue.timeout = 0.2
        assert queue.get_next_job("q", blocking=True) is None
    value = client.get("key")
    assert value in ("value", b"value")
    assert before == client.connection_pool.connection_kwargs
    assert works(queue), "a queue works again after quit"
    queue.quit()
    client.close()
    client.connection_pool.disconnect()


def test_no_client_of_ours_speaks_resp3(server: Server) -> None:
    """Ordinary connections ask for RESP2, whatever redis-py's default and the client's is."""
    with JobQueue(redis.Redis(port=server.port, protocol=3)) as queue:
        assert works(queue)
        with queue.redis.client() as theirs:
            listed = theirs.client_list()
    if server.version >= (7, 0):
        assert "2" in {each["resp"] for each in listed}
    with watched(server) as seen, JobQueue(server.url) as queue:
        assert works(queue)
    assert "HELLO" not in seen.names


def opened(client: redis.Redis) -> int:
    """Return how many connections the server has accepted so far."""
    return int(client.info("stats")["total_connections_received"])


def test_copy_shares_and_closes_nothing(server: Server) -> None:
    """A queue made from another uses its connections and takes over its settings."""
    with server.client() as client, JobQueue(server.url, strings="bytes") as first:
        assert works(first)
        before = opened(client)
        with JobQueue(first) as copy:
            assert works(copy)
            assert ("bytes", "JobQueue") == (copy._strings, copy.namespace)
        assert works(first)
        assert before == opened(client), "the copy neither opened nor closed a connection"
        other = JobQueue(first, namespace="Other", timeout=3)
        assert (3, 0) == (other.timeout, first.timeout)
        other.add_job(WORK)
        assert (1, 0) == (other.queue_length("q"), first.queue_length("q"))


def test_copy_sets_what_it_is_given(server: Server) -> None:
    """Settings of the connection belong to both, and are left alone where none is given."""
    with JobQueue(server.url, reconnect_on_error=False, operation_timeout=2) as first:
        JobQueue(first)
        assert (False, 2) == (first.reconnect_on_error, first.operation_timeout)
        JobQueue(first, reconnect_on_error=True, operation_timeout=3)
        assert (True, 3) == (first.reconnect_on_error, first.operation_timeout)


def test_quit_closes_and_a_later_call_connects(server: Server) -> None:
    """After ``quit`` the server sees no connection of the queue; the next call makes one."""
    with server.client() as client:
        alone = eventually(lambda: len(client.client_list()) == 1, "the end of other tests")
        queue = JobQueue(server.url)
        assert works(queue)
        assert alone + 1 == len(client.client_list())
        queue.quit()
        eventually(lambda: alone == len(client.client_list()), "the end of the connection")
        assert works(queue)
        queue.close()
        eventually(lambda: alone == len(client.client_list()), "the end of the connection")


def test_connecting_sends_nothing_needless(server: Server) -> None:
    """The constructor asks for maxmemory and nothing else, and without that nothing at all."""
    with counted(server) as counts, JobQueue(server.url):
        pass
    assert {"config": 1} == counts
    with counted(server) as counts, JobQueue(server.url, check_maxmemory=False) as queue:
        assert queue.ping()
    assert {"ping": 1} == counts
