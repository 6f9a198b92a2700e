"""A world in which a seed decides everything: who runs, what is lost, what time it is.

Processes are threads here, of which one runs at a time, and each stops where it
sends a request.  The world then lets the server execute it, now or much later,
gives the answer or loses it, and holds every state against `rules.Truth`.
"""

from __future__ import annotations

import logging
import random
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from chaos.events import Belief, Event
from chaos.rules import Truth
from chaos.wire import SLICES, State, Wire, read_state
from redis_jobqueue import JobQueue, NetworkError, Owner
from redis_jobqueue import claiming, heart, job, lifecycle, management, owner, queue
from redis_jobqueue.connection import drive, sorted_error
from redis_jobqueue.identity import Identity
from redis_jobqueue.operations.request import Command, Operation, Pipeline, Request, Script

START_MS = 1_700_000_000_000
STEP_MS = 1
LIFETIME_MS = 30_000


class Killed(BaseException):
    """The process ends here: nothing that it has not sent is sent any more."""


class Actor:
    """One thread of a process."""

    def __init__(self, world: World, client: Client, name: str) -> None:
        self.world = world
        self.client = client
        self.name = f"{client.name}.{name}"
        self.hands: list[Any] = []
        self.call: Callable[[], None] | None = None
        self.request: Request | None = None
        self.losses = self.began = 0
        self._answer: Any = None
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def begin(self, call: Callable[[], None]) -> None:
        """Let it make a call, up to its first request."""
        self.call, self.losses, self.began = call, 0, self.world.steps
        self._run()

    def answer(self, answer: Any) -> None:
        """Give it the answer to its request; an exception is raised there."""
        self._answer = answer
        self._run()

    def send(self, request: Request) -> Any:
        """Stop with a request until it is answered."""
        if self.client.dead:
            raise Killed
        if isinstance(request, Script) and request.name == "beat" and not self.losses:
            self.client.hold_living(request)
        self.request = request
        self.world.baton.release()
        self._go.acquire()
        answer, self._answer, self.request = self._answer, None, None
        if self.client.dead:
            raise Killed
        try:
            if isinstance(answer, BaseException):
                raise answer
            return answer
        finally:
            del answer  # in a circle with its traceback it would keep jobs alive

    def end(self) -> None:
        """End the thread of a dead process."""
        if self.call is not None:
            self._run()
        self.call = None
        self._go.release()
        self._thread.join()

    def _run(self) -> None:
        self.world.running = self
        self._go.release()
        self.world.baton.acquire()
        if self.world.failure is not None:
            raise self.world.failure

    def _live(self) -> None:
        while True:
            self._go.acquire()
            if self.call is None:
                return
            try:
                self.call()
            except Killed:
                self.hands.clear()
            except BaseException as error:
                self.world.failure = error
            self.call = self.request = None
            self.world.baton.release()


class HandDriver:
    """Takes the place of `connection.Driver`: the world decides what becomes of a request."""

    def __init__(self, world: World, address: Any) -> None:
        self._world = world
        self.address = address
        # With deadlines, so that an owner takes no driver of its own.
        self.connection_timeout = self.operation_timeout = 5.0
        self.reconnect_on_error = True

    def send(self, request: Request) -> Any:
        """Send a request."""
        running = self._world.running
        assert running is not None
        return running.send(request)

    def run(self, operation: Operation[Any]) -> Any:
        """Run an operation."""
        return drive(operation, self.send)

    def connect(self) -> None:
        """Connect to nothing."""

    close = connect


class HandLock:
    """Takes the place of a lock that is held while a request is sent."""

    WAIT = Command((b"wait for a lock",))

    def __init__(self, world: World) -> None:
        self._world = world
        self._locked = False

    def __enter__(self) -> None:
        while self._locked:
            assert self._world.running is not None
            self._world.running.send(self.WAIT)
        self._locked = True

    def __exit__(self, *failure: object) -> None:
        self._locked = False


class Client:
    """A process with one owner, whose heart and workers are threads."""

    def __init__(self, world: World, name: str, *, skew: int, max_attempts: int) -> None:
        self.world = world
        self.name = name
        self.dead = self.frozen = self.stopping = False
        self.skew = skew
        """Seconds by which its clock is wrong."""
        self.births = 0
        self.jq = JobQueue(world.base, check_maxmemory=False)
        self.owner: Owner = self.jq.owner(interval=5, lifetime=30, max_attempts=max_attempts)
        self.owner._beats = HandDriver(world, None)  # type: ignore[assignment]
        self.owner._lock = HandLock(world)  # type: ignore[assignment]
        self.owner._heart.start = lambda: None  # type: ignore[method-assign]
        self.heart = Actor(world, self, "heart")
        self.workers = [Actor(world, self, f"worker{n}") for n in (1, 2)]
        self.actors = [self.heart, *self.workers]

    def beliefs(self) -> Iterator[Belief]:
        """Give the claims of the jobs that its workers have in hand."""
        for worker in self.workers:
            for held in worker.hands:
                claim = held._claim
                if claim is not None:
                    unsure = bool(claim.tried) or self.stopping
                    yield Belief(claim.owner, claim.field, claim.number, claim.job_id, unsure)

    def hold_living(self, beat: Script) -> None:
        """Fail if a beat calls a token living that nobody has in hand or asks for."""
        if self.stopping:  # then the stop has all of them in hand
            return
        owner, living = beat.args[1], set(beat.args[4:])
        known = {belief.field for belief in self.beliefs() if belief.owner == owner}
        for actor in self.workers:
            asked = actor.request
            if isinstance(asked, Script) and asked.name in ("claim", "complete_next"):
                known.add(asked.args[2])
        assert living <= known, f"{living - known} live, and nobody knows them"

    def kill(self) -> None:
        """End it at once."""
        self.dead = True
        for actor in self.actors:
            actor.end()
            actor.hands.clear()


class World:
    """Everything of one schedule."""

    def __init__(self, wire: Wire, base: JobQueue, seed: int, shared: frozenset[bytes]) -> None:
        self.wire = wire
        self.rng = random.Random(seed)
        self.seed = seed
        self.shared = shared
        self.base = JobQueue(base, check_maxmemory=False)
        self.base._driver = HandDriver(self, base._driver.address)  # type: ignore[assignment]
        self.now = START_MS
        self.server_offset = 0
        self.jumped = 0
        """The step at which the server's clock was last set."""
        self.beaten: dict[bytes, int] = {}
        """Owner -> the moment of its last beat, on a clock that is never set."""
        self.truth = Truth(wire)
        self.clients: list[Client] = []
        self.late: list[tuple[str, Script]] = []
        self.baton = threading.Semaphore(0)
        self.running: Actor | None = None
        self.failure: BaseException | None = None
        self.trace: list[str] = []
        self.steps = 0
        self.full = False
        self._ids = 0
        wire.slice = self.rng.choice(SLICES)
        wire.send((b"FLUSHALL",), wire.clock(self.now))
        self.state = State()

    # Time, as the modules under test see it.

    def time(self) -> float:
        """Give the time of the running process, seconds since 1970."""
        skew = self.running.client.skew if self.running else 0
        return (self.now - self.server_offset) / 1000 + skew

    def monotonic(self) -> float:
        """Give a clock that the server's jumps leave alone."""
        return self._true_ms() / 1000

    def _true_ms(self) -> int:
        return self.now - self.server_offset - START_MS

    def new_id(self) -> str:
        """Make an id."""
        self._ids += 1
        return f"J{self._ids}"

    def new_identity(self, prefix: str) -> Identity:
        """Make an identity whose name is the same in every run of a seed."""
        assert self.running is not None
        client = self.running.client
        client.births += 1
        return Identity(f"{client.name}-{client.births}")

    # The server.

    def execute(self, who: str, request: Request) -> Any:
        """Let the server execute a request; returns the reply."""
        if isinstance(request, Pipeline):
            return [self.execute(who, each) for each in request.requests]
        assert isinstance(request, (Script, Command)), request
        kind = request.name if isinstance(request, Script) else str(request.args[0])
        keys = request.keys if isinstance(request, Script) else ()
        args: Any = request.args
        return self.commands(who, kind, args, self.wire.words(request), keys=keys)[-1]

    def commands(
        self, who: str, kind: str, args: Sequence[bytes], *commands: Any,
        keys: Sequence[bytes] = (), moved: int = 0,
    ) -> list[Any]:  # fmt: skip
        """Execute commands as one request, and hold the new state against the rules."""
        self.now += STEP_MS + moved
        self.steps += 1
        wire = self.wire
        clock, *replies, snapshot = wire.send(
            wire.clock(self.now, moved), *commands, wire.snapshot()
        )
        assert clock == 1, clock
        errors = [reply for reply in replies if isinstance(reply, Exception)]
        reply = errors[0] if errors else replies[-1] if replies else 1
        if kind == "lapsed" and not errors:  # a set has no order, but a seed must have one
            reply[1].sort()
            reply[2].sort()
        state = read_state(snapshot, self.shared)
        self.trace.append(f"{self.steps}: {who} {kind} {_shown(args)} -> {_shown(reply)}")
        before, self.state = self.state, state
        beliefs = [b for client in self.clients if not client.dead for b in client.beliefs()]
        self.truth.check(Event(kind, args, keys, reply, before, state, self.now), beliefs)
        if kind in ("beat", "owner_start") and reply not in (0, [0]):
            self.beaten[args[0] if kind == "owner_start" else args[1]] = self._true_ms()
        return replies

    def move_clock(self, seconds: int) -> None:
        """Let time pass for everybody."""
        self.commands("world", "clock", [b"%d" % seconds], moved=seconds * 1000)

    def jump(self, seconds: int) -> None:
        """Set the server's clock; the clients' clocks stay right."""
        self.server_offset += seconds * 1000
        self.jumped = self.steps + 1
        self.commands("world", "clock", [b"jump %d" % seconds], moved=seconds * 1000)

    def fill(self, full: bool) -> None:
        """Let the server's memory be full, or not any more."""
        self.full = full
        limit = b"1" if full else b"0"
        assert self.wire.send((b"CONFIG", b"SET", b"maxmemory", limit)) == [b"OK"]
        self.trace.append(f"the server is {'full' if full else 'roomy'}")

    # What becomes of a request.

    def deliver(self, actor: Actor) -> None:
        """Execute an actor's request and give it the answer."""
        request = actor.request
        assert request is not None
        if request is HandLock.WAIT:
            return actor.answer(None)
        reply = self.execute(actor.name, request)
        if isinstance(request, Script) and request.name == "fence" and reply[0]:
            self._hold_reaper(actor, request.args[0])
        if isinstance(reply, Exception):
            reply = sorted_error(reply, request, self.base._driver.address)
        actor.answer(reply)

    def _hold_reaper(self, actor: Actor, fenced: bytes) -> None:
        # What owners recover by themselves must be dead, though the clock was set before.
        if actor.client.owner.id and self.jumped < actor.began:
            silent = self._true_ms() - self.beaten.get(fenced, -LIFETIME_MS)
            assert silent >= LIFETIME_MS, f"{fenced!r} beat {silent} ms before it was fenced"

    def lose(self, actor: Actor, *, executed: bool, late: bool) -> None:
        """Let an actor's request fail: executed all the same, later, or never."""
        request = actor.request
        if request is HandLock.WAIT:
            return actor.answer(None)
        if executed and request is not None:
            self.execute(actor.name + " (answer lost)", request)
        elif late and isinstance(request, Script):
            self.late.append((actor.name + " (late)", request))
        self.trace.append(f"{actor.name} gets no answer to {getattr(request, 'name', request)}")
        actor.losses += 1
        actor.answer(NetworkError("no answer"))

    def kill(self, client: Client) -> None:
        """Kill a process; what it has sent may still arrive."""
        for actor in client.actors:
            if isinstance(actor.request, Script) and self.rng.random() < 0.5:
                self.late.append((actor.name + " (of the dead)", actor.request))
        self.trace.append(f"{client.name} is killed")
        client.kill()
        self.clients.remove(client)

    def close(self) -> None:
        """End all threads."""
        if self.full:
            self.fill(False)
        self.failure = None
        for client in self.clients:
            client.kill()


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) < 300 else text[:300] + "..."


class Stage:
    """Puts the modules under test into one world after another."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.world: World | None = None
        patch.setattr(logging.getLogger("redis_jobqueue"), "disabled", True)
        clock = types.SimpleNamespace(
            time=lambda: self.of_now().time(),
            monotonic=lambda: self.of_now().monotonic(),
            sleep=lambda seconds: None,
        )
        for module in (queue, management, owner, claiming, lifecycle, job):
            patch.setattr(module, "time", clock)
        for beating in (heart, lifecycle):
            patch.setattr(beating, "suspend_clock", clock.monotonic)
        for adding in (queue, management):
            patch.setattr(adding, "new_id", lambda: self.of_now().new_id())
        patch.setattr(
            lifecycle, "new_identity", lambda prefix: self.of_now().new_identity(prefix)
        )

    def of_now(self) -> World:
        """Give the world that is on."""
        assert self.world is not None
        return self.world
