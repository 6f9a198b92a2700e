"""What each call leaves in Redis: the table of the guarantees, row by row.

Before a call the times of the job are set to marks, so that one sees which of
them the call has written; what it has written is the server's time.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import redis

from claims.tools import (
    ATTEMPTS,
    DEAD,
    DELAYED,
    LONG,
    PREFIX,
    RETRY,
    add,
    claimed,
    entries,
    held_key,
    let_die,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import Job, JobQueue, Owner

MARKS = {"created": "11", "updated": "12", "started": "13", "completed": "14", "failed": "15"}
CLAIMABLE = ("__created__", "__working__", "__failed__", "")


@attrs.frozen
class Left:
    """What a call left.

    Attributes:
        status: the field.
        now: the times that are now.
        zero: the times that are 0; the others are as they were.
        attempts: the count of failed deliveries, which was 2.
        place: where the id is, and between which others.
        lives: ``expire`` if the hash has that time to live, ``ever`` if it has none.
        entry: ``same`` if ``__id_in_queue__`` is as it was, ``anew`` if it is made of now.
    """

    status: str
    now: frozenset[str]
    zero: frozenset[str]
    attempts: str
    place: str
    lives: str
    entry: str


def left(
    status: str, now: str, place: str, lives: str, *, zero: str = "", attempts: str = "2",
    entry: str = "same",
) -> Left:  # fmt: skip
    """Write a row of the table."""
    return Left(
        status, frozenset(now.split()), frozenset(zero.split()), attempts, place, lives, entry
    )


WAITING = "queue:q first"
LAST = "queue:q last"

TABLE: dict[str, Left] = {
    "claim": left("__working__", "started updated", "held", "ever"),
    "claim, mark=False": left("__created__", "", "held", "ever"),
    "complete": left("__completed__", "completed updated", "", "expire", attempts=""),
    "complete, claim_next": left("__completed__", "completed updated", "", "expire", attempts=""),
    "complete_many": left("__completed__", "completed updated", "", "expire", attempts=""),
    "fail": left("__failed__", "failed updated", "", "expire", attempts=""),
    "retry": left("__created__", "updated", "retry:jobs", "ever", zero="started", attempts="3"),
    "retry at the limit": left("__failed__", "failed updated", "dead:jobs", "ever", attempts=""),
    "bury": left("__failed__", "failed updated", "dead:jobs", "ever", attempts=""),
    "requeue": left("__created__", "updated", LAST, "expire", zero="started"),
    "release": left("__created__", "updated", WAITING, "expire", zero="started"),
    "stop": left("__created__", "updated", WAITING, "expire", zero="started"),
    "beat, for nobody": left("__created__", "updated", WAITING, "expire", zero="started"),
    "recover": left("__created__", "updated", WAITING, "expire", zero="started"),
    "recover, begun": left(
        "__created__", "updated", WAITING, "expire", zero="started", attempts="3"
    ),
    "recover at the limit": left("__failed__", "failed updated", "dead:jobs", "ever", attempts=""),
    "promote a delayed one": left("__created__", "updated", LAST, "expire", entry="anew"),
    "promote a retry": left("__created__", "updated", LAST, "expire", entry="anew"),
    "revive": left("__created__", "updated", LAST, "expire", attempts="", entry="anew"),
}


@attrs.define(eq=False)
class Scene:
    """A job at the head of a queue with another one, and an owner."""

    jq: JobQueue
    client: redis.Redis
    owner: Owner
    job: Job
    other: Job
    meddled: dict[str, str] = attrs.field(factory=dict)

    def claim(self) -> Job:
        """Claim the job, mark its times again, and let another program write to it."""
        held = claimed(self.owner)
        assert self.job.id == held.id
        self.mark()
        if self.meddled:
            self.client.hset(PREFIX + str(self.job.id), mapping=self.meddled)
            self.client.expire(PREFIX + str(self.job.id), 1)
        return held

    def mark(self) -> None:
        """Set the times to marks and the count to 2."""
        self.client.hset(PREFIX + str(self.job.id), mapping=MARKS)
        self.client.hset(ATTEMPTS, str(self.job.id), 2)


def complete_and_claim(scene: Scene) -> None:
    """Complete the job, and claim the other one."""
    following = scene.owner.complete(scene.claim(), claim_next=True)
    assert following is not None
    assert scene.other.id == following.id


def retry(scene: Scene, limit: int) -> None:
    """Retry the job, which has failed twice."""
    scene.owner.max_attempts = limit
    assert (limit == 0) is scene.owner.retry(scene.claim(), 100)


def forget(scene: Scene) -> None:
    """Claim the job, let it be garbage, and beat."""
    scene.claim()
    scene.owner.beat()


def recover(scene: Scene, *, begun: bool = False, limit: int = 0) -> None:
    """Let the owner die, and recover."""
    held = scene.claim()
    if begun:
        held.begun()
    let_die(scene.owner, scene.client)
    done = scene.jq.recover(max_attempts=limit)
    assert (0 if limit else 1, 1 if limit else 0) == (done.jobs, done.buried)


def park(scene: Scene, key: str, score: int = 1) -> str:
    """Put the job into a set, as if it had been added there."""
    scene.client.lpop(queue_key())
    scene.client.persist(PREFIX + str(scene.job.id))
    scene.client.zadd(key, {str(scene.job.id): score})
    return str(scene.job.id)


def promote(scene: Scene, key: str) -> None:
    """Promote the job out of a set."""
    assert [park(scene, key)] == scene.jq.promote_due().jobs


def revive(scene: Scene) -> None:
    """Revive the job."""
    assert scene.jq.revive(park(scene, DEAD))


ACTS: dict[str, Callable[[Scene], object]] = {
    "claim": lambda scene: claimed(scene.owner),
    "claim, mark=False": lambda scene: claimed(scene.owner, mark=False),
    "complete": lambda scene: scene.owner.complete(scene.claim()),
    "complete, claim_next": complete_and_claim,
    "complete_many": lambda scene: scene.owner.complete_many([scene.claim()]),
    "fail": lambda scene: scene.owner.fail(scene.claim(), "why"),
    "retry": lambda scene: retry(scene, 0),
    "retry at the limit": lambda scene: retry(scene, 3),
    "bury": lambda scene: scene.owner.bury(scene.claim(), "why"),
    "requeue": lambda scene: scene.owner.requeue(scene.claim()),
    "release": lambda scene: scene.owner.release(scene.claim()),
    "stop": lambda scene: scene.claim() and scene.owner.stop(),
    "beat, for nobody": forget,
    "recover": recover,
    "recover, begun": lambda scene: recover(scene, begun=True),
    "recover at the limit": lambda scene: recover(scene, begun=True, limit=3),
    "promote a delayed one": lambda scene: promote(scene, DELAYED),
    "promote a retry": lambda scene: promote(scene, RETRY),
    "revive": revive,
}


@pytest.mark.parametrize("expire", [LONG, 0])
@pytest.mark.parametrize("name", TABLE)
def test_the_table(
    name: str, expire: int, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A call leaves status, times, attempts, entry and time to live as the table says."""
    scene = Scene(jq, client, owner, add(jq, expire=expire), add(jq))
    job, key = scene.job, PREFIX + str(scene.job.id)
    (entry, _) = entries(client, queue_key())
    scene.mark()
    begins = jq.now_ms() / 1000
    ACTS[name](scene)
    ends = jq.now_ms() / 1000

    found = stored(client, job)
    written = {field for field, mark in MARKS.items() if found[field] != mark}
    zero = {field for field in written if found[field] == "0"}
    now = {field for field in written - zero
           if begins - 0.002 <= float(found[field]) <= ends + 0.002}  # fmt: skip
    assert written == now | zero
    where = places(client).get(str(job.id), [])
    assert len(where) <= 1
    place = where[0] if where else ""
    if place == held_key(owner).removeprefix(PREFIX):
        place = "held"
        assert [entry] == entries(client, held_key(owner))
    if place == "queue:q":
        position = entries(client, queue_key()).index(found["__id_in_queue__"])
        place += " first" if position == 0 else " last"
    ttl = client.ttl(key)
    lives = "ever" if ttl == -1 else "expire"
    assert ttl in (-1, LONG, LONG - 1)
    made = str(job.id) if not expire else f"{job.id} {int(ends) + expire}"
    early = str(job.id) if not expire else f"{job.id} {int(begins) + expire}"
    count = client.hget(ATTEMPTS, str(job.id))
    wanted = TABLE[name]
    assert "q" == found["queue"]
    assert found["__id_in_queue__"] in ([entry] if wanted.entry == "same" else [made, early])
    assert attrs.evolve(wanted, lives=wanted.lives if expire else "ever") == Left(
        found["status"], frozenset(now), frozenset(zero), count.decode() if count else "", place,
        lives, wanted.entry,
    )  # fmt: skip


@pytest.mark.parametrize("status", CLAIMABLE)
def test_a_claim_marks_these(status: str, jq: JobQueue, client: redis.Redis, owner: Owner) -> None:
    """A job is marked as working if it was created, working, failed or had no status."""
    job = add(jq)
    client.hset(PREFIX + str(job.id), "status", status)
    assert "__working__" == claimed(owner).status
    assert "__working__" == stored(client, job)["status"]


@pytest.mark.parametrize("status", ["my own", "__completed__", "0"])
def test_a_claim_leaves_your_status(
    status: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Another text stays through the claim; the times are written all the same."""
    job = add(jq)
    client.hset(PREFIX + str(job.id), mapping={"status": status, "started": "0", "updated": "0"})
    held = claimed(owner)
    assert status == held.status
    assert held.started > 0 and held.updated > 0
    owner.complete(held)
    assert "__completed__" == stored(client, job)["status"]


@pytest.mark.parametrize(
    "name", ["requeue", "release", "stop", "recover", "beat, for nobody"]
)
def test_what_puts_back_writes_the_queue_and_the_entry(
    name: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """Whatever other programs wrote meanwhile, Perl finds the entry by what the job says."""
    meddled = {"queue": "elsewhere", "__id_in_queue__": "what"}
    scene = Scene(jq, client, owner, add(jq), add(jq), meddled)
    entry = entries(client, queue_key())[0]
    key = PREFIX + str(scene.job.id)
    ACTS[name](scene)
    found = stored(client, scene.job)
    assert ("q", entry) == (found["queue"], found["__id_in_queue__"])
    assert entry in entries(client, queue_key())
    assert 1 < client.ttl(key)


@pytest.mark.parametrize("expire", ["007", "+5", "9300000000000000", "-3", "", "1.5"])
@pytest.mark.parametrize("name", TABLE)
def test_an_expire_that_redis_refuses(
    name: str, expire: str, jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A job that Perl queued with an ``expire`` that cannot be goes through every call."""
    scene = Scene(jq, client, owner, add(jq), add(jq))
    key = PREFIX + str(scene.job.id)
    client.hset(key, "expire", expire)
    client.persist(key)
    ACTS[name](scene)
    assert -1 == client.ttl(key)
    assert expire == stored(client, scene.job)["expire"]


def test_everything_else_is_written_too(
    jq: JobQueue, client: redis.Redis, owner: Owner
) -> None:
    """A finishing call writes every change, and deletes metadata that was deleted."""
    add(jq, meta_data={"gone": 1, "stays": 2})
    held = claimed(owner)
    held.result = [1, 2]
    held.progress = 0.75
    held.message = "well"
    held.meta_data["new"] = 3
    del held.meta_data["gone"]
    owner.complete(held)
    again = jq.load_job(held.id)
    assert again is not None
    assert ([1, 2], 0.75, "well") == (again.result, again.progress, again.message)
    assert {"stays": 2, "new": 3} == dict(again.meta_data)
    assert [] == held.modified_attributes()
    assert "__completed__" == held.status


Call = Callable[[Owner, Job], object]
ENDINGS: dict[str, Call] = {
    "complete": lambda owner, job: owner.complete(job),
    "fail": lambda owner, job: owner.fail(job, "no"),
    "bury": lambda owner, job: owner.bury(job, "no"),
    "retry": lambda owner, job: owner.retry(job),
    "requeue": lambda owner, job: owner.requeue(job),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_counters(name: str, jq: JobQueue, owner: Owner) -> None:
    """Each ending is counted once for its queue; a requeue is not counted as processed."""
    add(jq)
    ENDINGS[name](owner, claimed(owner))
    counters = jq.counts("q").queues["q"].counters
    field = {"complete": "completed", "fail": "failed", "bury": "dead", "retry": "retried"}
    wanted = {"claimed": 1} | ({field[name]: 1} if name in field else {})
    assert wanted == {key: count for key, count in counters.items() if count}


def test_many_metadata_fields(jq: JobQueue, owner: Owner) -> None:
    """More fields than a script may unpack at once are written and deleted in one step."""
    add(jq, meta_data={f"old{n}": n for n in range(9000)})
    held = claimed(owner)
    for number in range(9000):
        held.meta_data[f"new{number}"] = number
        del held.meta_data[f"old{number}"]
    owner.complete(held)
    again = jq.load_job(held.id)
    assert again is not None
    assert {f"new{n}": n for n in range(9000)} == dict(again.meta_data)
