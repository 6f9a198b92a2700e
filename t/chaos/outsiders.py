"""What operators, producers and Perl do in a `World`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from chaos.style import QUEUES, SHARED, Style
from chaos.wire import PREFIX, SLOWLY
from chaos.world import Actor, World
from redis_jobqueue import JobDeletedError, MaxMemoryError, NetworkError


class Operators:
    """Makes the calls of operators and producers."""

    world: World
    rng: random.Random
    style: Style

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


class Perl:
    """Does what Perl processes do, command by command."""

    world: World
    rng: random.Random
    style: Style
    perl_hands: list[bytes]

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
            expire = (b"EXPIRE", PREFIX + job_id, stored.expire + SLOWLY)
            self.world.commands("perl", "perl load", [entry], expire)

    def perl_update(self, job_id: bytes, queue: bytes) -> None:
        """Write into any job, as Perl's update_job does."""
        stored = self.world.state.jobs[job_id]
        key = PREFIX + job_id
        fields = [b"progress", b"0.25", b"updated", b"1"]
        if self.rng.random() < 0.1:
            fields += [b"queue", queue]
        lasts = stored.expire == b"0"
        live = (b"PERSIST", key) if lasts else (b"EXPIRE", key, stored.expire + SLOWLY)
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
