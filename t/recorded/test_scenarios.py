"""Every recorded scenario of a failing server ends as recorded, step by step."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from support.recordings import Row
from support.server import Server

from recorded.rows import LISTED, ROWS, is_contract, made, recorded
from recorded.scenes import by_scenario, call_of, stage_on
from recorded.syntax import Unreadable
from redis_jobqueue import E_REDIS, JobQueue, RedisError

SCENARIOS = {
    scenario: steps
    for scenario, steps in by_scenario(ROWS).items()
    if any(map(is_contract, steps))
}


@pytest.fixture(scope="session")
def _scene(server_version: str) -> Iterator[Server]:
    with Server.make(server_version) as server:
        yield server


@pytest.fixture
def scene(_scene: Server) -> Server:
    """Return a running, empty server that a scenario may kill."""
    if not _scene.running:
        _scene.start()
    _scene.reset()
    return _scene


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, scene: Server) -> None:
    """All steps do as recorded, but for those that are listed, which do not."""
    if scenario == "cluster without slots" and scene.version_name.startswith("valkey"):
        pytest.skip("recorded with Redis; Valkey minds that the keys are of two slots first")
    steps = SCENARIOS[scenario]
    with stage_on(scene) as stage:
        try:
            world = stage.world(steps)
        except Unreadable:
            assert {row["name"] for row in steps} <= LISTED
            return
        done = {row["name"]: made(row, world, call=call_of(row)) for row in steps}
    expected = {row["name"]: recorded(row) for row in steps if _applies(row)}
    assert expected == {name: done[name] for name in expected}
    for row in steps:
        assert row["name"] not in LISTED or recorded(row) != done[row["name"]]


def _applies(row: Row) -> bool:
    return is_contract(row) and row["name"] not in LISTED


def test_refusal_before_a_request() -> None:
    """What a full server says to a new client is told, also when it speaks first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_refuse, args=(listener,))
        thread.start()
        with pytest.raises(RedisError, match="max number of clients reached") as caught:
            JobQueue(f"127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert E_REDIS == caught.value.code


def _refuse(listener: socket.socket) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        client.sendall(b"-ERR max number of clients reached\r\n")
        client.close()
