"""What the real module does by accident and Python does right.

Each test names the recorded rows that it answers; the last one counts them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from support.server import Server, eventually

from recorded.rows import ROWS
from redis_jobqueue import (
    STATUS_COMPLETED,
    STATUS_CREATED,
    STATUS_FAILED,
    STATUS_WORKING,
    ArgumentError,
    Job,
    JobQueue,
    NetworkError,
    RedisError,
    StorableError,
)

Test = Callable[..., None]
ANSWERED: set[str] = set()
WRONG = "WRONGTYPE"


def fixes(*names: str) -> Callable[[Test], Test]:
    """Say which rows a test answers."""
    ANSWERED.update(names)
    return lambda test: test


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """Return a client of the server, which is empty."""
    with server.client(decode_responses=True) as found:
        yield found


@pytest.fixture
def jq(server: Server) -> Iterator[JobQueue]:
    """Return a queue on the server."""
    with JobQueue(f"127.0.0.1:{server.port}") as found:
        yield found


def added(jq: JobQueue, **more: Any) -> Job:
    """Add a job to queue q."""
    return jq.add_job({"queue": "q", "expire": 60, **more})


def key(job: Job) -> str:
    """Give the key of a job's hash."""
    return f"JobQueue:{job.id}"


# Settings and connections.


@fixes("timeout of a fraction")
def test_timeout_of_a_fraction(jq: JobQueue) -> None:
    """A blocking call waits a fraction of a second if told so."""
    jq.timeout = 0.05
    assert 0.05 == jq.timeout
    assert jq.get_next_job(queue="none", blocking=True) is None


@fixes("quit of a queue made from a server string")
def test_quit_closes_what_the_queue_opened(jq: JobQueue, client: redis.Redis) -> None:
    """After `quit` the server has none of its connections; a later call connects again."""
    assert 2 == len(client.client_list())
    jq.quit()
    eventually(lambda: 1 == len(client.client_list()), "the server sees the farewell")
    assert jq.ping()


@fixes(
    "blocking get_next_job longer than operation_timeout, step 1",
    "blocking get_next_job longer than operation_timeout, step 2",
    "blocking get_next_job longer than operation_timeout, with reconnect, step 1",
    "blocking get_next_job longer than operation_timeout, with reconnect, step 2",
)
@pytest.mark.parametrize("options", [{"reconnect": 0}, {}])
def test_blocking_outlives_operation_timeout(server: Server, options: dict[str, Any]) -> None:
    """A wait that is longer than `operation_timeout` ends with None, not with an error."""
    where = {"server": f"127.0.0.1:{server.port}", **options}
    with JobQueue(where, operation_timeout=0.05, timeout=0.3) as jq:
        assert jq.get_next_job(queue="none", blocking=True) is None
        assert 0 == jq.queue_length("none")


@fixes("CONFIG and INFO not permitted, step 1", "CONFIG and INFO not permitted, step 2")
def test_without_config_and_info(server: Server, client: redis.Redis) -> None:
    """A user without CONFIG is told what to do about it; INFO is never asked for."""
    rules = ["on", ">pw", "~*", "+@all", "-config", "-info"]
    client.execute_command("ACL", "SETUSER", "worker", *rules)
    where = {"server": f"127.0.0.1:{server.port}", "username": "worker", "password": "pw"}
    with pytest.raises(RedisError, match="check_maxmemory=False"):
        JobQueue(where)
    with JobQueue(where, check_maxmemory=False) as jq:
        assert "q" == added(jq).queue


def test_path_of_a_socket(server: Server) -> None:
    """The path of a socket is one, and gets no port."""
    with JobQueue(server.socket_path) as jq:
        assert jq.ping()
        assert server.socket_path == jq.server


def test_ping_of_a_busy_server(jq: JobQueue, server: Server, client: redis.Redis) -> None:
    """A server that answers BUSY does not answer ping; the connection stays, and works later."""
    client.config_set("lua-time-limit", 1)
    with server.client(socket_timeout=0.01) as other:
        try:
            other.eval("while true do end", 0)
        except redis.TimeoutError:
            pass  # it runs on
    eventually(lambda: not jq.ping() and jq.last_errorcode == 0, "the script counts as slow")
    with pytest.raises(RedisError, match="BUSY"):
        jq.queue_length("q")
    client.script_kill()
    eventually(jq.ping, "the script has ended")
    assert 2 == len(client.client_list())


# Adding and updating.


@fixes("add_job with an ASCII status that carries the text flag")
def test_text_is_judged_by_its_content(jq: JobQueue, client: redis.Redis) -> None:
    """ASCII is stored, whether given as text or as bytes; other text is refused."""
    for status in ("abc", b"abc"):
        assert "abc" == client.hget(key(added(jq, status=status)), "status")
    client.flushall()
    with pytest.raises(ArgumentError, match=r"^Invalid argument \(utf8 in status\)$") as caught:
        added(jq, status="caf\xe9")
    assert 1 == caught.value.code == jq.last_errorcode
    assert [] == client.keys()


@fixes("update_job of a text message")
def test_update_with_text_leaves_the_job_alone(jq: JobQueue, client: redis.Redis) -> None:
    """A change that cannot be written stops the whole update, and the next call works."""
    job = added(jq, status="s")
    job.status, job.message = "t", "\u20ac"
    with pytest.raises(ArgumentError, match=r"utf8 in message"):
        jq.update_job(job)
    assert "s" == client.hget(key(job), "status")
    assert 1 == jq.queue_length("q")
    assert ["message", "status", "updated"] == job.modified_attributes()


@fixes("add_job of expire '007'", "add_job of expire 9223372036854775807")
def test_expire_is_checked_before_anything_is_sent(jq: JobQueue, client: redis.Redis) -> None:
    """``"007"`` is 7 seconds; what Redis cannot count is refused, and nothing is stored."""
    job = added(jq, expire="007")
    assert ["7", 7] == [client.hget(key(job), "expire"), client.ttl(key(job))]
    client.flushall()
    for expire in (9223372036854775807, 9999999999999999, None):
        with pytest.raises(ArgumentError, match="expire") as caught:
            added(jq, expire=expire)
        assert 1 == caught.value.code
    assert [] == client.keys()


def test_empty_expire_reads_as_none(jq: JobQueue, client: redis.Redis) -> None:
    """A job that Perl stored with an undefined expire can be taken; it lives for ever."""
    job = added(jq, expire=0)
    client.hset(key(job), "expire", "")
    taken = jq.get_next_job(queue="q")
    assert taken is not None and 0 == taken.expire
    assert -1 == client.ttl(key(job))


@fixes("metadata under the name of a standard field")
def test_constructor_checks_metadata_names(jq: JobQueue, client: redis.Redis) -> None:
    """No metadata can overwrite a standard field or the entry."""
    for name in ("status", "__id_in_queue__", "meta_data"):
        with pytest.raises(ArgumentError, match=name) as caught:
            added(jq, meta_data={name: "smuggled"})
        assert 0 == caught.value.code
    assert [] == client.keys()


@fixes("workload that Storable cannot freeze", "metadata that Storable cannot freeze")
def test_what_cannot_be_frozen(jq: JobQueue, client: redis.Redis) -> None:
    """Data without a Perl form is refused with its path; nothing is stored, the next call works."""
    for given, path in (
        ({"workload": {"f": print}}, "workload['f']"),
        ({"meta_data": {"f": [{1, 2}]}}, "f[0]"),
    ):
        with pytest.raises(StorableError) as caught:
            added(jq, **given)
        assert path in str(caught.value)
        assert 1 == caught.value.code == jq.last_errorcode
    assert [] == client.keys()
    assert 0 == jq.queue_length("q")


@fixes("update_job of a fresh Job under an existing id")
def test_fresh_job_under_an_existing_id(jq: JobQueue, client: redis.Redis) -> None:
    """Its metadata is written, and no field named meta_data; one of Perl's is not read."""
    job = added(jq, meta_data={"foo": 12, "bar": [13]})
    fresh = Job(id=job.id, queue="q", expire=60, meta_data={"k": 1})
    assert 13 == jq.update_job(fresh)
    assert ["bar", "foo", "k"] == sorted(map(str, jq.get_job_meta_fields(job)))
    client.hset(key(job), "meta_data", b"\x05\x0b\x0a\x00")
    assert ["bar", "foo", "k"] == sorted(map(str, jq.get_job_meta_fields(job)))
    loaded = jq.load_job(job)
    assert loaded is not None and {"foo": 12, "bar": [13], "k": 1} == loaded.meta_data


# Reading one job.


@fixes(
    "$jq->get_job_data($job, 'elapsed')",
    "$jq->get_job_data($job, 'elapsed', 'started')",
    "$jq->get_job_data($job, 'started', 'elapsed')",
    "$jq->get_job_data($job, 'elapsed', 'started', 'completed', 'failed')",
    "elapsed of a completed job",
    "elapsed of a failed job",
)
def test_elapsed_gives_as_many_values_as_names(jq: JobQueue) -> None:
    """``elapsed`` is one value, in its place; a fraction for a job that runs."""
    job = added(jq)
    assert jq.get_job_data(job, "elapsed") is None
    assert [None, 0] == jq.get_job_data(job, "elapsed", "started")
    assert [0, None] == jq.get_job_data(job, "started", "elapsed")
    four = jq.get_job_data(job, "elapsed", "started", "completed", "failed")
    assert [None, 0, 0, 0] == four
    job.started = 100
    job.failed = 102
    jq.update_job(job)
    assert 2 == jq.get_job_data(job, "elapsed")
    job.completed = 103.5
    jq.update_job(job)
    assert 3.5 == jq.get_job_data(job, "elapsed")
    job.started, job.completed, job.failed = time.time() - 7.25, 0, 0
    jq.update_job(job)
    assert 7.25 <= jq.get_job_data(job, "elapsed") < 60


@fixes("$jq->get_job_data($job, '__id_in_queue__')")
def test_entry_field_is_plain(jq: JobQueue, client: redis.Redis) -> None:
    """The service field is read as it stands."""
    job = added(jq)
    assert client.lindex("JobQueue:queue:q", 0) == jq.get_job_data(job, "__id_in_queue__")


@fixes("get_job_data of a metadata field named 0")
def test_field_named_0(jq: JobQueue) -> None:
    """0 is a name."""
    job = added(jq, meta_data={"0": "zero"})
    assert "zero" == jq.get_job_data(job, "0") == jq.get_job_data(job, 0)


@fixes("workload field that is not frozen", "get_next_job of a job that cannot be thawed")
def test_damaged_data(jq: JobQueue, client: redis.Redis) -> None:
    """The job is taken all the same: reading its data says what is wrong, the rest works."""
    job = added(jq, message="m", meta_data={"good": 1})
    client.hset(key(job), "workload", "plain text")
    with pytest.raises(StorableError, match="^workload: ") as caught:
        jq.get_job_data(job, "workload")
    assert 6 == caught.value.code == jq.last_errorcode
    taken = jq.get_next_job(queue="q")
    assert taken is not None and ["m", 1] == [taken.message, taken.meta_data["good"]]
    with pytest.raises(StorableError):
        taken.workload
    taken.status = STATUS_FAILED
    assert 3 == jq.update_job(taken)
    assert "plain text" == client.hget(key(job), "workload")
    assert jq.delete_job(taken)


STATUSES = (STATUS_CREATED, STATUS_WORKING, STATUS_COMPLETED, STATUS_FAILED, "own")


@fixes(*(f"times of a loaded job of status {status}" for status in STATUSES))
@pytest.mark.parametrize("status", STATUSES)
def test_loading_keeps_the_times(jq: JobQueue, client: redis.Redis, status: str) -> None:
    """A loaded or taken job has the times that are stored, whatever its status."""
    job = added(jq)
    times = {"created": 5, "updated": 6, "completed": 7, "started": 8, "failed": 9}
    client.hset(key(job), mapping={"status": status, **times})
    for found in (jq.load_job(job), jq.get_next_job(queue="q")):
        assert found is not None
        assert times == {name: getattr(found, name) for name in times}
        assert [] == found.modified_attributes()


# Taking the next.


@fixes(
    "get_next_job of the entry 0",
    "get_next_job_id of the entry 0",
    "get_next_job_id of an empty entry",
)
def test_nobodys_entries_are_skipped(jq: JobQueue, client: redis.Redis) -> None:
    """An empty entry and the entry 0 do not hide what stands behind them."""
    for take in (jq.get_next_job, jq.get_next_job_id):
        client.rpush("JobQueue:queue:q", "", "0")
        job = added(jq)
        taken: Any = take(queue="q")
        assert job.id == getattr(taken, "id", taken)
        client.rpush("JobQueue:queue:q", "0")
        assert take(queue="q") is None


@fixes(
    "get_next_job of an entry whose job key is a string",
    "get_next_job_id of an entry whose job key is a string",
)
def test_error_in_reading_names_the_job(jq: JobQueue, client: redis.Redis) -> None:
    """The entry is gone, as in Perl; the error says whose it was."""
    client.set("JobQueue:s", "x")
    for take in (jq.get_next_job, jq.get_next_job_id):
        client.rpush("JobQueue:queue:q", "s")
        with pytest.raises(RedisError, match=f"^s: {WRONG}") as caught:
            take(queue="q")
        assert 6 == caught.value.code
        assert 0 == jq.queue_length("q")


def test_delete_without_its_fields(jq: JobQueue, client: redis.Redis) -> None:
    """A hash without ``queue`` or the entry is deleted like any job."""
    for field in ("queue", "__id_in_queue__"):
        job = added(jq)
        client.hdel(key(job), field)
        assert jq.delete_job(job)
        assert 0 == client.exists(key(job))


# Surveys.


@fixes("get_job_ids of the status 0", "get_job_ids of bad queue names only")
def test_filters(jq: JobQueue) -> None:
    """A status or queue 0 counts; a bad name is refused and never dropped."""
    job = added(jq, status="0")
    added(jq, status="1")
    assert [job.id] == jq.get_job_ids(status="0") == jq.get_job_ids(status=0)
    for bad in ([[], None, ""], "", [None], {}, print):
        with pytest.raises(ArgumentError) as caught:
            jq.get_job_ids(queue=bad)
        assert 1 == caught.value.code


@fixes(
    "get_job_ids(queued => 1) of a queue with a colon",
    "get_job_ids(queued => 1) of a:q and q",
    "get_job_ids(queued => 1) with an empty entry",
    "get_job_ids(queued => 1) with a queue key that is a string",
)
def test_queued_ids(jq: JobQueue, client: redis.Redis) -> None:
    """Every queue is looked at, colons and all; what is no entry or no list is left out."""
    jobs = [added(jq, queue=name) for name in ("a:b", "a:q", "q")]
    client.rpush("JobQueue:queue:q", "")
    client.set("JobQueue:queue:s", "x")
    assert {job.id for job in jobs} == set(jq.get_job_ids(queued=True))
    assert [jobs[0].id] == jq.get_job_ids(queued=True, queue="a:b")


@fixes(
    "get_job_ids(queue => q) with a foreign string key",
    "queue_status with a foreign string key",
)
def test_foreign_keys(jq: JobQueue, client: redis.Redis) -> None:
    """Keys of other types beside the jobs do no harm and are no jobs."""
    job = added(jq)
    client.set("JobQueue:foo", "x")
    client.sadd("JobQueue:bar", "x")
    client.rpush("JobQueue:baz", "x")
    assert [job.id] == jq.get_job_ids(queue="q") == jq.get_job_ids()
    status = jq.queue_status("q")
    assert [1, 1] == [status["length"], status["all_jobs"]]


@fixes("queue_status with an empty created field behind a good one")
def test_status_skips_an_empty_time(jq: JobQueue, client: redis.Redis) -> None:
    """A job without a time of creation counts, and is left out of the ages."""
    added(jq)
    client.hset(key(added(jq)), "created", "")
    status = jq.queue_status("q")
    assert [2, 2, 0] == [status["length"], status["all_jobs"], status["lifetime"]]


def test_lost_write_is_a_network_error(own_server: Server) -> None:
    """A connection that is lost in writing is a lost connection."""
    with JobQueue(f"127.0.0.1:{own_server.port}") as jq:
        own_server.kill()
        with pytest.raises(NetworkError) as caught:
            added(jq, workload="x" * (1 << 24))
        assert 3 == caught.value.code


def test_all_are_answered() -> None:
    """Every row that is to be fixed is named by a test, and no other."""
    assert ANSWERED == {row["name"] for row in ROWS if row.get("recommend") == "fix"}
