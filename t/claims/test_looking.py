"""Looking: counts, metrics, listings, places, owners and health, in bounded steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from support.server import Server, eventually
from support.watching import watched

from claims.tools import (
    ABOUT,
    ATTEMPTS,
    DEAD,
    DELAYED,
    HEARTBEAT,
    LISTS,
    LONG,
    PREFIX,
    Caller,
    add,
    add_many,
    claimed,
    held_key,
    ids,
    let_die,
    places,
    queue_key,
)
from redis_jobqueue import ArgumentError, JobQueue, NetworkError, Owner
from redis_jobqueue.lua import SCRIPTS
from redis_jobqueue.operations import views


@pytest.fixture
def scripts(client: redis.Redis) -> None:
    """Let the server know all scripts."""
    for body in SCRIPTS.values():
        client.script_load(body.text)


def fill(jq: JobQueue, owner: Owner) -> dict[str, str]:
    """Put a job into every place; give their ids by place."""
    found = {"delayed": str(jq.add_job({"queue": "q", "expire": LONG}, delay=1000).id)}
    add_many(jq, 5)
    owner.complete(claimed(owner))
    dead, retrying, failed, held = (claimed(owner) for _ in range(4))
    owner.bury(dead)
    owner.retry(retrying, 1000)
    owner.fail(failed)
    found |= {"dead": str(dead.id), "retrying": str(retrying.id), "processing": str(held.id)}
    found["waiting"] = str(add(jq).id)
    owner.__dict__.setdefault("kept", []).append(held)
    return found


# Counts.


def test_counts(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Everything is counted, each queue for itself."""
    client.hset(PREFIX + str(add(jq, "other").id), "created", jq.now_ms() / 1000 - 100)
    jq.pause("paused")
    wanted = jq.set_concurrency("wanted", 7)
    fill(jq, owner)
    counted = jq.counts()
    assert {"q", "other", "paused", "wanted"} == set(counted.queues)
    assert (1, 1, 1, 1) == (counted.delayed, counted.retrying, counted.dead, counted.owners)
    assert abs(counted.now - jq.now_ms() / 1000) < 60
    q = counted.queues["q"]
    assert (1, 1, False, None) == (q.waiting, q.processing, q.paused, q.concurrency)
    assert {"claimed": 5, "completed": 1, "failed": 1, "retried": 1, "dead": 1, "recovered": 0} == (
        q.counters
    )
    assert counted.queues["paused"].paused
    assert wanted == counted.queues["wanted"].concurrency
    age = counted.queues["other"].oldest_age
    assert age is not None
    assert 99 < age < 200
    assert counted.queues["wanted"].oldest_age is None
    jq.add_job({"queue": "other", "expire": 60}, LPUSH=True)  # in front of the older one
    age = jq.counts(["other"]).queues["other"].oldest_age
    assert age is not None
    assert 99 < age < 200


def test_counts_of_some(jq: JobQueue, owner: Owner) -> None:
    """Only the named queues are counted, also one that is not there."""
    add_many(jq, 2), add_many(jq, 3, "q:x")
    claimed(owner, "q:x")
    counted = jq.counts(["q", "none"])
    assert (2, 0) == (counted.queues["q"].waiting, counted.queues["q"].processing)
    assert (0, 0, None) == (counted.queues["none"].waiting, counted.queues["none"].processing,
                            counted.queues["none"].oldest_age)  # fmt: skip
    assert {"q:x"} == set(jq.counts("q:x").queues)


def test_counts_are_few_round_trips(
    server: Server, jq: JobQueue, client: redis.Redis, scripts: None
) -> None:
    """All queues are read in one pipelined write; nothing else but a scan for their names."""
    for number in range(40):
        add(jq, f"q{number}")
    with watched(server) as seen:
        jq.counts([f"q{number}" for number in range(40)])
    assert ["SMEMBERS", "SMEMBERS", "HGETALL"] + ["EVALSHA"] * 41 == seen.names
    with watched(server) as seen:
        assert 40 == len(jq.counts().queues)
    assert not {"KEYS", "HGETALL"} & (seen.all_names - {"HGETALL"})
    assert 1 <= seen.names.count("SCAN") <= 3


def test_metrics(jq: JobQueue, owner: Owner) -> None:
    """The same as plain dicts and numbers."""
    fill(jq, owner)
    found = jq.metrics()
    assert (1, 1, 1, 1) == (found["delayed"], found["retrying"], found["dead"], found["owners"])
    assert (1, 1) == (found["queues"]["q"]["waiting"], found["queues"]["q"]["processing"])
    assert 5 == found["queues"]["q"]["counters"]["claimed"]
    assert {"q"} == set(jq.metrics("q")["queues"])


def test_damaged_numbers(jq: JobQueue, client: redis.Redis) -> None:
    """What is damaged or of another type counts as nothing, and hides nothing."""
    add(jq)
    client.hset(PREFIX + "odd", mapping={"created": "soon"})
    client.rpush(queue_key("odd"), "odd 5")
    client.set(queue_key("text"), "no list")
    client.set("JobQueue:stats:q", "no hash")
    client.set(DELAYED, "no set")
    client.hset("JobQueue:concurrency:queues", mapping={"q": "many", "odd": "3 x"})
    client.hset("JobQueue:stats:odd", mapping={"claimed": "many", "failed": 3})
    counted = jq.counts()
    assert (0, 3) == tuple(counted.queues["odd"].counters[name] for name in ("claimed", "failed"))
    assert (1, None) == (counted.queues["q"].waiting, counted.queues["q"].concurrency)
    assert (1, None) == (counted.queues["odd"].waiting, counted.queues["odd"].oldest_age)
    assert jq.desired_concurrency("odd") is None


# Listings.


def test_waiting(jq: JobQueue, client: redis.Redis) -> None:
    """A queue in pages, the next job first; entries without a job too."""
    expected = add_many(jq, 25)
    client.lpush(queue_key(), "gone 5")
    rows = jq.waiting("q", page_size=10)
    assert ["gone", *expected[:9]] == [row.id for row in rows]
    assert {"q"} == {row.queue for row in rows}
    assert expected[19:] == [row.id for row in jq.waiting("q", 3, 10)]
    assert [] == jq.waiting("q", 4, 10)
    assert [] == jq.waiting("none")
    with pytest.raises(ArgumentError):
        jq.waiting("q", 0)


def test_processing(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """What owners hold in pages, by queue and owner; queues whose names start alike are apart."""
    for name in ("q", "q:x", "r"):
        add_many(jq, 6, name)
    one, two = new_owner(id="a"), new_owner(id="b")
    jobs = [*one.claim_many("q", 3), *two.claim_many("q", 2), *one.claim_many("q:x", 4)]
    rows = jq.processing("q")
    assert [(one.id, jobs[n].id) for n in (2, 1, 0)] + [(two.id, jobs[n].id) for n in (4, 3)] == [
        (row.owner, row.id) for row in rows
    ]
    assert {"q"} == {row.queue for row in rows}
    assert ["q:x"] * 4 == [row.queue for row in jq.processing("q:x")]
    assert [] == jq.processing("r")
    everything = [row.id for page in (1, 2, 3) for row in jq.processing(page=page, page_size=4)]
    assert sorted(str(job.id) for job in jobs) == sorted(map(str, everything))
    assert [] == jq.processing(page=4, page_size=4)


def test_processing_of_the_list_without_an_owner(
    jq: JobQueue, client: redis.Redis
) -> None:
    """A list that some other program keeps is shown under no owner."""
    (only,) = add_many(jq, 1)
    client.lmove(queue_key(), "JobQueue:processing:q", "LEFT", "LEFT")
    (row,) = jq.processing("q")
    assert (only, None) == (row.id, row.owner)
    (place,) = jq.locate(only)
    assert ("processing", "q", None) == (place.kind, place.queue, place.owner)
    assert 1 == jq.counts(["q"]).queues["q"].processing


def test_find_jobs(jq: JobQueue, client: redis.Redis) -> None:
    """Jobs by their ids, in that order; None for what is missing or no job."""
    expected = add_many(jq, 150)
    client.set(PREFIX + "text", "no hash")
    wanted = [*expected[:120], "gone", "text", "queue:q", *expected[120:]]
    found = jq.find_jobs(wanted)
    assert wanted == list(found)
    assert [None] * 3 == [found[name] for name in ("gone", "text", "queue:q")]
    assert list(range(150)) == [job.workload for job in found.values() if job]
    assert {} == jq.find_jobs([])


# Places.


def test_locate(jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """Each place is named, with what belongs to it; a finished job is in none."""
    for kind, job_id in fill(jq, owner).items():
        (place,) = jq.locate(job_id)
        assert kind == place.kind
        assert (place.queue == "q") is (kind in ("waiting", "processing"))
        assert (place.owner == owner.id) is (kind == "processing")
        assert (place.score is not None) is (kind in ("delayed", "retrying", "dead"))
    assert [] == jq.locate("nobody")
    (delayed,) = jq.delayed()
    (place,) = jq.locate(delayed.id)
    assert delayed.score == place.score


def test_locate_finds_every_place(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A job that is where it must not be is found there, also if its data is gone."""
    job = add(jq)
    entry = client.lindex(queue_key(), 0)
    client.rpush(queue_key("strange"), "x 5", entry, entry)
    client.lpush(held_key("ghost", "far"), entry)
    client.sadd(LISTS, "far:ghost")
    client.zadd(DEAD, {str(job.id): 1})
    client.zadd(DELAYED, {str(job.id): 1})
    client.delete(PREFIX + str(job.id))
    kinds = sorted(place.kind for place in jq.locate(job))
    assert ["dead", "delayed", "processing", "waiting", "waiting", "waiting"] == kinds
    assert len(places(client)[str(job.id)]) == len(kinds)


# Owners.


def test_reading_prunes_nothing(
    jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Dead owners are shown as such until they are recovered; looking leaves them."""
    add(jq)
    owner, dead = new_owner(), new_owner()
    claimed(dead)
    let_die(dead, client)
    client.sadd(LISTS, "q:ghost")
    for _ in range(2):
        assert [owner.id] == jq.live_owners()
        infos = {info.id: info for info in jq.owners()}
        assert {owner.id, dead.id, "ghost"} == set(infos)
        assert (True, False, False) == tuple(
            infos[name].live for name in (owner.id, dead.id, "ghost")
        )
        lapsed = infos[dead.id].lapses_in
        assert lapsed is not None
        assert lapsed < -1000
        assert infos["ghost"].lapses_in is None
        assert 1 == infos[dead.id].holding
    assert 2 == client.zcard(HEARTBEAT)


def test_damaged_descriptions(jq: JobQueue, client: redis.Redis) -> None:
    """What an owner said of itself may be anything."""
    for number, said in enumerate(
        ("{", "[]", "5", '{"pid": "x", "since": null, "queues": 5, "host": 7}')
    ):
        client.hset(ABOUT, f"odd-{number}", said)
    assert [("", 0, 0.0, ())] * 3 + [("7", 0, 0.0, ())] == [
        (info.host, info.pid, info.since, info.queues) for info in jq.owners()
    ]


NO_NUMBERS = ["9" * 5000, "9" * 400, "inf", "Infinity", "NaN", "0x10", "-5", "1e5", "nan(1)"]


@pytest.mark.parametrize("said", NO_NUMBERS, ids=range(len(NO_NUMBERS)))
def test_no_number_stops_a_look(
    jq: JobQueue, client: redis.Redis, owner: Owner, said: str
) -> None:
    """Whatever stands where a number must be: everything can be looked at, claimed and retried."""
    job = add(jq)
    for name in ("created", "updated", "started", "progress", "expire"):
        client.hset(PREFIX + str(job.id), name, said)
    client.hset(ATTEMPTS, str(job.id), said)
    client.hset(PREFIX + "stats:q", "claimed", said)
    client.hset(PREFIX + "concurrency:queues", "q", f"{said} {said}")
    numbers = {"pid": said, "since": said, "lifetime": said, "max_attempts": said}
    client.hset(ABOUT, "odd", "{%s}" % ", ".join(f'"{k}": {v}' for k, v in numbers.items()))
    client.sadd(LISTS, "q:odd")
    for look in (
        jq.counts, jq.owners, jq.metrics, lambda: jq.queue_status("q"),
        lambda: jq.desired_concurrency("q"), lambda: jq.load_job(job), lambda: jq.locate(job),
        lambda: jq._run(views.rows([str(job.id).encode()], jq._keys)),
    ):  # fmt: skip
        look()
    held = claimed(owner)
    assert (job.id, 1) == (held.id, held.attempt)
    owner.retry(held)
    assert b"1" == client.hget(ATTEMPTS, str(job.id))


def test_descriptions_without_end(jq: JobQueue, client: redis.Redis) -> None:
    """JSON that is nested deeper than Python reads is as good as none."""
    client.hset(ABOUT, "deep", "[" * 100_000)
    assert [("deep", {})] == [(info.id, info.about) for info in jq.owners()]


# The server.


def test_health(own_server: Server, make_server: Callable[..., Server]) -> None:
    """Version, role, memory, durability, what claims need, and the use of the pool."""
    with JobQueue(own_server.url, check_maxmemory=False) as mine, own_server.client() as client:
        found = mine.health()
        assert client.info()["redis_version"] == found.version
        assert ("master", 0, "noeviction", True) == (
            found.role, found.maxmemory, found.policy, found.claims
        )  # fmt: skip
        assert 0 < found.latency < 10
        assert found.used_memory > 100_000
        assert found.persistent is False
        client.config_set("save", "900 1")
        assert mine.health().persistent is True
        client.config_set("maxmemory", 50_000_000)
        assert 50_000_000 == mine.health().maxmemory
        client.config_set("maxmemory", 1)
        assert mine.health().claims
        client.config_set("maxmemory", 0)
        assert (None, 0) == (mine.health().pool_size, mine.health().pool_used)
        own_server.kill()
        with pytest.raises(NetworkError):
            mine.health()
    with JobQueue(make_server(appendonly="yes").url) as mine:
        assert mine.health().persistent is True


def test_health_of_a_server_that_takes_no_writes(
    own_server: Server, make_server: Callable[..., Server]
) -> None:
    """A replica, and a master without its replicas, are described; claims are not possible."""
    with JobQueue(own_server.url) as jq, own_server.client() as client:
        client.config_set("min-replicas-to-write", 1)
        assert ("master", False) == (jq.health().role, jq.health().claims)
        client.config_set("min-replicas-to-write", 0)
        client.replicaof("127.0.0.1", make_server().port)
        assert ("slave", False) == (jq.health().role, jq.health().claims)


def test_the_use_of_the_pool(server: Server, client: redis.Redis) -> None:
    """Calls beyond the pool's limit are refused in time; a wait of an owner takes none of it."""
    with JobQueue(server.url, pool_size=1, pool_timeout=5) as jq, jq.owner() as owner:
        waiting = Caller(lambda: owner.claim("q", blocking=True, timeout=30)).start()
        eventually(lambda: owner._wakes, "the owner waits")
        assert (1, 0) == (jq.health().pool_size, jq.health().pool_used)
        owner.complete(add(jq) and waiting.get())
    with JobQueue(server.url) as other:
        with JobQueue(server.url, pool_size=2, pool_timeout=0.1, timeout=60) as jq:
            takers = [Caller(lambda: jq.get_next_job("q", blocking=True)).start()]
            eventually(lambda: jq._driver.in_use == 1, "the first call waits")
            assert (2, 1) == (jq.health().pool_size, jq.health().pool_used)
            takers.append(Caller(lambda: jq.get_next_job("q", blocking=True)).start())
            eventually(lambda: jq._driver.in_use == 2, "the second call waits")
            with pytest.raises(NetworkError, match="none of the 2 connections was free"):
                jq.queue_length("q")
            add_many(other, 2)
            assert all(taker.get() for taker in takers)
            assert 0 == jq.queue_length("q")
    for wrong in (0, -1, True, "5", 2.5):
        with pytest.raises(ArgumentError, match="pool_size"):
            JobQueue(server.url, pool_size=wrong)
    with pytest.raises(ArgumentError, match="pool_timeout"):
        JobQueue(server.url, pool_timeout=-1)
    with pytest.raises(ArgumentError, match="of the queue shared"):
        JobQueue(other, pool_size=3)


def test_the_servers_time(jq: JobQueue, client: redis.Redis) -> None:
    """``now_ms`` is the server's clock, in ms."""
    seconds, micros = client.time()
    assert seconds * 1000 + micros // 1000 <= jq.now_ms()


def test_names_in_bytes(jq: JobQueue, owner: Owner) -> None:
    """Queues and ids beyond ASCII are bytes everywhere."""
    name = b"caf\xe9"
    add(jq, name)  # type: ignore[arg-type]
    add(jq, name)  # type: ignore[arg-type]
    job = claimed(owner, name)
    assert name == job.queue
    assert {name} == set(jq.counts().queues)
    assert name == jq.waiting(name)[0].queue
    assert name == jq.processing(name)[0].queue
    assert name == jq.processing()[0].queue
    assert name == jq.locate(job)[0].queue
    owner.beat()
    assert (name.decode("latin-1"),) == jq.owners()[0].queues
    assert ids(jq.redis, held_key(owner, "caf\xe9").encode("latin-1"))  # type: ignore[arg-type]
