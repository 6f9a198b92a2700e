"""Who plays in a `World`: owners and their workers, operators, Perl, and fate."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs

from chaos.wire import PREFIX
from chaos.world import Actor, Client, World
from redis_jobqueue import (
    ClaimLostError,
    Job,
    JobDeletedError,
    JobQueueError,
    MaxMemoryError,
    NetworkError,
)

QUEUES = ["q", "q:w1-1", "other name"]
"""One looks like the list of owner w1-1 of queue q."""

SHARED = frozenset({b"q", b"other name"})
"""Queues that a home-made consumer moves entries of to a list without an owner."""

VERBS = ("complete", "complete", "complete and next", "fail", "retry", "bury", "requeue", "release")


@attrs.frozen
class Style:
    """How a schedule is played: each seed draws its own, so that rare mixes come up."""

    losing: float
    """Share of requests without an answer."""
    perl: float
    operators: float
    fate: float
    dying: float
    filling: bool
    jumping: bool
    deleting: bool
    diligent: bool
    """Whether hearts beat in time, so that owners live long and may recover others."""
    max_attempts: int

    @classmethod
    def drawn(cls, rng: random.Random) -> Style:
        """Draw one."""
        return cls(
            losing=rng.choice((0, 0.1, 0.3)),
            perl=rng.choice((0, 0.05, 0.2)),
            operators=rng.choice((0.15, 0.3)),
            fate=rng.choice((0.03, 0.1)),
            dying=rng.choice((0.05, 0.2)),
            filling=rng.random() < 0.3,
            jumping=rng.random() < 0.2,
            deleting=rng.random() < 0.5,
            diligent=rng.random() < 0.5,
            max_attempts=rng.choice((0, 0, 2)),
        )


class Play:
    """One schedule: what happens next is drawn, and drawn again, to the end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.style = Style.drawn(self.rng)
        self.operators = Client(world, "ops", skew=0, max_attempts=0)
        world.clients.append(self.operators)
        self.names = 0
        self.perl_hands: list[bytes] = []
        for _ in range(self.rng.randint(2, 3)):
            self.spawn()

    def run(self, steps: int) -> None:
        """Play until the server has executed so many requests, then clean up and judge."""
        while self.world.steps < steps:
            self.step()

    def step(self) -> None:
        """Let one thing happen."""
        draw, style = self.rng.random(), self.style
        if self.world.full and draw < 0.1:
            self.world.fill(False)
        elif draw < style.fate:
            self.fate()
        elif draw < style.fate + style.perl:
            self.perl()
        elif self.world.late and draw < style.fate + style.perl + 0.05:
            late = self.world.late
            self.world.execute(*late.pop(self.rng.randrange(len(late))))
        elif draw < style.fate + style.perl + 0.05 + style.operators:
            self.act(self.rng.choice(self.operators.workers))
        else:
            ready = [c for c in self.world.clients if not c.frozen and c is not self.operators]
            if ready:
                client = self.rng.choice(ready)
                who = [client.heart] if self.rng.random() < 0.1 else client.workers
                self.act(self.rng.choice(who))
            else:
                self.spawn()

    def spawn(self) -> Client:
        """Start a process."""
        self.names += 1
        skew = self.rng.choice((0, 0, -3600, 3600))
        client = Client(
            self.world, f"w{self.names}", skew=skew, max_attempts=self.style.max_attempts
        )
        self.world.clients.append(client)
        client.stopping = True
        return client

    # Fate.

    def fate(self) -> None:
        """Let something befall a process or the server."""
        rng, world = self.rng, self.world
        owners = [client for client in world.clients if client is not self.operators]
        draw = rng.random()
        if draw < 0.4:
            world.move_clock(rng.choice((10, 10, 10, 20, 40)))
            if self.style.diligent:
                self.beat_all(owners)
        elif draw < 0.4 + self.style.dying and owners:
            world.kill(rng.choice(owners))
        elif draw < 0.75 and owners:
            chosen = rng.choice(owners)
            chosen.frozen = not chosen.frozen
            world.trace.append(f"{chosen.name} {'freezes' if chosen.frozen else 'thaws'}")
        elif draw < 0.85 and self.style.jumping:
            world.jump(rng.choice((-40, 40)))
        elif draw < 0.9 and self.style.filling:
            world.fill(not world.full)
        elif len(owners) < 4:
            self.spawn()

    def beat_all(self, owners: list[Client]) -> None:
        """Let every heart that is not frozen beat."""
        for client in owners:
            if not client.frozen:
                for _ in range(2):  # an answer to the last, and another beat
                    self.act(client.heart)

    def act(self, actor: Actor) -> None:
        """Let an actor begin a call, or decide what becomes of its request."""
        if actor.call is None:
            call = self.call_for(actor)
            self.world.trace.append(f"{actor.name} begins {call.__name__}")
            actor.begin(call)
        elif self.rng.random() < self.style.losing:
            draw = self.rng.random()
            self.world.lose(actor, executed=draw < 0.4, late=draw < 0.7)
        else:
            self.world.deliver(actor)

    def call_for(self, actor: Actor) -> Callable[[], None]:
        """Choose what an actor does next."""
        if actor.client is self.operators:
            return self.operation(actor)
        if actor is actor.client.heart:
            return self.beat(actor)
        rng = self.rng
        if actor.client.stopping and actor is actor.client.workers[0]:
            return self.start(actor)
        if actor.hands and rng.random() < 0.7:
            job = rng.choice(actor.hands)
            draw = rng.random()
            if draw < 0.15:
                return self.save(actor, job)
            if draw < 0.3:
                return self.begun(actor, job)
            if draw < 0.35:
                return self.drop(actor, job)
            return self.finish(actor, job, rng.choice(VERBS))
        draw = rng.random()
        if draw < (0.25 if self.style.jumping else 0.08):
            return self.upkeep(actor)
        if draw < 0.11 and actor is actor.client.workers[0]:
            return self.stop(actor)
        if len(actor.hands) > 3:
            return self.finish_many(actor)
        return self.claim(actor)

    # What owners do.

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
        owner, rng = actor.client.owner, self.rng
        result = f"{job.id} by {actor.name}" if rng.random() < 0.5 else f"{job.id}"
        delay, both = rng.choice((0, 10, 30)), rng.sample(QUEUES, 2)

        def finish() -> None:
            lost = self.may_be_lost(actor, job)
            claim = job._claim
            repeated = claim is not None and bool(claim.tried)
            if not repeated:
                job.result = result
            try:
                if verb == "complete and next":
                    following = owner.complete(job, claim_next=both)
                    if following is not None:
                        actor.hands.append(following)
                elif verb == "retry":
                    owner.retry(job, delay)
                elif verb == "release":
                    if not owner.release(job):
                        raise ClaimLostError
                else:
                    getattr(owner, verb)(job)
            except NetworkError:
                return
            except JobDeletedError:
                assert job.id.encode() not in self.world.state.jobs
            except ClaimLostError:
                assert lost(), f"{verb} of a good claim was refused"
            except JobQueueError as error:
                assert "owner is not started" in str(error), error
                return
            else:
                if not actor.client.stopping:  # its stop may have ended the claim as well
                    self.told(job, claim, verb, repeated or actor.losses > 0)
            if job in actor.hands:
                actor.hands.remove(job)

        return finish

    def told(self, job: Job, claim: Any, verb: str, repeated: bool) -> None:
        """Fail unless what a caller was told is what became of the job."""
        verb = verb.partition(" ")[0]
        assert claim is not None, f"{verb} of what is not held was accepted"
        truth, state = self.world.truth, self.world.state
        done = truth.finished.get((claim.owner, claim.field, claim.number))
        if done == verb or (done, verb) == ("bury", "retry"):
            return
        assert repeated, f"told that {job.id} was ended by {verb}, and it was {done}"
        if verb in ("complete", "fail", "bury"):
            assert done is None or job.id.encode() not in state.jobs, (verb, done)
        else:
            assert done is None, (verb, done)

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
                assert "owner is not started" in str(error), error

        return upkeep

    # What operators do.

    def operation(self, actor: Actor) -> Callable[[], None]:
        """Make a call of an operator or a producer."""
        rng, jq = self.rng, actor.client.jq
        queue = rng.choice(QUEUES)
        known = list(self.world.truth.jobs)
        job_id = rng.choice(known) if known else b"J1"
        delay = rng.choice((None, None, None, None, None, 0, 10, 30))
        new = {"queue": queue, "expire": rng.choice((0, 60, 600)), "workload": "w"}
        skew = rng.choice((0, 0, 0, -3600, 3600))
        limit, coin = rng.choice((0, 2, 5)), rng.random() < 0.5

        def add() -> None:
            actor.client.skew = skew
            if delay is None:
                jq.add_job(new, LPUSH=coin)
            else:
                jq.add_job(new, delay=delay)

        def update() -> None:
            job = jq.load_job(job_id)
            if job is not None:
                job.progress = 0.5
                jq.update_job(job)

        calls: list[Callable[[], Any]] = [
            *[add] * 16,
            lambda: jq.add_jobs([new, new | {"expire": 60}], LPUSH=coin),
            *[lambda: jq.recover(max_attempts=limit)] * 3,
            lambda: jq.recover(queue),
            *[lambda: jq.promote_due(queue if coin else None, limit=3)] * 3,
            lambda: jq.pause(queue, expected=coin or None),
            *[lambda: jq.resume(queue, expected=coin or None)] * 2,
            lambda: jq.revive(job_id),
            update,
        ]
        if self.style.deleting:
            calls += [
                lambda: jq.cancel(job_id),
                lambda: jq.delete_job(job_id),
                lambda: jq.purge_dead(60, keep=1),
                lambda: jq.clear_queue(queue),
                lambda: jq.due(2, remove=True),
                lambda: jq.get_next_job(queue=queue),
            ]
        chosen = rng.choice(calls)

        def operate() -> None:
            try:
                chosen()
            except (NetworkError, MaxMemoryError, JobDeletedError):
                pass

        return operate

    # What Perl does.

    def perl(self) -> None:
        """Let a Perl process do one thing, as the module does it."""
        rng, state = self.rng, self.world.state
        queue = rng.choice(QUEUES).encode()
        draw = rng.random()
        if self.perl_hands and draw < 0.3:
            self.perl_load(self.perl_hands.pop())
        elif draw < 0.5:
            self.perl_pop(queue)
        elif draw < 0.7 and state.jobs:
            self.perl_update(rng.choice(sorted(state.jobs)), queue)
        elif draw < 0.8 and state.jobs and self.style.deleting:
            self.perl_delete(rng.choice(sorted(state.jobs)))
        elif draw < 0.9:
            self.perl_push(queue)
        elif queue in SHARED:
            self.perl_share(queue)

    def perl_pop(self, queue: bytes) -> None:
        """Take the next entry off a queue, as Perl does."""
        pop = (b"LPOP", PREFIX + b"queue:" + queue)
        [entry] = self.world.commands("perl", "perl pop", [queue], pop)
        if entry:
            self.perl_hands.append(entry)

    def perl_load(self, entry: bytes) -> None:
        """Load the job of an entry, as Perl does; what is live must not look deleted."""
        job_id, _, epoch = entry.partition(b" ")
        stored = self.world.state.jobs.get(job_id)
        if stored is not None and stored.expire != b"0":
            expire = (b"EXPIRE", PREFIX + job_id, stored.expire)
            self.world.commands("perl", "perl load", [entry], expire)

    def perl_update(self, job_id: bytes, queue: bytes) -> None:
        """Write into any job, as Perl's update_job does."""
        stored = self.world.state.jobs[job_id]
        key = PREFIX + job_id
        fields = [b"progress", b"0.25", b"updated", b"1"]
        if self.rng.random() < 0.1:
            fields += [b"queue", queue]
        live = (b"EXPIRE", key, stored.expire) if stored.expire != b"0" else (b"PERSIST", key)
        self.world.commands(
            "perl", "perl update", [job_id], (b"MULTI",), live, (b"HSET", key, *fields), (b"EXEC",)
        )

    def perl_delete(self, job_id: bytes) -> None:
        """Delete any job, as Perl does."""
        stored = self.world.state.jobs[job_id]
        self.world.commands(
            "perl", "perl delete", [job_id],
            (b"LREM", PREFIX + b"queue:" + stored.queue, 0, stored.entry),
            (b"DEL", PREFIX + job_id),
        )  # fmt: skip

    def perl_push(self, queue: bytes) -> None:
        """Push an entry that is nobody's."""
        epoch = self.world.now // 1000 + self.rng.choice((-100, 100))
        entry = self.rng.choice((b"", b"0", b"a:b", b"GHOST", b"GHOST %d" % epoch, b"a b c"))
        push = (b"RPUSH", PREFIX + b"queue:" + queue, entry)
        self.world.commands("perl", "perl push", [queue, entry], push)

    def perl_share(self, queue: bytes) -> None:
        """Move an entry to the queue's list without an owner, or finish one there."""
        shared = self.world.state.shared.get(queue)
        mine = PREFIX + b"processing:" + queue
        if shared and self.rng.random() < 0.5:
            done = (b"LREM", mine, 1, self.rng.choice(shared))
            self.world.commands("perl", "perl unshare", [queue], done)
        else:
            move = (b"LMOVE", PREFIX + b"queue:" + queue, mine, b"LEFT", b"LEFT")
            self.world.commands("perl", "perl share", [queue], move)
