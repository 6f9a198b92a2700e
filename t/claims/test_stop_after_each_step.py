"""Every operation, dropped after each of its steps: each job is in exactly one place, and comes
back exactly once.

An operation is a generator, so a test can let it die before and after the
server has executed each of its requests.  What the dead process held is then
recovered, and all that waits is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import redis

from claims.tools import (
    HEARTBEAT,
    LONG,
    RETRY,
    add,
    add_many,
    claimed,
    drain,
    endings,
    let_die,
    make_due,
    places,
    stored,
)
from redis_jobqueue import Job, JobQueue, Owner
from redis_jobqueue.arguments import new_id
from redis_jobqueue.identity import Identity
from redis_jobqueue.operations import claims, control, finishing, jobs, recovery, schedule
from redis_jobqueue.operations.request import Operation

FINISHED = ("__completed__", "__failed__")
SIZE = 1 << 20
MANY = 110
"""More than a slice."""


@attrs.define
class World:
    """A namespace, an owner in it, and what was put in."""

    jq: JobQueue
    client: redis.Redis
    owner: Owner

    @property
    def keys(self) -> Any:
        """The names of its keys."""
        return self.jq._keys

    @property
    def me(self) -> Identity:
        """Who the owner is."""
        return self.owner._of_now()

    def held(self, count: int = 1) -> list[Job]:
        """Add jobs and claim them."""
        add_many(self.jq, count)
        found: list[Job] = []
        while len(found) < count:
            found += self.owner.claim_many("q", min(100, count - len(found)))
        return found

    def dead_owner(self, count: int, queue: str = "q") -> Owner:
        """Let another owner claim jobs and die, the first of them begun."""
        add_many(self.jq, count, queue)
        other = self.jq.owner().start()
        taken: list[Job] = []
        while len(taken) < count:
            taken += other.claim_many(queue, 100)
        other.begun(taken[0])
        let_die(other, self.client)
        return other


def starting(world: World) -> Operation[Any]:
    """An owner registers."""
    return claims.start(b"other-1", b"{}", 60_000, world.keys)


def claiming(world: World) -> Operation[Any]:
    """A job is claimed."""
    add_many(world.jq, 2)
    token = world.me.take_token()
    request = claims.claim_request(world.me.id, token, [b"q"], 1, True, world.keys)
    return claims.take(request, world.me.id, world.owner, "auto")


def claiming_many(world: World) -> Operation[Any]:
    """Many jobs of two queues are claimed."""
    add_many(world.jq, 3, "a")
    add_many(world.jq, 3, "b")
    token = world.me.take_token()
    request = claims.claim_request(world.me.id, token, [b"a", b"b"], 5, True, world.keys)
    return claims.take(request, world.me.id, world.owner, "auto")


def beating(world: World) -> Operation[Any]:
    """A beat puts back what nobody holds."""
    world.held(3).clear()
    highest, living = world.me.snapshot()
    assert (1, []) == (highest, living)
    return claims.beat(world.me.id, 60_000, highest, living, world.keys)


def stopping(world: World) -> Operation[Any]:
    """An owner leaves; more than a slice goes back, one job stays held."""
    world.held(MANY).clear()
    kept = world.held()
    highest, living = world.me.snapshot()
    assert 1 == len(living) == len(kept)
    return claims.stop(world.me.id, highest, living, [b"q"], world.keys)


def finishing_as(verb: str) -> Callable[[World], Operation[Any]]:
    """One of three held jobs is finished."""

    def begin(world: World) -> Operation[Any]:
        one = world.held(3)[0]
        one.result = {"x": 1}
        return finishing.finish(verb, endings(verb, one), world.keys, limit=5)

    return begin


def burying_at_the_limit(world: World) -> Operation[Any]:
    """A retry is one too many."""
    return finishing.finish("retry", endings("retry", *world.held(1)), world.keys, limit=1)


def completing_many(world: World) -> Operation[Any]:
    """Several jobs are completed at once."""
    return finishing.finish("complete", endings("complete", *world.held(5)), world.keys)


def completing_and_claiming(world: World) -> Operation[Any]:
    """One job is completed and the next claimed."""
    one, _ = world.held(2)
    add_many(world.jq, 2)
    return finishing.complete_next(
        endings("complete", one)[0], world.me.take_token(), world.me.id, [b"q"], True,
        world.keys, holder=world.owner, strings="auto",
    )  # fmt: skip


def saving(world: World) -> Operation[Any]:
    """A held job is written."""
    one = world.held()[0]
    one.progress = 0.5
    return claims.save(one, world.keys, max_size=SIZE)


def beginning(world: World) -> Operation[Any]:
    """Work begins."""
    return claims.begun(world.held(2), world.keys)


def recovering(world: World) -> Operation[Any]:
    """Two dead owners of three queues are recovered; one job is at its limit."""
    world.dead_owner(MANY)
    world.dead_owner(3, "a:b")
    add_many(world.jq, 2, "a")
    claimed(world.owner, "a")
    return recovery.recover(None, None, 1, world.keys)


def recovering_one_queue(world: World) -> Operation[Any]:
    """One queue is recovered, and the list of it without an owner."""
    world.dead_owner(3)
    world.dead_owner(3, "other")
    shared = add(world.jq)
    world.client.lmove("JobQueue:queue:q", "JobQueue:processing:q", "RIGHT", "LEFT")
    let_die(world.owner, world.client)
    assert ["processing:q"] == places(world.client)[str(shared.id)]
    return recovery.recover(b"q", None, 5, world.keys)


def adding(world: World) -> Operation[Any]:
    """A job is added."""
    job = Job(queue="q", expire=LONG)
    return jobs.add_job(job, world.keys, new_id=new_id, now=1e9, front=False, max_size=SIZE)


def adding_later(world: World) -> Operation[Any]:
    """A delayed job is added."""
    job = Job(queue="q", expire=LONG)
    return schedule.add_delayed(
        job, world.keys, new_id=new_id, now=1e9, when=b"D5000", max_size=SIZE
    )


def adding_many(world: World) -> Operation[Any]:
    """Many jobs are added in slices."""
    return control.add_jobs(
        [Job(queue="q", expire=LONG) for _ in range(MANY)], world.keys, new_id=new_id, now=1e9,
        batch_size=1000, front=False, max_size=SIZE,
    )  # fmt: skip


def promoting(world: World) -> Operation[Any]:
    """Many jobs are due, among them those of another queue, one bad id and one that is gone."""
    for number in range(MANY):
        add_later(world, "q" if number % 2 else "other")
    world.client.zadd(RETRY, {"gone": 1, "queue:q": 2})
    make_due(world.client)
    return schedule.promote_due(b"q", 200, world.keys)


def add_later(world: World, queue: str = "q") -> Job:
    """Add a delayed job."""
    return world.jq.add_job({"queue": queue, "expire": LONG}, delay=1000)


def reviving(world: World) -> Operation[Any]:
    """A dead job is put back."""
    one = world.held()[0]
    world.owner.bury(one)
    return schedule.revive(str(one.id).encode(), world.keys)


def purging(world: World) -> Operation[Any]:
    """Dead jobs are deleted, all but the latest five."""
    world.owner._finish("bury", world.held(MANY))
    return schedule.purge_dead(0, 5, world.keys)


def sweeping(world: World) -> Operation[Any]:
    """The sets are looked through."""
    add_later(world)
    world.owner.retry(world.held()[0], 1000)
    world.owner.bury(world.held()[0])
    world.client.zadd(RETRY, {"gone": 1})
    return schedule.sweep(schedule.Sweep(), world.keys)


def cancelling(where: str) -> Callable[[World], Operation[Any]]:
    """A job is cancelled, wherever it is."""

    def begin(world: World) -> Operation[Any]:
        world.held(1)
        if where == "delayed":
            job = add_later(world)
        else:
            job = add(world.jq)
            if where != "waiting":
                job = claimed(world.owner)
            if where == "retrying":
                world.owner.retry(job, 1000)
        return control.cancel(str(job.id).encode(), world.keys)

    return begin


def clearing(world: World) -> Operation[Any]:
    """A long queue is cleared."""
    add_many(world.jq, MANY)
    return control.clear_queue(b"q", world.keys)


def deleting(world: World) -> Operation[Any]:
    """A held job is deleted."""
    return jobs.delete_job(str(world.held(2)[0].id).encode(), world.keys)


CASES: dict[str, Callable[[World], Operation[Any]]] = {
    "start": starting,
    "claim": claiming,
    "claim_many": claiming_many,
    "beat": beating,
    "stop": stopping,
    **{verb: finishing_as(verb)
       for verb in ("complete", "fail", "retry", "bury", "requeue", "release")},
    "retry at the limit": burying_at_the_limit,
    "complete_many": completing_many,
    "complete, claim_next": completing_and_claiming,
    "save": saving,
    "begun": beginning,
    "recover": recovering,
    "recover a queue": recovering_one_queue,
    "add_job": adding,
    "add_job, delay": adding_later,
    "add_jobs": adding_many,
    "promote_due": promoting,
    "revive": reviving,
    "purge_dead": purging,
    "sweep": sweeping,
    **{f"cancel, {where}": cancelling(where)
       for where in ("waiting", "held", "delayed", "retrying")},
    "clear_queue": clearing,
    "delete_job": deleting,
}  # fmt: skip


def run(operation: Operation[Any], world: World, requests: int) -> bool:
    """Send so many requests and drop the operation before it hears the last answer.

    With 0 it dies with a request that was never sent.  False if it needs no
    more than this.
    """
    request = next(operation)
    for number in range(requests):
        reply = world.jq._driver.send(request)
        if number == requests - 1:
            break
        try:
            request = operation.send(reply)
        except StopIteration:
            return False
    operation.close()
    return True


def check_places(world: World) -> None:
    """Each job that is not finished is in exactly one place, and no place holds a lost id."""
    found = places(world.client)
    assert {} == {job_id: where for job_id, where in found.items() if len(where) > 1}
    there = set(world.jq.get_job_ids())
    nowhere = [job_id for job_id in there - set(found)
               if stored(world.client, str(job_id))["status"] not in FINISHED]  # fmt: skip
    assert [] == nowhere
    for job_id in sorted(found)[:5]:
        assert len(found[job_id]) == len(world.jq.locate(job_id))
    planted = {"gone", "queue:q"}
    assert set() == set(found) - there - planted


@pytest.mark.parametrize("name", CASES)
def test_stopped_after_each_step(
    name: str, jq: JobQueue, client: redis.Redis, new_owner: Callable[..., Owner]
) -> None:
    """Wherever an operation stops, every job is in one place and is delivered once."""
    requests = 0
    while True:
        jq.clear()
        world = World(jq, client, new_owner())
        operation = CASES[name](world)
        goes_on = run(operation, world, requests)
        check_places(world)
        before = {job_id: stored(client, str(job_id))["status"] for job_id in jq.get_job_ids()}
        dead = {job_id for job_id, where in places(client).items() if where == ["dead:jobs"]}
        world.owner._heart.stop()
        for each in client.zrange(HEARTBEAT, 0, -1):
            client.zadd(HEARTBEAT, {each: 1})
        jq.recover(max_attempts=0)
        for queue in ("q", "other"):
            jq.recover(queue, max_attempts=0)
        check_places(world)
        make_due(client)
        while jq.promote_due(limit=1000).jobs:
            pass
        check_places(world)
        last = new_owner()
        delivered = [job.id for job in drain(last, "q", "a", "b", "a:b", "other")]
        assert sorted(set(delivered)) == sorted(delivered)
        open_ones = {job_id for job_id, status in before.items() if status not in FINISHED}
        assert open_ones - dead == set(delivered)
        assert [] == client.keys("JobQueue:processing:*")
        last.stop()
        assert 0 == client.exists("JobQueue:owners:lists", "JobQueue:owners:heartbeat")
        if not goes_on:
            break
        requests += 1
    assert requests > 0
