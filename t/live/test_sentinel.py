"""A server that Sentinel finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from redis.sentinel import Sentinel as Manager
from support.sentinel import SERVICE, Sentinel
from support.server import Server, free_port

from redis_jobqueue import JobQueue, NetworkError

pytestmark = pytest.mark.connections


@pytest.fixture(scope="module")
def sentinel(_shared_server: Server) -> Iterator[Sentinel]:
    """Return a sentinel that watches the server of this version."""
    with Sentinel.make(_shared_server.version_name, master=_shared_server) as sentinel:
        assert isinstance(sentinel, Sentinel)
        yield sentinel


def test_sentinels_of_a_dict(server: Server, sentinel: Sentinel) -> None:
    """The service's master is used; a dead sentinel in the list is passed over."""
    dead = f"127.0.0.1:{free_port()}"
    with JobQueue({"sentinels": [dead, sentinel.name], "service": SERVICE}) as queue:
        queue.add_job({"queue": "q", "expire": 60})
        assert (f"{SERVICE} of {dead}, {sentinel.name}", None, None) == (
            queue.server, queue.host, queue.port
        )  # fmt: skip
        assert SERVICE in repr(queue)
    with JobQueue(server.url) as queue:
        assert 1 == queue.queue_length("q")


def test_client_of_sentinel(server: Server, sentinel: Sentinel) -> None:
    """A ready client that goes by way of Sentinel lends that way, and stays open."""
    manager = Manager([("127.0.0.1", sentinel.port)], socket_timeout=5)
    client = manager.master_for(SERVICE, decode_responses=True, health_check_interval=1)
    with JobQueue(client) as queue:
        added = queue.add_job({"queue": "q", "expire": 60})
        assert queue.get_job_ids() == [added.id]
    assert client.exists(f"JobQueue:{added.id}")
    client.close()


def test_nobody_knows_the_service(sentinel: Sentinel, make_server: Callable[..., Server]) -> None:
    """A service that no sentinel knows, or sentinels that are all away, are E_NETWORK at once."""
    asked = {"sentinels": [sentinel.name], "service": "another", "reconnect": 0}
    with pytest.raises(NetworkError, match=f"another of {sentinel.name}: no sentinel"):
        JobQueue(asked)
    dead = f"127.0.0.1:{free_port()}"
    with pytest.raises(NetworkError, match=f"{SERVICE} of {dead}: no sentinel"):
        JobQueue({"sentinels": [dead], "service": SERVICE, "reconnect": 0})
