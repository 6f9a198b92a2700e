"""Whatever comes late is refused and changes nothing: every call, every way to lose a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
import redis

from redis_jobqueue import ClaimLostError, Job, JobQueue, NetworkError, Owner
from redis_jobqueue.operations import claims, finishing
from redis_jobqueue.operations.request import Request

HEARTBEAT = "JobQueue:owners:heartbeat"
SIZE = 1 << 20


@attrs.define(eq=False)
class Scene:
    """Two owners, whose hearts are quiet, and a job that the first one holds."""

    jq: JobQueue
    raw: redis.Redis
    first: Owner
    second: Owner
    job: Job
    kept: Job | None = None
    """What is held anew, so that its token lives."""

    @classmethod
    def of(cls, jq: JobQueue, raw: redis.Redis) -> Scene:
        """Set it: three jobs, the first of which is held and changed."""
        owners = [jq.owner(interval=300, lifetime=900).start() for _ in range(2)]
        jq.add_jobs([{"queue": "q", "expire": 600, "workload": n} for n in range(3)])
        job = owners[0].claim("q")
        assert job is not None
        job.message = "from the past"
        return cls(jq, raw, *owners, job)

    def everything(self) -> dict[bytes, Any]:
        """Give the whole content of the server, and which keys end by themselves."""
        return {key: (self.raw.dump(key), self.raw.ttl(key) < 0) for key in self.raw.keys("*")}

    def again(self, owner: Owner) -> Job:
        """Let an owner claim the job anew; it stands at the head."""
        self.kept = owner.claim("q")
        assert self.kept is not None and self.job.id == self.kept.id
        return self.kept


# Ways to lose a claim.


def recovered(scene: Scene) -> None:
    """The owner lapsed, and the job waits again."""
    scene.raw.zadd(HEARTBEAT, {scene.first.id: 1})
    assert 1 == scene.jq.recover().jobs


def held_by_another(scene: Scene) -> None:
    """And another holds it."""
    recovered(scene)
    scene.again(scene.second)


def fenced(scene: Scene) -> None:
    """The reaper died behind the fence: the entry is still in the owner's list."""
    scene.raw.zadd(HEARTBEAT, {scene.first.id: 1})
    scene.raw.zrem(HEARTBEAT, scene.first.id)
    scene.raw.delete(f"JobQueue:claims:{scene.first.id}")


def held_anew(scene: Scene) -> None:
    """The same owner gave it back, and holds it under a new token."""
    claim = attrs.evolve(scene.job._claim, tried={})
    scene.first.release(scene.job)
    scene.again(scene.first)
    scene.job._claim = claim


def held_anew_by_a_late_claim(scene: Scene) -> None:
    """The same owner holds it under the same token: its claim was executed once more."""
    claim = attrs.evolve(scene.job._claim, tried={})
    scene.first.release(scene.job)
    late = claims.claim_request(
        claim.owner, int(claim.field), [b"q"], 1, True, scene.jq._keys
    )
    assert b"good" == scene.jq._driver.send(late)[0]
    scene.job._claim = claim


def put_back_by_a_beat(scene: Scene) -> None:
    """The process let the token die, and the beat put the entry back."""
    claim = scene.job._claim
    scene.first._of_now().ended(claim.field)
    scene.first.beat()


def done_by_another(scene: Scene) -> None:
    """Another completed it, with another result."""
    recovered(scene)
    job = scene.again(scene.second)
    job.message = job.result = "the other's"
    scene.second.complete(job)


def buried_by_another(scene: Scene) -> None:
    """Another buried it."""
    recovered(scene)
    scene.second.bury(scene.again(scene.second), "the other's")


def taken_by_perl(scene: Scene) -> None:
    """It waited again, and Perl took it."""
    recovered(scene)
    job = scene.jq.get_next_job(queue="q")
    assert job is not None and scene.job.id == job.id


LOSSES = [
    recovered, held_by_another, fenced, held_anew, held_anew_by_a_late_claim, put_back_by_a_beat,
    done_by_another, buried_by_another, taken_by_perl,
]  # fmt: skip


# Calls that come late.


def ending_of(verb: str, scene: Scene) -> finishing.Ending:
    """What a finishing call sends of the scene's job."""
    return finishing.Ending.of(verb, scene.job, scene.job._claim, SIZE)


def ending(verb: str) -> Callable[[Scene], Iterator[Request]]:
    """Make a finishing call."""

    def requests(scene: Scene) -> Any:
        return finishing.finish(verb, [ending_of(verb, scene)], scene.jq._keys, limit=2)

    return requests


def completing_and_claiming(scene: Scene) -> Any:
    """Complete the job and claim another."""
    identity = scene.first._of_now()
    return finishing.complete_next(
        ending_of("complete", scene), identity.take_token(), identity.id, [b"q"], True,
        scene.jq._keys, holder=scene.first, strings="auto",
    )  # fmt: skip


CALLS: dict[str, Callable[[Scene], Any]] = {
    **{verb: ending(verb) for verb in ("complete", "fail", "retry", "bury", "requeue", "release")},
    "complete and claim": completing_and_claiming,
    "save": lambda scene: claims.save(scene.job, scene.jq._keys, max_size=SIZE),
    "begun": lambda scene: claims.begun([scene.job], scene.jq._keys),
}


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_a_request_from_before(
    name: str, lose: Callable[[Scene], None], jq: JobQueue, raw: redis.Redis
) -> None:
    """A request that was sent while the claim was good, and is executed when it is lost."""
    scene = Scene.of(jq, raw)
    operation = CALLS[name](scene)
    request = next(operation)
    lose(scene)
    before = scene.everything()
    reply = jq._driver.send(request)
    assert before == scene.everything()
    if name in ("save", "complete and claim", "begun"):
        with pytest.raises((StopIteration, ClaimLostError)) as told:
            operation.send(reply)
        if isinstance(told.value, StopIteration):  # what the owner makes of it is told below
            assert (told.value.value if name == "begun" else [told.value.value[0]]) == [0]
    else:
        assert [0] == reply


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_from_after(
    name: str, lose: Callable[[Scene], None], jq: JobQueue, raw: redis.Redis
) -> None:
    """A process that goes on as if nothing had happened is told, and changes nothing."""
    scene = Scene.of(jq, raw)
    lose(scene)
    before = scene.everything()
    owner, job = scene.first, scene.job
    job.message = "from the past"
    if name == "release":
        assert 0 == owner.release(job)
    else:
        with pytest.raises(ClaimLostError):
            if name == "complete and claim":
                owner.complete(job, claim_next="q")
            else:
                getattr(owner, name)(job)
    assert before == scene.everything()


@pytest.mark.parametrize("first", ["complete", "fail", "retry", "bury", "requeue", "release"])
@pytest.mark.parametrize("second", ["complete", "fail", "retry", "bury", "requeue", "release"])
def test_one_call_after_another(
    first: str, second: str, jq: JobQueue, raw: redis.Redis
) -> None:
    """The first was given up and is executed late, behind the second, which was answered."""
    scene = Scene.of(jq, raw)
    operation = ending(first)(scene)
    requests = [next(operation)]
    requests.append(operation.throw(NetworkError("no answer")))
    with pytest.raises(NetworkError):
        operation.throw(NetworkError("no answer"))
    getattr(scene.first, second)(scene.job)
    before = scene.everything()
    for request in requests:
        (answer,) = jq._driver.send(request)
        assert before == scene.everything()
        if first != second:
            # A repeat of these is believed, and that of a retry also says what came of it.
            believed = request is requests[1] and first in ("retry", "requeue", "release")
            buried = first == "retry" and second == "bury"
            assert (0 if not believed else 2 if buried else 1) == answer
