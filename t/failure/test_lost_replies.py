"""Requests whose answer is lost: never sent again, and the caller can look."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest
import redis
from support.calls import CALLS, READING, WRITING
from support.proxy import Proxy
from support.sentinel import SERVICE, Sentinel
from support.server import Server, eventually
from support.watching import watched

from redis_jobqueue import E_NETWORK, Job, JobQueue, NetworkError

pytestmark = pytest.mark.connections

JOB = {"queue": "q", "expire": 60, "workload": "w"}


@pytest.fixture
def far(proxy: Proxy) -> Iterator[JobQueue]:
    """Return a queue that reaches its server by way of the proxy, which knows its scripts."""
    with JobQueue(proxy.url) as queue:
        job = queue.add_job(JOB | {"queue": "warm"})
        for call in CALLS.values():
            call(queue, job)
        queue.clear()
        yield queue


def lost(jq: JobQueue, call: Callable[[], object]) -> NetworkError:
    """Return the NetworkError of a call whose answer is lost."""
    with pytest.raises(NetworkError) as caught:
        call()
    assert E_NETWORK == caught.value.code == jq.last_errorcode
    return caught.value


def test_add_job(server: Server, proxy: Proxy, far: JobQueue, jq: JobQueue) -> None:
    """The job is there once; the error and the Job have its id; the object works on."""
    job = Job(JOB)
    fault = proxy.lose_reply(b"EVALSHA")
    with watched(server) as seen:
        error = lost(far, lambda: far.add_job(job))
        fault.wait()
        assert far.ping()
    assert ["EVALSHA", "PING"] == seen.names
    assert error.job_id and error.job_id == job.id
    assert [job.id] == jq.get_job_ids(queued=True) == jq.get_job_ids()
    assert "queue" in job.modified_attributes(), "it is not known to be stored"
    found = far.load_job(error.job_id)
    assert found is not None and "w" == found.workload
    assert 1 == far.queue_length("q")


def test_add_job_of_a_mapping(proxy: Proxy, far: JobQueue) -> None:
    """Where the caller has no Job, the error's id is what he can look with."""
    fault = proxy.lose_reply(b"EVALSHA")
    error = lost(far, lambda: far.add_job(JOB))
    fault.wait()
    assert error.job_id is not None and far.load_job(error.job_id) is not None


def test_get_next_job(server: Server, proxy: Proxy, far: JobQueue, jq: JobQueue) -> None:
    """One entry is gone, and only one: at most once, as Perl's; the next call gives the next."""
    jobs = [jq.add_job(JOB) for _ in range(3)]
    for take in (far.get_next_job, far.get_next_job_id):
        before = jq.queue_length("q")
        fault = proxy.lose_reply(b"EVALSHA")
        with watched(server) as seen:
            error = lost(far, lambda: take("q"))
            fault.wait()
        assert ["EVALSHA"] == seen.names
        assert error.job_id is None
        assert before - 1 == jq.queue_length("q")
    last = far.get_next_job("q")
    assert last is not None and jobs[2].id == last.id


def test_update_job(server: Server, proxy: Proxy, far: JobQueue, jq: JobQueue) -> None:
    """It is written once; the changes stay marked, and writing them again does no harm."""
    job = jq.add_job(JOB)
    job.message = "new"
    fault = proxy.lose_reply(b"EVALSHA")
    with watched(server) as seen:
        error = lost(far, lambda: far.update_job(job))
        fault.wait()
    assert ["EVALSHA"] == seen.names
    assert job.id == error.job_id
    assert "new" == jq.get_job_data(job, "message")
    assert ["message", "updated"] == job.modified_attributes()
    assert 2 == far.update_job(job)


def test_delete_job(server: Server, proxy: Proxy, far: JobQueue, jq: JobQueue) -> None:
    """It is deleted once; a second call finds nothing."""
    job = jq.add_job(JOB)
    fault = proxy.lose_reply(b"EVALSHA")
    with watched(server) as seen:
        error = lost(far, lambda: far.delete_job(job))
        fault.wait()
    assert ["EVALSHA"] == seen.names
    assert job.id == error.job_id
    assert [] == jq.get_job_ids(queued=True) == jq.get_job_ids()
    assert not far.delete_job(job)


@pytest.mark.parametrize("name", READING)
def test_reading(server: Server, proxy: Proxy, far: JobQueue, jq: JobQueue, name: str) -> None:
    """Reading is not repeated either, and the next call reads."""
    job = jq.add_job(JOB)
    fault = proxy.lose_reply(b"JobQueue")
    with watched(server) as seen:
        lost(far, lambda: READING[name](far, job))
        fault.wait()
    assert 1 == len(seen.sent)
    READING[name](far, job)


@pytest.mark.parametrize("name", WRITING)
def test_script_unknown(
    server: Server, client: redis.Redis, proxy: Proxy, far: JobQueue, jq: JobQueue, name: str
) -> None:
    """The one repetition, EVAL after NOSCRIPT, is sent once as well."""
    job = jq.add_job(JOB)
    client.script_flush()
    fault = proxy.lose_reply(b"EVAL\r\n")
    with watched(server) as seen:
        lost(far, lambda: WRITING[name](far, job))
        fault.wait()
    assert ["EVALSHA", "EVAL"] == seen.names


@pytest.mark.parametrize("name", CALLS)
def test_cut_before_it_is_read(proxy: Proxy, far: JobQueue, jq: JobQueue, name: str) -> None:
    """A request that never arrives changes nothing, and the next call works."""
    job = jq.add_job(JOB)
    fault = proxy.cut_before(b"JobQueue")
    lost(far, lambda: CALLS[name](far, job))
    fault.wait()
    assert (1, "") == (jq.queue_length("q"), jq.get_job_data(job, "message"))
    CALLS[name](far, job)


@pytest.mark.parametrize("name", WRITING)
def test_executed_late(proxy: Proxy, far: JobQueue, jq: JobQueue, name: str) -> None:
    """A call that gave up may still be executed: once, and its reply answers no other call."""
    job = jq.add_job(JOB)
    far.operation_timeout = 0.2
    fault = proxy.hold(b"EVALSHA")
    error = lost(far, lambda: WRITING[name](far, job))
    assert "no answer within the timeout" in str(error)
    far.operation_timeout = 20
    assert 1 == far.queue_length("q")
    other = far.add_job(JOB | {"queue": "other", "workload": "other"})
    fault.release()
    assert "other" == far.get_job_data(other, "workload")
    done: dict[str, Callable[[], bool]] = {
        "add_job": lambda: jq.queue_length("q") == 2 and error.job_id in jq.get_job_ids(),
        "update_job": lambda: jq.get_job_data(job, "message") == "x",
        "delete_job": lambda: jq.load_job(job) is None,
    }
    eventually(done.get(name, lambda: jq.queue_length("q") == 0), "the late request")


def test_half_closed(proxy: Proxy, far: JobQueue, jq: JobQueue) -> None:
    """End-of-file instead of an answer is E_NETWORK; nothing is sent into it."""
    proxy.half_close()
    lost(far, lambda: far.add_job(JOB))
    assert 0 == jq.queue_length("q")
    far.add_job(JOB)
    assert 1 == far.queue_length("q")


def test_killed_in_mid_call(client: redis.Redis, server: Server, jq: JobQueue) -> None:
    """A client that is killed while the server holds its request back: all or nothing."""
    job = jq.add_job(JOB)
    for name in WRITING:
        if name.startswith("get_next"):
            continue
        client.client_pause(60_000, all=False)
        try:
            found: list[NetworkError] = []
            caller = threading.Thread(
                target=lambda: found.append(lost(jq, lambda: WRITING[name](jq, job)))
            )
            caller.start()
            mine = eventually(lambda: held(client), f"{name} to be held back")
            client.client_kill_filter(_id=mine)
            caller.join(20)
        finally:
            client.client_unpause()
        assert 1 == len(found) and found[0].job_id
        whole = jq.load_job(found[0].job_id)
        queued = found[0].job_id in jq.get_job_ids(queued=True)
        assert queued == (whole is not None)
        assert whole is None or "w" == whole.workload


def held(client: redis.Redis) -> str | None:
    """Return the id of the client whose script is being held back."""
    for each in client.client_list():
        if each["cmd"] in ("evalsha", "eval") and "b" in each["flags"]:
            return str(each["id"])
    return None


class Interrupted(BaseException):
    """What a signal raises here, as Ctrl-C raises KeyboardInterrupt."""


def strike() -> None:
    """Send the signal to the thread that waits in a read; another one would not wake it."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


@pytest.fixture
def interrupting() -> Iterator[None]:
    """Let SIGUSR1 raise `Interrupted`."""

    def interrupt(*signal: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interrupting")
@pytest.mark.parametrize("name", CALLS)
def test_interrupted(proxy: Proxy, far: JobQueue, jq: JobQueue, name: str) -> None:
    """A call that is interrupted leaves no reply behind for the next one, and no error."""
    job = jq.add_job(JOB | {"workload": "mine"})
    fault = proxy.hold(b"JobQueue")

    def interrupt() -> None:
        fault.wait()
        strike()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(Interrupted):
        CALLS[name](far, job)
    other.join(20)
    fault.release()
    data = far.get_job_data(far.add_job(JOB | {"workload": "other"}), "workload", "status")
    assert ["other", "__created__"] == data
    assert 0 == far.last_errorcode


@pytest.mark.usefixtures("interrupting")
def test_interrupted_by_way_of_sentinel(server: Server, proxy: Proxy) -> None:
    """The same where redis-py leaves an interrupted connection as it is."""
    with Sentinel.make(server.version_name, master=server, master_port=proxy.port) as sentinel:
        assert isinstance(sentinel, Sentinel)
        far = JobQueue(
            {"sentinels": [sentinel.name], "service": SERVICE, "cnx_timeout": 5, "read_timeout": 20}
        )
        far.add_job(JOB)
        fault = proxy.hold(b"LLEN")

        def interrupt() -> None:
            fault.wait()
            strike()

        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(Interrupted):
            far.queue_length("q")
        other.join(20)
        releasing = threading.Timer(0.3, fault.release)
        releasing.start()
        assert ["w"] == [far.get_job_data(far.get_job_ids()[0], "workload")]
        releasing.join()


@pytest.mark.usefixtures("interrupting")
def test_interrupted_wait(client: redis.Redis, jq: JobQueue) -> None:
    """A wait without end can be interrupted, and what it would have taken stays."""

    def interrupt() -> None:
        eventually(lambda: client.info("clients")["blocked_clients"] == 1, "the blocking wait")
        strike()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(Interrupted):
        jq.get_next_job("q", blocking=True)
    other.join(20)
    eventually(lambda: client.info("clients")["blocked_clients"] == 0, "the wait to be given up")
    added = jq.add_job(JOB)
    taken = jq.get_next_job("q", blocking=True)
    assert taken is not None and added.id == taken.id
