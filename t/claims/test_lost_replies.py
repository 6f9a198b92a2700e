"""Lost replies: for every call the connection is cut before the request or behind it, or the
request is held back until after the repeat.

A call of an owner asks again by itself, and what arrives twice or late changes
nothing.  A call of a queue is never repeated: it raises, and making it again
finishes the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
import redis
from support.proxy import Proxy
from support.server import Server, eventually

from claims.tools import (
    ATTEMPTS,
    DEAD,
    DELAYED,
    HEARTBEAT,
    LONG,
    Caller,
    add,
    add_many,
    calls,
    claimed,
    held_key,
    ids,
    let_die,
    make_due,
    places,
    queue_key,
    stored,
)
from redis_jobqueue import ClaimLostError, Job, JobQueue, NetworkError, Owner, RedisError
from redis_jobqueue.lua import SCRIPTS

FAULTS = ("cut_before", "lose_reply", "hold")


@attrs.define(eq=False)
class Scene:
    """A queue and an owner behind a proxy, and a client of the server itself."""

    proxy: Proxy
    jq: JobQueue
    owner: Owner
    client: redis.Redis
    expected: list[str]

    def strike(self, fault: str, script: str) -> Any:
        """Let a fault wait for the script; who waits for a held request gives up soon."""
        self.jq.operation_timeout = 0.3 if fault == "hold" else None
        return getattr(self.proxy, fault)(SCRIPTS[script].sha)

    def settle(self, fault: str, waiting: Any) -> None:
        """Let a request that is held back through, and see that it changes nothing."""
        waiting.wait()
        if fault != "hold":
            return
        before, count = self.dump(), calls(self.client)["evalsha"]
        waiting.release()
        eventually(lambda: calls(self.client)["evalsha"] > count, "the late request")
        assert before == self.dump()

    def dump(self) -> dict[bytes, bytes]:
        """Give the whole content of the server, apart from beats."""
        return {key: self.client.dump(key) for key in self.client.keys("*")
                if key.decode() != HEARTBEAT}  # fmt: skip


@pytest.fixture
def scene(server: Server) -> Iterator[Scene]:
    """Return a queue with five jobs, behind a proxy."""
    with Proxy(server) as proxy, server.client() as client:
        for body in SCRIPTS.values():
            client.script_load(body.text)
        with JobQueue(proxy.url, connection_timeout=5) as jq:
            expected = add_many(jq, 5)
            with jq.owner() as owner:
                yield Scene(proxy, jq, owner, client, expected)
                proxy.heal()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("blocking", [False, True])
def test_claim(fault: str, blocking: bool, scene: Scene) -> None:
    """The claim brings one job, the very one that the server says is held."""
    waiting = scene.strike(fault, "claim")
    job = scene.owner.claim("q", blocking=blocking)
    assert job is not None
    scene.settle(fault, waiting)
    assert scene.expected[0] == job.id
    assert [job.id] == ids(scene.client, held_key(scene.owner))
    scene.owner.beat()
    assert [job.id] == ids(scene.client, held_key(scene.owner))
    scene.owner.complete(job)


@pytest.mark.parametrize("fault", FAULTS)
def test_claim_many(fault: str, scene: Scene) -> None:
    """The repeat brings the same jobs and takes nothing new."""
    waiting = scene.strike(fault, "claim")
    jobs = scene.owner.claim_many("q", 3)
    scene.settle(fault, waiting)
    assert scene.expected[:3] == [job.id for job in jobs]
    assert scene.expected[3:] == ids(scene.client, queue_key())
    scene.owner.complete_many(jobs)


def test_claim_of_a_job_deleted_before_the_repeat(scene: Scene) -> None:
    """A job that was deleted before the repeat is not handed out without its data."""
    first, second = scene.expected[:2]
    waiting = scene.strike("lose_reply", "claim")
    again = scene.strike("hold", "claim")
    claiming = Caller(lambda: scene.owner.claim_many("q", 2)).start()
    waiting.wait()
    again.wait()
    scene.client.delete("JobQueue:" + first)
    again.release()
    (job,) = claiming.get()
    assert (second, [first]) == (job.id, scene.owner.dangling)
    scene.owner.beat()
    assert first not in places(scene.client)
    scene.owner.complete(job)


ENDINGS: dict[str, tuple[Callable[[Owner, Job], Any], str]] = {
    "complete": (lambda owner, job: owner.complete(job), "completed"),
    "fail": (lambda owner, job: owner.fail(job, "no"), "failed"),
    "bury": (lambda owner, job: owner.bury(job, "no"), "dead"),
    "retry": (lambda owner, job: owner.retry(job, 50), "retried"),
    "requeue": (lambda owner, job: owner.requeue(job), ""),
    "release": (lambda owner, job: owner.release(job), ""),
    "complete_many": (lambda owner, job: owner.complete_many([job]), "completed"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", ENDINGS)
def test_endings(verb: str, fault: str, scene: Scene) -> None:
    """The job is ended once, and counted once."""
    job = claimed(scene.owner)
    job.result = {"of": verb}
    call, counter = ENDINGS[verb]
    waiting = scene.strike(fault, "finish")
    call(scene.owner, job)
    scene.settle(fault, waiting)
    assert not scene.client.exists(held_key(scene.owner))
    assert {"of": verb} == scene.jq.get_job_data(job, "result")
    counters = scene.jq.counts("q").queues["q"].counters
    assert {"claimed": 1} | ({counter: 1} if counter else {}) == {
        name: count for name, count in counters.items() if count
    }
    wanted = 0 if counter in ("completed", "failed") else 1
    assert wanted == len(places(scene.client).get(str(job.id), []))


@pytest.mark.parametrize("fault", FAULTS)
def test_retry_at_the_limit(fault: str, scene: Scene) -> None:
    """A burial in the place of a retry is told by the repeat too."""
    scene.owner.max_attempts = 1
    job = claimed(scene.owner)
    waiting = scene.strike(fault, "finish")
    assert scene.owner.retry(job) is False
    scene.settle(fault, waiting)
    assert ["dead:jobs"] == places(scene.client)[str(job.id)]


@pytest.mark.parametrize("fault", FAULTS)
def test_complete_and_claim(fault: str, scene: Scene) -> None:
    """The repeat answers both: the first is completed once, and one next job is held."""
    job = claimed(scene.owner)
    waiting = scene.strike(fault, "complete_next")
    following = scene.owner.complete(job, claim_next=True)
    assert following is not None
    scene.settle(fault, waiting)
    assert scene.expected[1] == following.id
    assert [following.id] == ids(scene.client, held_key(scene.owner))
    scene.owner.complete(following)
    assert 2 == scene.jq.counts("q").queues["q"].counters["completed"]


@pytest.mark.parametrize("fault", FAULTS)
def test_save_and_begun(fault: str, scene: Scene) -> None:
    """What is written while held is written once."""
    job = claimed(scene.owner)
    waiting = scene.strike(fault, "save")
    job.progress = 0.5
    job.save()
    scene.settle(fault, waiting)
    assert "0.5" == stored(scene.client, job)["progress"]
    waiting = scene.strike(fault, "begun")
    job.begun()
    scene.settle(fault, waiting)
    scene.owner.complete(job)


@pytest.mark.parametrize("fault", ["cut_before", "lose_reply"])
def test_start(fault: str, scene: Scene) -> None:
    """A start whose answer is lost is made again under another id; the first one just lapses."""
    waiting = scene.strike(fault, "owner_start")
    with scene.jq.owner(id="x") as owner:
        waiting.wait()
        known = [name for name in scene.jq.live_owners() if name.startswith("x-")]
        assert (2 if fault == "lose_reply" else 1) == len(known)
        assert owner.id in known
        job = claimed(owner)
        assert [job.id] == ids(scene.client, held_key(owner))


@pytest.mark.parametrize("fault", FAULTS)
def test_beat_and_stop(fault: str, scene: Scene) -> None:
    """Beats and the stop are asked again too."""
    scene.owner._beats.set_timeouts(5, 0.3 if fault == "hold" else None)
    job = claimed(scene.owner)
    waiting = scene.strike(fault, "beat")
    assert scene.owner.beat()
    scene.settle(fault, waiting)
    assert [job] == scene.owner.held
    other = scene.jq.owner().start()
    other._beats.set_timeouts(5, 0.3 if fault == "hold" else None)
    held = claimed(other)
    waiting = scene.strike(fault, "owner_stop")
    other.stop(release=False)
    scene.settle(fault, waiting)
    assert 1 == scene.jq.recover().jobs
    assert ["queue:q"] == places(scene.client)[str(held.id)]
    scene.owner.complete(job)


def test_a_stop_that_failed(scene: Scene) -> None:
    """A stop that gets no answer at all leaves what recovery finds."""
    other = scene.jq.owner().start()
    name, held = other.id, claimed(other)
    for _ in range(2):
        scene.strike("cut_before", "owner_stop")
    with pytest.raises(NetworkError):
        other.stop(release=False)
    scene.client.zadd(HEARTBEAT, {name: 1}, xx=True)
    assert 1 == scene.jq.recover().jobs
    assert ["queue:q"] == places(scene.client)[str(held.id)]


@pytest.mark.parametrize("verb", [*ENDINGS, "complete_next"])
@pytest.mark.parametrize("executed", [False, True])
def test_given_up(verb: str, executed: bool, scene: Scene) -> None:
    """A call that gave up leaves the job held; repeated, it comes to the same end."""
    job = claimed(scene.owner)
    job.result = 7
    script = "complete_next" if verb == "complete_next" else "finish"
    call = ENDINGS.get(verb, (lambda owner, job: owner.complete(job, claim_next=True), ""))[0]
    scene.strike("lose_reply" if executed else "cut_before", script)
    scene.strike("cut_before", script)
    with pytest.raises(NetworkError) as caught:
        call(scene.owner, job)
    assert str(job.id) == caught.value.job_id
    assert [job] == scene.owner.held
    job.result = "changed meanwhile"  # what was sent once is sent again
    scene.owner.beat()
    call(scene.owner, job)
    assert 7 == scene.jq.get_job_data(job, "result")
    assert job not in scene.owner.held
    found = places(scene.client)
    assert all(len(where) == 1 for where in found.values())
    assert len(found) == (4 if verb.startswith(("complete", "fail")) else 5)


def test_another_ending_after_giving_up(scene: Scene) -> None:
    """A job that was completed unknown to the caller can be neither failed nor released."""
    for ending in ("fail", "release"):
        job = claimed(scene.owner)
        scene.strike("lose_reply", "finish")
        scene.strike("cut_before", "finish")
        with pytest.raises(NetworkError):
            scene.owner.complete(job)
        if ending == "fail":
            with pytest.raises(ClaimLostError):
                scene.owner.fail(job)
        else:
            assert 0 == scene.owner.release(job)
        assert "__completed__" == scene.jq.get_job_data(job, "status")
        assert str(job.id) not in places(scene.client)


def test_refused_after_a_lost_reply(scene: Scene) -> None:
    """The first request may have been executed, as here: what it carried is what is repeated."""
    job = claimed(scene.owner)
    job.result = "old"
    first, second = (fault(SCRIPTS["finish"].sha)
                     for fault in (scene.proxy.lose_reply, scene.proxy.hold))  # fmt: skip
    caller = Caller(lambda: scene.owner.complete(job)).start()
    first.wait(), second.wait()
    scene.client.set(ATTEMPTS, "x")
    second.release()
    with pytest.raises(RedisError, match="WRONGTYPE"):
        caller.get()
    scene.client.delete(ATTEMPTS)
    job.result = "new"
    scene.owner.complete(job)
    assert "old" == scene.jq.get_job_data(job, "result")


def test_many_given_up_half_way(scene: Scene) -> None:
    """Of many jobs in slices those that were answered are ended, the others are still held."""
    add_many(scene.jq, 195)
    jobs = scene.owner.claim_many("q", 100) + scene.owner.claim_many("q", 50)
    for job in jobs:
        job.result = str(job.id)
    last = str(jobs[120].id).encode()
    scene.proxy.lose_reply(last)
    for _ in range(20):  # a request of several chunks may meet more than one of them
        scene.proxy.cut_before(last)
    with pytest.raises(NetworkError):
        scene.owner.complete_many(jobs)
    scene.proxy.heal()
    assert jobs[100:] == scene.owner.held
    scene.owner.complete_many(scene.owner.held)
    assert 150 == scene.jq.counts("q").queues["q"].counters["completed"]
    assert 50 == len(places(scene.client))


# Calls of a queue, which are never repeated unseen.


@attrs.frozen
class Again:
    """A call, the script that it sends, and what makes its work possible."""

    script: str
    prepare: Callable[[Scene], Any]
    call: Callable[[Scene, Any], Any]


def held_by_a_dead_owner(scene: Scene) -> None:
    """Let an owner die with two jobs."""
    other = scene.jq.owner().start()
    other.claim_many("q", 2)
    let_die(other, scene.client)


def dead_job(scene: Scene) -> str:
    """Bury a job."""
    job = claimed(scene.owner)
    scene.owner.bury(job)
    return str(job.id)


def due_jobs(scene: Scene) -> None:
    """Let two delayed jobs be due."""
    for _ in range(2):
        scene.jq.add_job({"queue": "q", "expire": LONG}, delay=1000)
    make_due(scene.client)


AGAIN = {
    "recover, fence": Again("fence", held_by_a_dead_owner, lambda s, _: s.jq.recover()),
    "recover": Again("recover", held_by_a_dead_owner, lambda s, _: s.jq.recover()),
    "promote_due": Again("promote", due_jobs, lambda s, _: s.jq.promote_due()),
    "revive": Again("revive", dead_job, lambda s, job: s.jq.revive(job)),
    "purge_dead": Again("purge_dead", dead_job, lambda s, _: s.jq.purge_dead()),
    "cancel": Again("cancel", lambda s: s.expected[2], lambda s, job: s.jq.cancel(job)),
    "clear_queue": Again("clear_queue", lambda s: None, lambda s, _: s.jq.clear_queue("q")),
    "delete_job": Again("delete_job", lambda s: s.expected[2], lambda s, j: s.jq.delete_job(j)),
    "pause": Again("set_paused", lambda s: None, lambda s, _: s.jq.pause("q")),
    "set_concurrency": Again(
        "set_concurrency", lambda s: None, lambda s, _: s.jq.set_concurrency("q", 3)
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", AGAIN)
def test_made_again(name: str, fault: str, scene: Scene) -> None:
    """It raises, nothing is lost or doubled, and the call made again finishes the work."""
    case = AGAIN[name]
    prepared = case.prepare(scene)
    waiting = scene.strike(fault, case.script)
    with pytest.raises(NetworkError):
        case.call(scene, prepared)
    assert all(len(where) == 1 for where in places(scene.client).values())
    case.call(scene, prepared)
    before = places(scene.client)
    count = calls(scene.client)["evalsha"]
    waiting.release()
    if fault == "hold":
        eventually(lambda: calls(scene.client)["evalsha"] > count, "the late request")
    assert before == places(scene.client)
    assert not scene.client.keys("JobQueue:processing:*")
    wanted = {"recover": 5, "recover, fence": 5, "promote_due": 7, "revive": 5, "purge_dead": 4,
              "cancel": 4, "clear_queue": 0, "delete_job": 4}  # fmt: skip
    assert wanted.get(name, 5) == len(before)
    assert {"queue:q"} >= {where for (where,) in before.values()}


@pytest.mark.parametrize("fault", ["cut_before", "lose_reply"])
@pytest.mark.parametrize("how", [{}, {"delay": 100}])
def test_adding(fault: str, how: dict[str, float], scene: Scene) -> None:
    """An add is never repeated; the error carries the id, and the job is in one place or none."""
    scene.strike(fault, "add_delayed" if how else "add_job")
    job = Job(queue="new", expire=LONG)
    with pytest.raises(NetworkError) as caught:
        scene.jq.add_job(job, **how)  # type: ignore[arg-type]
    assert caught.value.job_id == job.id
    where = "delayed:jobs" if how else "queue:new"
    assert places(scene.client).get(str(job.id), []) == ([where] if fault == "lose_reply" else [])
    assert bool(scene.jq.locate(job)) is (fault == "lose_reply")


def test_due_with_remove(scene: Scene) -> None:
    """Ids that were taken off by a call that failed are told by nobody: the caller's risk."""
    due_jobs(scene)
    scene.strike("lose_reply", "due")
    with pytest.raises(NetworkError):
        scene.jq.due(remove=True)
    assert not scene.client.exists(DELAYED, DEAD)
    assert 7 == len(scene.jq.get_job_ids())


def patiently(call: Callable[[], Any]) -> None:
    """Make a call until it is answered."""
    for last in (False, False, False, True):
        try:
            call()
            return
        except NetworkError:
            if last:
                raise


def test_nothing_is_lost_when_the_network_comes_and_goes(scene: Scene) -> None:
    """Claims and endings through a network that cuts at random places: every job once."""
    add_many(scene.jq, 60)
    done: list[str] = []
    step = 0
    while len(done) < 65:
        step += 1
        assert step < 2000
        if step % 3 == 0:
            scene.proxy.cut()
        if step % 5 == 0:
            scene.strike("lose_reply", "claim")
        if step % 7 == 0:
            scene.strike("lose_reply", "finish")
        try:
            job = scene.owner.claim("q", blocking=step % 2 == 0, timeout=0.2)
        except NetworkError:
            scene.proxy.heal()
            scene.owner.beat()
            continue
        if job is None:
            continue
        patiently(lambda: scene.owner.complete(job))
        done.append(str(job.id))
    scene.proxy.heal()
    scene.jq.close()
    assert 65 == len(set(done))
    assert 65 == scene.jq.counts("q").queues["q"].counters["completed"]
    assert {} == places(scene.client)
    add(scene.jq)
    claimed(scene.owner)
