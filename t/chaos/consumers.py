"""What owners and their workers do in a `World`, and whether they are told the truth."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from chaos.style import QUEUES
from chaos.world import Actor, World
from redis_jobqueue import (
    ClaimLostError,
    Job,
    JobDeletedError,
    JobQueueError,
    MaxMemoryError,
    NetworkError,
)

VERBS = ("complete", "complete", "complete and next", "fail", "retry", "bury", "requeue", "release")


class Consumers:
    """Makes the calls of owners; each method gives a call for an actor to make."""

    world: World
    rng: random.Random

    def beat(self, actor: Actor) -> Callable[[], None]:
        """Make a call that beats, as the heart's thread does it."""
        owner = actor.client.owner

        def beat() -> None:
            try:
                owner._beat()
            except JobQueueError:
                owner._heart.failed()

        return beat

    def start(self, actor: Actor) -> Callable[[], None]:
        """Make a call that starts the owner."""
        client = actor.client

        def start() -> None:
            try:
                client.owner.start()
                client.stopping = False
            except NetworkError:
                pass

        return start

    def stop(self, actor: Actor) -> Callable[[], None]:
        """Make a call that stops the owner."""
        client, release = actor.client, self.rng.random() < 0.7

        def stop() -> None:
            client.stopping = True
            try:
                client.owner.stop(release=release)
            except NetworkError:
                pass

        return stop

    def claim(self, actor: Actor) -> Callable[[], None]:
        """Make a call that claims one job or several."""
        rng, owner = self.rng, actor.client.owner
        names = rng.sample(QUEUES, rng.randint(1, 3))
        count, mark = rng.choice((1, 1, 2, 3)), rng.random() < 0.8

        def claim() -> None:
            try:
                if count > 1:
                    jobs = owner.claim_many(names, count, mark=mark, order="listed")
                else:
                    job = owner.claim(names, mark=mark, order="listed")
                    jobs = [job] if job else []
                actor.hands += jobs
            except (NetworkError, JobDeletedError):
                pass
            except JobQueueError as error:
                assert "owner" in str(error), error

        return claim

    def drop(self, actor: Actor, job: Job) -> Callable[[], None]:
        """Make a call that forgets a job: nobody holds it any more."""

        def drop() -> None:
            actor.hands.remove(job)

        return drop

    def save(self, actor: Actor, job: Job) -> Callable[[], None]:
        """Make a call that saves a job's progress."""
        progress = self.rng.random()

        def save() -> None:
            fenced = self.may_be_lost(actor, job)
            job.progress = progress
            try:
                job.save()
            except (NetworkError, MaxMemoryError, JobDeletedError):
                pass
            except ClaimLostError:
                assert fenced() or actor.losses, "a good claim was refused"

        return save

    def begun(self, actor: Actor, job: Job) -> Callable[[], None]:
        """Make a call that says that work begins."""

        def begun() -> None:
            fenced = self.may_be_lost(actor, job)
            try:
                job.begun()
            except NetworkError:
                pass
            except ClaimLostError:
                assert fenced(), "a good claim was refused"

        return begun

    def may_be_lost(self, actor: Actor, job: Job) -> Callable[[], bool]:
        """Make a function that tells whether the claim that a job has now can be lost rightly."""
        claim, truth = job._claim, self.world.truth

        def lost() -> bool:
            return claim is None or (
                claim.owner in truth.fenced | truth.left
                or (claim.owner, claim.field, claim.number) in truth.finished
            )

        return lost

    def finish(self, actor: Actor, job: Job, verb: str) -> Callable[[], None]:
        """Make a call that ends a claim, and checks that it was told the truth."""
        rng = self.rng
        result = f"{job.id} by {actor.name}" if rng.random() < 0.5 else f"{job.id}"
        delay, both = rng.choice((0, 10, 30)), rng.sample(QUEUES, 2)

        def finish() -> None:
            lost, claim = self.may_be_lost(actor, job), job._claim
            repeated = claim is not None and bool(claim.tried)
            job.result = result  # of no account where the call repeats an earlier one
            try:
                self.end(actor, job, verb, delay, both)
            except NetworkError:
                return
            except JobDeletedError:
                assert job.id.encode() not in self.world.state.jobs
            except ClaimLostError:
                assert lost(), f"{verb} of a good claim was refused"
                assert actor.client.stopping or not self.was_done(claim, verb)
            except JobQueueError as error:
                assert "owner" in str(error), error
                return
            else:
                if not actor.client.stopping:  # its stop may have ended the claim as well
                    self.told(job, claim, verb, repeated or actor.losses > 0)
            if job in actor.hands:
                actor.hands.remove(job)

        return finish

    def was_done(self, claim: Any, verb: str) -> bool:
        """Tell whether a call did what it should, so that its repeat must say so."""
        verb = verb.partition(" ")[0]
        if claim is None or verb == "bury" or set(claim.tried) != {verb}:
            return False  # another verb may have ended it; what was buried may be revived
        return self.world.truth.finished.get((claim.owner, claim.field, claim.number)) == verb

    def end(self, actor: Actor, job: Job, verb: str, delay: float, queues: list[str]) -> None:
        """End a claim."""
        owner = actor.client.owner
        if verb == "complete and next":
            following = owner.complete(job, claim_next=queues, order="listed")
            if following is not None:
                actor.hands.append(following)
        elif verb == "retry":
            owner.retry(job, delay)
        elif verb == "release":
            if not owner.release(job):
                raise ClaimLostError
        else:
            getattr(owner, verb)(job)

    def told(self, job: Job, claim: Any, verb: str, repeated: bool) -> None:
        """Fail unless what a caller was told is what became of the job."""
        verb = verb.partition(" ")[0]
        assert claim is not None, f"{verb} of what is not held was accepted"
        truth, state = self.world.truth, self.world.state
        done = truth.finished.get((claim.owner, claim.field, claim.number))
        if done == verb or (done, verb) == ("bury", "retry"):
            return
        assert repeated, f"told that {job.id} was ended by {verb}, and it was {done}"
        job_id = job.id.encode()
        if verb == "bury":
            assert state.where(job_id) in ("dead", "gone"), done
        elif verb in ("complete", "fail"):  # perhaps by another, but with the same outcome
            assert job_id not in state.jobs or truth.jobs[job_id].status == "ended", done
        else:
            assert done in (None, "gone"), (verb, done)

    def finish_many(self, actor: Actor) -> Callable[[], None]:
        """Make a call that ends all that a worker has in hand."""
        owner, verb = actor.client.owner, self.rng.choice(("complete_many", "release"))

        def finish_many() -> None:
            jobs = [job for job in actor.hands if job._claim is not None]
            try:
                getattr(owner, verb)(jobs)
            except NetworkError:
                return
            except (ClaimLostError, JobDeletedError):
                pass
            actor.hands[:] = [job for job in actor.hands if job._claim is not None]

        return finish_many

    def upkeep(self, actor: Actor) -> Callable[[], None]:
        """Make a call that recovers, promotes and sweeps."""
        owner = actor.client.owner

        def upkeep() -> None:
            try:
                owner.upkeep()
            except NetworkError:
                pass
            except JobQueueError as error:
                assert "owner" in str(error), error

        return upkeep
