"""What must hold after every request that the server executed, whoever sent it.

`Truth` knows of each job what no key says: whether it was finished, how often
its delivery failed, who was fenced.  `Truth.check` holds the state before and
after a request against that, and against what the request may do at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from chaos.events import GROWS, MOVES, PARKED, TAKES, Belief, Event, Move, endings, refused
from chaos.wire import Claim, State, Stored, Wire


@attrs.define(slots=True)
class Ghost:
    """What is true of a job.

    Attributes:
        status: ``live``, ``ended`` (completed or failed) or ``taken`` (by Perl).
        attempts: failed deliveries.
        touched: a Perl update started its time to live while it was parked.
        strayed: a Perl update wrote another queue into it.
        skewed: its producer's clock was wrong.
        ended_as: the digest of its hash when it ended.
    """

    status: str = "live"
    attempts: int = 0
    touched: bool = False
    strayed: bool = False
    skewed: bool = False
    ended_as: bytes | None = None


class Truth:
    """What is true, kept up as requests are executed."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.jobs: dict[bytes, Ghost] = {}
        self.fenced: set[bytes] = set()
        self.left: set[bytes] = set()
        self.strangers: set[bytes] = set()
        """Ids that were pushed without a job."""
        self.finished: dict[tuple[bytes, bytes, bytes], str] = {}
        """owner, field, number -> the verb that ended the claim."""
        self.moves: dict[Move, int] = {}

    def check(self, event: Event, beliefs: Iterable[Belief]) -> None:
        """Fail unless the request did what it may, and all is well after it."""
        if isinstance(event.reply, Exception):
            full = "maxmemory" in str(event.reply)
            assert full and event.kind in GROWS, event.reply
        if refused(event):
            changed = _difference(event.before, event.after)
            assert not changed, f"{event.verb} was refused and changed {changed}"
            return
        rule = getattr(self, "_" + event.kind.replace(" ", "_"), None)
        if rule is not None:
            rule(event)
        self._follow(event)
        self._hold(event.after, beliefs)

    # What each request may do.

    def _claim(self, event: Event) -> None:
        _, owner, token, count, _, *names = event.args
        self._took(event, event.reply, owner, token, int(count), names)

    def _complete_next(self, event: Event) -> None:
        done, *claimed = event.reply
        self._finish(event)
        owner, token, names = event.args[1], event.args[2], event.args[5 : 5 + int(event.args[4])]
        if done == 1 and claimed[0] == b"good":
            self._took(event, claimed, owner, token, 1, names)
        else:
            assert 1 == len(claimed), "a refused completion claims nothing"

    def _took(
        self, event: Event, claimed: Sequence[Any], owner: bytes, token: bytes, count: int,
        names: Sequence[bytes],
    ) -> None:  # fmt: skip
        before, after = event.before, event.after
        _, jobs, dangling, bad, more, unfit = claimed
        assert before.beats[owner] > event.now
        mine = before.claims.get(owner, {})
        fields = [job[0] for job in jobs]
        known = {field for field in mine if field.partition(b".")[0] == token}
        if known:
            assert set(fields) == known
            assert event.kind != "claim" or not _difference(before, after)
            return
        found: list[tuple[bytes, bytes]] = []
        gone, wrong = [], []
        for name in names:
            for entry in before.queues.get(name, ()) if name not in before.paused else ():
                if len(found) == count:
                    break
                job_id, *words = entry.split(b" ")
                epoch = int(words[0]) if words and words[0].isdigit() else 0
                if job_id in before.jobs:
                    found.append((name, entry))
                elif job_id in (b"", b"0") or b":" in job_id:
                    wrong.append(entry)
                elif not words or epoch > event.now // 1000:
                    gone.append(entry)
        assert not more and not unfit
        assert (found, gone, wrong) == ([(job[2], job[3]) for job in jobs], dangling, bad)
        for field, number, queue, entry, attempts, values in jobs:
            claim = after.claims[owner][field]
            assert claim == Claim(number, b"0", b"0", queue, entry)
            job_id = entry.partition(b" ")[0]
            assert self.jobs[job_id].attempts == int(attempts)
            assert b"id" in values[::2], "the data comes with the claim"
            assert after.where(job_id) == "held"

    def _finish(self, event: Event) -> None:
        answers = event.reply if event.kind == "finish" else event.reply[:1]
        verb = event.verb if event.kind == "finish" else "complete"
        for one, answer in zip(endings(event), answers, strict=True):
            claim = event.before.claims.get(one.owner, {}).get(one.field)
            held = claim and (claim.number, claim.id) == (one.number, one.job_id)
            if answer == 0:
                assert not held, f"{verb} of a good claim was refused"
                continue
            if not held:  # a repeat whose first was executed, or came to the same
                assert answer == 1 or (answer, verb) == (2, "retry")
                assert claim == event.after.claims.get(one.owner, {}).get(one.field)
                continue
            assert (one.job_id in event.before.jobs) == (answer != -1)
            assert one.field not in event.after.claims.get(one.owner, {})
            came_to = {2: "bury", -1: "gone"}.get(answer, verb)
            self.finished[one.owner, one.field, one.number] = came_to

    def _save(self, event: Event) -> None:
        claim = _named(event.before, event.keys[0], event.args)
        number = int(event.args[3])
        if event.reply == 1 and number > int(claim.saves):
            assert b"%d" % number == _named(event.after, event.keys[0], event.args).saves
        else:
            assert (event.reply, number) in ((1, int(claim.saves)), (-1, number))
            assert not _difference(event.before, event.after)

    def _begun(self, event: Event) -> None:
        for place, answer in enumerate(event.reply):
            names = event.args[3 * place : 3 * place + 3]
            if answer:
                _named(event.before, event.keys[0], names)
                assert b"1" == _named(event.after, event.keys[0], names).begun

    def _beat(self, event: Event) -> None:
        _, owner, lifetime, highest, *living = event.args
        assert event.after.beats[owner] == event.now + int(lifetime)
        self._dropped(event, owner, int(highest), living)

    def _owner_stop(self, event: Event) -> None:
        _, owner, highest, count, *rest = event.args
        self._dropped(event, owner, int(highest), rest[: int(count)])
        if not event.reply[1]:
            assert owner not in event.after.beats
            self.left.add(owner)

    def _dropped(
        self, event: Event, owner: bytes, highest: int, living: Sequence[bytes]
    ) -> None:
        before, after = event.before, event.after
        dead = [
            claim
            for field, claim in before.claims.get(owner, {}).items()
            if int(field.partition(b".")[0]) <= highest
            and not {field, field.partition(b".")[0]} & set(living)
        ]
        # The latest are pushed first, so that the next slice goes in front of them.
        dead = sorted(dead, key=lambda claim: int(claim.number))[-self._wire.slice :]
        assert before.claims.get(owner, {}).keys() - after.claims.get(owner, {}).keys() == {
            f for f, claim in before.claims.get(owner, {}).items() if claim in dead
        } or owner not in after.claims
        for queue in {claim.queue for claim in dead}:
            back = [
                claim.entry
                for claim in dead
                if claim.queue == queue and claim.id in before.jobs
                and claim.entry in before.held.get((queue, owner), ())
            ]  # fmt: skip
            assert back + before.queues.get(queue, []) == after.queues.get(queue, [])

    def _fence(self, event: Event) -> None:
        owner = event.args[0]
        assert event.before.beats.get(owner, 0) <= event.now, "a live owner was fenced"
        self.fenced.add(owner)
        for claim in event.before.claims.get(owner, {}).values():
            if claim.begun == b"1" and claim.id in self.jobs:
                self.jobs[claim.id].attempts += 1

    def _recover(self, event: Event) -> None:
        _, queue, owner, limit, _ = event.args
        before = event.before
        assert owner not in before.beats
        if not owner:
            assert queue not in before.lists
            assert not any(moment > event.now for moment in before.beats.values())
        lost = before.held.get((queue, owner), []) if owner else before.shared.get(queue, [])
        back: list[bytes] = []
        for entry in lost[: self._wire.slice]:
            job_id = entry.partition(b" ")[0]
            if job_id in before.jobs:
                if 0 < int(limit) <= self.jobs[job_id].attempts:
                    assert event.after.where(job_id) == "dead"
                else:
                    back.insert(0, entry)
        assert back + before.queues.get(queue, []) == event.after.queues.get(queue, [])

    def _promote(self, event: Event) -> None:
        source = "delayed" if b":delayed:" in event.keys[0] else "retrying"
        for job_id in event.reply[0]:
            assert event.before.sets[source][job_id] <= event.now, "promoted too early"

    def _update_job(self, event: Event) -> None:
        self._updated(event.keys[0].partition(b":")[2], event)

    def _perl_update(self, event: Event) -> None:
        job_id = event.args[0]
        ghost = self.jobs[job_id]
        ghost.touched = True
        ghost.strayed = ghost.strayed or (
            event.before.jobs[job_id].queue != event.after.jobs[job_id].queue
        )
        self._updated(job_id, event)

    def _updated(self, job_id: bytes, event: Event) -> None:
        if self.jobs[job_id].ended_as is not None:
            self.jobs[job_id].ended_as = event.after.jobs[job_id].digest

    # What follows from a request for the jobs.

    def _follow(self, event: Event) -> None:
        before, after = event.before, event.after
        for job_id in sorted(before.jobs.keys() | after.jobs.keys()):
            move = before.where(job_id), after.where(job_id)
            if move[0] != move[1]:
                allowed = MOVES.get(event.verb, ())
                assert move in allowed, f"{event.verb} moved {job_id!r}: {move}"
                self.moves[move] = self.moves.get(move, 0) + 1
                self._moved(job_id, move, event)
            elif before.places.get(job_id) != after.places.get(job_id):
                raise AssertionError(f"{event.verb} took {job_id!r} to another {move[0]}")
        strangers = {j for j in after.places if j not in after.jobs}
        for job_id in strangers - before.places.keys():
            assert event.kind == "perl push", f"{event.verb} made a place for {job_id!r}"

    def _moved(self, job_id: bytes, move: Move, event: Event) -> None:
        if move[0] == "gone":
            self.jobs[job_id] = Ghost()
            return
        ghost = self.jobs[job_id]
        if move[1] == "gone":
            if event.kind == "clock":
                parked = move[0] in PARKED and not ghost.touched
                assert not parked, f"{job_id!r} ran out of time while {move[0]}"
            return
        if move[1] == "nowhere":
            ghost.status = "taken" if event.kind in TAKES else "ended"
            ghost.ended_as = event.after.jobs[job_id].digest
        if move in (("held", "nowhere"), ("dead", "waiting")) or move[1] == "dead":
            ghost.attempts = 0
        elif move[1] == "retrying":
            ghost.attempts += 1
        if move[1] == "waiting" and move[0] in ("held", "shared"):
            ghost.strayed = False
        if move[1] in PARKED:
            ghost.touched = False

    # What always holds.

    def _hold(self, state: State, beliefs: Iterable[Belief]) -> None:
        for job_id, stored in state.jobs.items():
            self._hold_job(job_id, stored, state)
        claimed: list[bytes] = []
        for owner, claims in state.claims.items():
            assert owner not in self.fenced, f"{owner!r} was fenced and has claims"
            for claim in claims.values():
                claimed.append(claim.id)
                if claim.id in state.jobs:
                    assert claim.entry in state.held.get((claim.queue, owner), ())
        assert len(claimed) == len(set(claimed)), "two claims on one job"
        for (queue, owner), entries in state.held.items():
            assert queue + b":" + owner in state.lists, f"{queue!r} of {owner!r} is not registered"
            if owner not in self.fenced:
                mine = {claim.entry for claim in state.claims.get(owner, {}).values()}
                assert set(entries) <= mine, f"{owner!r} has an entry without a claim"
        assert not self.fenced & state.beats.keys(), "a fenced owner beats"
        for belief in beliefs:
            if belief.owner in self.fenced or belief.owner in self.left or belief.unsure:
                continue
            claim_now = state.claims.get(belief.owner, {}).get(belief.field)
            assert claim_now is not None, f"{belief} was lost"
            assert (claim_now.number, claim_now.id) == (belief.number, belief.job_id)

    def _hold_job(self, job_id: bytes, stored: Stored, state: State) -> None:
        ghost = self.jobs[job_id]
        where = state.where(job_id)
        if ghost.status == "live":
            assert where != "nowhere", f"{job_id!r} is lost"
        else:
            assert where == "nowhere", f"{job_id!r} came back after its end"
        if ghost.status == "ended":
            assert ghost.ended_as == stored.digest, f"{job_id!r} was written after its end"
        assert ghost.attempts == state.attempts.get(job_id, 0) or ghost.status == "taken"
        if where == "waiting" and not ghost.strayed:
            [place] = state.places[job_id]
            assert (place.entry, place.queue) == (stored.entry, stored.queue)
        if stored.lasting:
            ghost.touched = False
        if stored.expire == b"0":
            assert stored.lasting
        elif where in PARKED:
            assert stored.lasting or ghost.touched, f"{job_id!r} runs out of time while {where}"
        elif ghost.status != "taken":
            assert not stored.lasting, f"{job_id!r} is {where} without a time to live"


def _named(state: State, key: bytes, names: Sequence[bytes]) -> Claim:
    claim = state.claims.get(key.rpartition(b":")[2], {}).get(names[0])
    assert claim and (claim.number, claim.id) == (names[1], names[2]), "no such claim"
    return claim


def _difference(before: State, after: State) -> list[bytes]:
    keys = before.raw.keys() | after.raw.keys()
    return [key for key in keys if before.raw.get(key) != after.raw.get(key)]
