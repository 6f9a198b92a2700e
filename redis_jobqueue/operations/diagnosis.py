"""What is wrong with what `doctor` has seen, and how each of it is put right.

Every repair looks again in the script that makes it: what has changed
meanwhile is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from redis_jobqueue.keys import Entry, Keys
from redis_jobqueue.operations import recovery, views
from redis_jobqueue.operations.doctor import Chart, Seen, Spot
from redis_jobqueue.operations.overview import Health, OwnerInfo, split_member
from redis_jobqueue.operations.request import Command, Operation, Script

KINDS = {
    "lost-job": "a job that no list and no set holds, so that nobody will ever run it",
    "entry-without-job": "an entry of a queue, or of a set, whose job is gone",
    "expired-entry": "an entry whose job lived its time out; everybody skips it (harmless)",
    "expired-dead-letter": "an id among the dead whose job is gone",
    "two-places": "a job that stands in more than one place, and would run more than once",
    "wrong-entry": "a job that knows another entry or queue than it stands under",
    "unreadable": "a field that does not thaw",
    "foreign-key": "a key in the way: Perl's scripts, or ours, fail on it",
    "no-time-to-live": "a job that waits or has ended, and would stay for ever",
    "short-life": "a held, delayed, retrying or dead job that would expire on the way (harmless "
    "while a worker runs)",
    "owner-gone": "a consumer that died, with what it held",
    "stray-list": "jobs in a list of an owner that no recovery knows of",
    "shared-list": "entries in a processing list without an owner (harmless where somebody works "
    "on them)",
    "server": "a setting of the server that endangers jobs",
}
"""Everything that is looked for."""

HARMLESS = frozenset({"expired-entry", "short-life", "shared-list"})

Repair = Callable[[], Operation[bool]]


@attrs.frozen(slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: one of the `KINDS`.
        subject: the id, key, owner or setting.
        text: what is wrong with it.
        remedy: what ``repair`` does, or what somebody has to do.
        repair: puts it right and tells whether it did; None if only a human can.
    """

    kind: str
    subject: bytes
    text: str
    remedy: str
    repair: Repair | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def harmless(self) -> bool:
        """Whether nothing is lost or run twice by it."""
        return self.kind in HARMLESS


@attrs.frozen(slots=True)
class Ages:
    """Seconds after which a job that nobody holds counts as lost.

    Attributes:
        created: one that was taken off its queue and never begun.
        working: one that was begun, since its last change.
    """

    created: float = 3600.0
    working: float = 3600.0


def show(raw: bytes) -> str:
    """Give octets as a text of one line."""
    return raw.decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")


def judge(job: Seen, now: float, ages: Ages, keys: Keys) -> list[Finding]:
    """Say what is wrong with a job, or with an id that has none."""
    if not job.there:
        return [each for spot in job.spots for each in _without_job(job, spot, now, keys)]
    if not job.values.get(b"id") and not job.values.get(b"queue"):
        return [_aside(keys.job(job.id), "hash", "it is a hash, and no job", keys)]
    found = []
    kept = min(job.spots, key=_rank) if job.spots else None
    if len(job.spots) > 1 and kept is not None:
        found.append(_two_places(job, kept, keys))
    if kept is None:
        found += _lost(job, now, ages, keys)
    elif kept.kind == "processing" and not kept.owner:
        return found  # whoever moved it there knows; the list is a finding of its own
    elif kept.queue:
        found += _wrong_entry(job, kept, keys)
    found += _unreadable(job, kept, keys)
    found += _life(job, kept, keys)
    return found


def _rank(spot: Spot) -> int:
    if spot.kind == "processing":
        return 0 if spot.lives else 2
    return {"waiting": 1, "delayed": 3, "retrying": 4, "dead": 5}[spot.kind]


def _where(spot: Spot) -> str:
    if spot.kind == "waiting":
        return f"in queue {show(spot.queue)}"
    if spot.kind == "processing":
        return f"held by {show(spot.owner) or 'nobody in particular'}"
    return f"among the {spot.kind}"


def _drop(job: Seen, spot: Spot, kept: Spot | None, keys: Keys) -> Operation[bool]:
    base = (keys.job(job.id), spot.key(keys), keys.heartbeat)
    if kept is None:
        request = Script("doctor_drop", base, (job.id, spot.text, spot.owner))
    else:
        request = Script(
            "doctor_drop", (*base, kept.key(keys)), (job.id, spot.text, spot.owner, kept.text)
        )
    return bool((yield request))


def _without_job(job: Seen, spot: Spot, now: float, keys: Keys) -> list[Finding]:
    if spot.kind == "processing":
        return []  # its owner takes it off, or the recovery of its owner
    kind, text = "entry-without-job", f"it stands {_where(spot)}, and its job is gone"
    if spot.kind == "dead":
        kind = "expired-dead-letter"
    elif spot.kind == "waiting":
        epoch = Entry.parse(spot.text).epoch
        if job.id in (b"", b"0") or b":" in job.id:
            text = f"{show(spot.text)!r} {_where(spot)} can be no job's entry"
        elif epoch is not None and epoch <= now:
            kind, text = "expired-entry", f"it stands {_where(spot)}, its job has expired"
    return [
        Finding(kind, job.id or spot.key(keys), text, "take it off",
                lambda: _drop(job, spot, None, keys))
    ]  # fmt: skip


def _two_places(job: Seen, kept: Spot, keys: Keys) -> Finding:
    others = list(job.spots)
    others.remove(kept)

    def repair() -> Operation[bool]:
        done = True
        for spot in others:
            done = (yield from _drop(job, spot, kept, keys)) and done
        return done

    places = " and ".join(_where(spot) for spot in (kept, *others))
    return Finding("two-places", job.id, f"it stands {places}", f"leave it {_where(kept)}", repair)


def _wrong_entry(job: Seen, spot: Spot, keys: Keys) -> list[Finding]:
    entry, queue = job.values[b"__id_in_queue__"], job.values[b"queue"]
    if (entry, queue) == (spot.text, spot.queue):
        return []
    if entry != spot.text:
        text = f"it knows the entry {show(entry)!r} and stands under {show(spot.text)!r}"
    else:
        text = f"it knows queue {show(queue)!r} and stands {_where(spot)}"

    def repair() -> Operation[bool]:
        keyed = (keys.job(job.id), spot.key(keys))
        return bool((yield Script("doctor_entry", keyed, (spot.text, spot.queue))))

    return [Finding("wrong-entry", job.id, text, "write what is true into the job", repair)]


def _lost(job: Seen, now: float, ages: Ages, keys: Keys) -> list[Finding]:
    status = job.values[b"status"]
    age = {b"__created__": ages.created, b"__working__": ages.working}.get(status)
    if age is None:
        return []
    quiet = now - max(job.number(name) for name in (b"created", b"updated", b"started"))
    if job.life >= 0:
        # Perl's get_next_job starts the time to live anew, and leaves no other trace.
        quiet = min(quiet, max(job.number(b"expire") - job.life, 0))
    if quiet < age:
        return []

    def repair() -> Operation[bool]:
        seen = (status, job.values[b"updated"])
        return bool((yield from views.requeue(job.id, keys, seen=seen)))

    return [
        Finding("lost-job", job.id,
                f"{show(status)}, nobody holds it, and nothing was heard of it for {quiet:.0f} s",
                f"put it back into queue {show(job.values[b'queue'])}", repair)
    ]  # fmt: skip


def _unreadable(job: Seen, spot: Spot | None, keys: Keys) -> list[Finding]:
    if not job.unreadable or spot is not None and spot.kind == "dead":
        return []  # among the dead nobody trips over it
    text = "; ".join(f"{show(name)}: {why}" for name, why in sorted(job.unreadable.items()))
    if spot is None or spot.kind != "waiting":
        return [Finding("unreadable", job.id, text,
                        "write the field anew, or delete the job")]  # fmt: skip

    def repair() -> Operation[bool]:
        keyed = (keys.job(job.id), spot.key(keys), keys.dead, keys.attempts,
                 keys.stats(spot.queue))  # fmt: skip
        why = f"its data cannot be read: {text}".encode("ascii", "backslashreplace")[:1000]
        return bool((yield Script("doctor_bury", keyed, (job.id, spot.text, why))))

    return [Finding("unreadable", job.id, text, "bury it, so that no Perl consumer loses it",
                    repair)]  # fmt: skip


def _life(job: Seen, spot: Spot | None, keys: Keys) -> list[Finding]:
    expire = job.values[b"expire"]
    parked = spot is not None and spot.kind != "waiting"

    def repair() -> Operation[bool]:
        keyed = (keys.job(job.id), keys.delayed, keys.retry, keys.dead, keys.lists)
        return bool((yield Script("doctor_life", keyed, (keys.prefix, job.id))))

    if parked and job.life >= 0:
        assert spot is not None
        return [Finding("short-life", job.id, f"{_where(spot)}, and gone in {job.life} s",
                        "take its time to live off", repair)]  # fmt: skip
    if parked or job.life >= 0 or expire in (b"", b"0"):
        return []
    if not expire.isdigit() or expire.startswith(b"0") or len(expire) > 12:
        return [Finding("no-time-to-live", job.id,
                        f"its expire is {show(expire)!r}, which Redis did not take",
                        "delete it when it is done with")]  # fmt: skip
    return [Finding("no-time-to-live", job.id,
                    f"it should live {expire.decode()} s and has no time to live",
                    "start its time to live", repair)]  # fmt: skip


OURS = {
    b"owners:heartbeat": "zset", b"owners:lists": "set", b"owners:about": "hash",
    b"owners:reaper": "string", b"attempts:jobs": "hash", b"cancelled:jobs": "zset",
    b"delayed:jobs": "zset", b"retry:jobs": "zset", b"dead:jobs": "zset",
    b"paused:queues": "set", b"concurrency:queues": "hash",
}  # fmt: skip
FAMILIES = {b"queue": "list", b"processing": "list", b"claims": "hash", b"stats": "hash"}


def _aside(key: bytes, kind: str, text: str, keys: Keys) -> Finding:
    there = keys.prefix + b"aside:" + kind.encode() + b":" + key[len(keys.prefix):]

    def repair() -> Operation[bool]:
        return bool((yield Script("set_aside", (key, there), (kind.encode(),))))

    return Finding("foreign-key", key, text, f"rename it to {show(there)}", repair)


def judge_keys(chart: Chart, limit: int) -> list[Finding]:
    """Say which keys are in the way, and which lists nobody knows of."""
    keys, found = chart.keys, []
    for name, kind in sorted(chart.kinds.items()):
        head, colon, tail = name.partition(b":")
        wanted = OURS.get(name) or (FAMILIES.get(head) if tail else None)
        if not colon:
            text = f"it is a {kind} where Perl looks for the hash of a job"
            found.append(_aside(keys.prefix + name, kind, text, keys))
        elif wanted is not None and wanted != kind:
            text = f"it is a {kind} where a {wanted} must be"
            found.append(_aside(keys.prefix + name, kind, text, keys))
        elif head == b"processing" and tail in chart.strays:
            found.append(_stray(chart, tail, limit))
    return found


def _stray(chart: Chart, member: bytes, limit: int) -> Finding:
    keys = chart.keys
    queue, owner = split_member(member)
    inside = [
        job for job in chart.seen.values()
        if any(spot.kind == "processing" and not spot.owner and spot.queue == member
               for spot in job.spots)
    ]  # fmt: skip
    key = keys.prefix + b"processing:" + member
    if not owner or not any(job.values.get(b"queue") == queue for job in inside):
        return Finding(
            "shared-list", key, f"{len(inside)} entries, and no owner",
            f"redis-jobqueue recover --queue {show(member)}, if nobody works on them",
        )  # fmt: skip

    def repair() -> Operation[bool]:
        yield Command((b"SADD", keys.lists, member))
        done = yield from recovery.recover(None, owner, limit, keys)
        return bool(done.owners)

    return Finding("stray-list", key, f"{len(inside)} entries of {show(owner)}, which is not "
                   "registered", "register it, and recover its jobs", repair)  # fmt: skip


def judge_owners(owners: Sequence[OwnerInfo], limit: int, keys: Keys) -> list[Finding]:
    """Name the owners that are gone."""
    return [_gone(owner, limit, keys) for owner in owners if not owner.live]


def _gone(owner: OwnerInfo, limit: int, keys: Keys) -> Finding:
    name = owner.id.encode("latin-1")

    def repair() -> Operation[bool]:
        done = yield from recovery.recover(None, name, limit, keys)
        return bool(done.owners)

    since = "" if owner.lapses_in is None else f" since {-owner.lapses_in:.0f} s"
    jobs = "1 job" if owner.holding == 1 else f"{owner.holding} jobs"
    return Finding("owner-gone", name, f"dead{since}, it held {jobs}", "recover what it held",
                   repair)  # fmt: skip


FULL = 0.9
"""Share of ``maxmemory`` from which on a server counts as full."""


def judge_server(health: Health) -> list[Finding]:
    """Name the settings that endanger jobs."""
    found = []
    if health.policy not in ("", "noeviction") and (
        health.maxmemory or not health.policy.startswith("volatile")
    ):
        found.append(Finding("server", b"maxmemory-policy", f"{health.policy}: a full server "
                             "throws jobs away", "CONFIG SET maxmemory-policy noeviction"))
    if health.maxmemory and health.used_memory > FULL * health.maxmemory:
        used = 100 * health.used_memory // health.maxmemory
        found.append(Finding("server", b"maxmemory", f"{used} % of {health.maxmemory} bytes are "
                             "used: soon no job can be added", "raise maxmemory, or purge"))
    if health.persistent is False:
        found.append(Finding("server", b"persistence", "neither an append-only file nor "
                             "snapshots: a restart loses every job",
                             "CONFIG SET appendonly yes"))  # fmt: skip
    return found
