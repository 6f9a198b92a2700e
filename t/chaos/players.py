"""Who plays in a `World`, and what befalls them: all of it is drawn."""

from __future__ import annotations

from collections.abc import Callable

from chaos.consumers import VERBS, Consumers
from chaos.outsiders import Operators, Perl
from chaos.style import Style
from chaos.world import Actor, Client, World


class Play(Consumers, Operators, Perl):
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
