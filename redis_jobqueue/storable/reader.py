"""Image to value: any image, of any depth, whatever it holds.

Strategy: one method for each tag, found in the table `READ`.  A tag with nothing
inside returns its value; one with something inside is a generator that is sent
each value as it is read.  The loop in `Reader.read` keeps them on a list of its
own, so that the depth of an image never meets the depth of Python's stack.

A list or hash is made, and numbered, before what is in it is read: that is how
Perl numbers things, and how a cycle finds its start.  What can only be known
later (which scalars are shared, which lists have holes) is learned in a first
pass, and a second one reads with that knowledge.

Nothing is allocated on the word of the image: every length is checked against
the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

import attrs

from ..errors import StorableError
from . import opcodes as op
from .hints import APPLY, KEY_KINDS, TUPLE, Hints, Unfit
from .limits import MAX_DEPTH
from .opcodes import BE32, BE32_SIGNED, Layout
from .types import (
    Blessed,
    Code,
    Hook,
    PerlHash,
    PerlList,
    Regexp,
    ScalarRef,
    Tied,
    VString,
    WeakRef,
    text,
)
from .weak import drop_dead

Octets = Callable[[bytes], Any]
Steps = Generator[None, Any, Any]

CELL = object()  # the entry of a scalar in `Reader.things`


@attrs.define
class Learned:
    """What one pass over an image leaves to the next.

    Attributes:
        cells: numbers of the scalars that something else refers to.
        special: numbers of the lists and hashes that must be a `PerlList` or
            a `PerlHash`.
        classes: number -> class name, in images of before 0.7, which say it last.
    """

    cells: set[int] = attrs.field(factory=set)
    special: set[int] = attrs.field(factory=set)
    classes: dict[int, str] = attrs.field(factory=dict)

    def size(self) -> int:
        """Return how much is known."""
        return len(self.cells) + len(self.special) + len(self.classes)


def read_image(
    data: bytes, start: int, layout: Layout, octets: Octets, old: bool, hints: Hints
) -> tuple[Any, int]:
    """Return the value of the image whose first tag is at ``start``, and where it ends.

    Raises:
        StorableError: the image is broken, or deeper than `MAX_DEPTH`.
        Unfit: a hint does not fit.
    """
    learned = Learned()
    while True:
        known = learned.size()
        reader = Reader(data, start, layout, octets, old, dict(hints), learned)
        value = reader.read()
        if learned.size() == known:
            if reader.hints:
                raise Unfit
            return reader.finish(value), reader.pos


class Reader:
    """One pass over one image.

    Attributes:
        pos: the next byte.
        things: what each number stands for: a list, dict or object, or `CELL`.
        cell: the number of the node just read if it is a scalar, else None.
        node: how many nodes were met, as the hints count them.
        pending: the object that waits for the thing that is blessed.
        shared: number -> the `ScalarRef` of a scalar that is shared.
        slots: places in lists and dicts that hold a shared scalar.
    """

    def __init__(
        self,
        data: bytes,
        start: int,
        layout: Layout,
        octets: Octets,
        old: bool,
        hints: Hints,
        learned: Learned,
    ) -> None:
        self.data = data
        self.pos = start
        self.layout = layout
        self.octets = octets
        self.old = old
        self.hints = hints
        self.learned = learned
        self.tag = -1
        self.things: list[Any] = []
        self.cell: int | None = None
        self.node = 0
        self.pending: Blessed | None = None
        self.class_names: list[str] = []
        self.shared = {number: ScalarRef(None) for number in learned.cells}
        self.slots: list[tuple[Any, Any, ScalarRef]] = []
        self.open_tuples: set[int] = set()
        self.weak = False

    # -- the loop --

    def read(self) -> Any:
        """Read one node and all that is in it."""
        stack: list[tuple[Steps, int, int]] = []  # steps, levels, number
        depth = 0
        while True:
            tag = self.tag = self.byte()
            number = len(self.things)
            value = READ.get(tag, Reader.read_unknown)(self)
            if isinstance(value, GeneratorType):
                levels = 0 if tag in _PREFIXES and self.next_is_referent() else 1
                depth += levels
                if depth > MAX_DEPTH:
                    raise self.broken(f"it is deeper than {MAX_DEPTH} levels")
                stack.append((value, levels, number))
                value = None  # starts it
            else:
                if self.hints and self.cell == number:
                    value = self.hinted(value)
                self.completed(value, number)
                if not stack:
                    return value
            while True:
                steps, levels, number = stack[-1]
                try:
                    steps.send(value)
                    break
                except StopIteration as stop:
                    value = stop.value
                depth -= levels
                stack.pop()
                self.completed(value, number)
                if not stack:
                    return value

    def completed(self, value: Any, number: int) -> None:
        """Note a value that is complete."""
        if self.old:
            self.read_marks(number)
        if self.cell in self.shared:
            self.shared[self.cell].value = value

    def finish(self, value: Any) -> Any:
        """Fill in what was not known when its place was read."""
        for holder, place, scalar in self.slots:
            holder[place] = scalar.value
        return drop_dead(value) if self.weak else value

    def next_is_referent(self) -> bool:
        return self.pos < len(self.data) and self.data[self.pos] in _REFERENTS

    # -- bytes and lengths --

    def broken(self, what: str) -> StorableError:
        return StorableError(f"Broken Storable image: {what} (before byte {self.pos})")

    def byte(self) -> int:
        if self.pos >= len(self.data):
            raise self.broken("it ends early")
        self.pos += 1
        return self.data[self.pos - 1]

    def take(self, size: int) -> bytes:
        end = self.pos + size
        if end > len(self.data):
            raise self.broken("it ends early")
        raw = self.data[self.pos : end]
        self.pos = end
        return raw

    def length(self) -> int:
        size: int = self.layout.length.unpack(self.take(4))[0]
        return size

    def count(self, least: int, number: int | None = None) -> int:
        """Read how many follow, at least so many bytes each."""
        number = self.length() if number is None else number
        if number * least > len(self.data) - self.pos:
            raise self.broken(f"it is too short for {number} items")
        return number

    def be32(self) -> int:
        number: int = BE32.unpack(self.take(4))[0]
        return number

    def class_length(self) -> int:
        size = self.byte()
        return self.length() if size & 0x80 else size

    # -- numbering --

    def scalar(self) -> int:
        """Number a scalar."""
        number = self.cell = len(self.things)
        self.things.append(self.claim(CELL))
        self.node += 1
        return number

    def referent(self, thing: Any) -> Any:
        """Number a list, hash or object; return what a reference to it is."""
        thing = self.claim(thing)
        self.things.append(thing)
        return thing

    def claim(self, thing: Any) -> Any:
        holder = self.pending
        if holder is None:
            name = self.learned.classes.get(len(self.things))
            if name is None:
                return thing
            holder = Blessed(name, None)
        self.pending = None
        holder.value = thing
        return holder

    def refer(self, value: Any) -> Any:
        """Return a reference to the node just read."""
        if self.cell is None:
            return value
        thing = self.things[self.cell]
        if isinstance(thing, Blessed):
            thing.value = ScalarRef(value)
            return thing
        return self.shared.get(self.cell) or ScalarRef(value)

    def special(self, number: int, holder: Any) -> bool:
        """Tell whether a list or hash can hold what it must; if not, the next pass knows."""
        if isinstance(holder, (PerlList, PerlHash)):
            return True
        self.learned.special.add(number)
        return False

    def settle(self, number: int, holder: Any, place: Any) -> None:
        """Note a place whose value is a shared scalar."""
        if self.cell in self.shared and self.special(number, holder):
            scalar = self.shared[self.cell]
            holder.cells[place] = scalar
            self.slots.append((holder, place, scalar))

    # -- hints --

    def hinted(self, value: Any) -> Any:
        hint = self.hints.pop(self.node - 1, None)
        if hint is None:
            return value
        kind, payload = hint
        if kind not in APPLY:
            raise Unfit
        return APPLY[kind](value, payload, self.tag)

    def key(self, key: Any, tag: int) -> Any:
        """Count a hash key as a node."""
        node = self.node
        self.node += 1
        if node in self.hints:
            kind, payload = self.hints.pop(node)
            if kind not in KEY_KINDS:
                raise Unfit
            return APPLY[kind](key, payload, tag)
        return key

    # -- scalars --

    def read_unknown(self) -> Any:
        raise self.broken(f"unknown tag {self.tag}")

    def read_undef(self) -> None:
        self.scalar()

    def read_true(self) -> bool:
        self.scalar()
        return True

    def read_false(self) -> bool:
        self.scalar()
        return False

    def read_integer(self) -> int:
        self.scalar()
        value: int = self.layout.integer.unpack(self.take(self.layout.integer.size))[0]
        return value

    def read_double(self) -> float:
        self.scalar()
        value: float = self.layout.double.unpack(self.take(8))[0]
        return value

    def read_byte(self) -> int:
        self.scalar()
        return self.byte() - 128

    def read_netint(self) -> int:
        self.scalar()
        value: int = BE32_SIGNED.unpack(self.take(4))[0]
        return value

    def read_scalar(self) -> Any:
        self.scalar()
        return self.octets(self.take(self.byte()))

    def read_lscalar(self, size: int | None = None) -> Any:
        self.scalar()
        return self.octets(self.take(self.count(1, size)))

    def read_utf8str(self) -> Any:
        self.scalar()
        return text(self.take(self.byte()))

    def read_lutf8str(self, size: int | None = None) -> Any:
        self.scalar()
        return text(self.take(self.count(1, size)))

    def read_vstring(self) -> Steps:
        return self._vstring(self.take(self.byte()))

    def read_lvstring(self) -> Steps:
        return self._vstring(self.take(self.length()))

    def _vstring(self, literal: bytes) -> Steps:
        value = yield
        if self.cell is None or not isinstance(value, (str, bytes)):
            raise self.broken("a version string that is no string")
        return VString(self.octets(literal), value)

    # -- references --

    def read_object(self) -> Any:
        """Read a reference to something numbered before."""
        number = self.be32()
        if number >= len(self.things):
            raise self.broken(f"it refers to number {number} of {len(self.things)}")
        if number in self.open_tuples:
            raise Unfit
        self.pending = None
        thing = self.things[number]
        self.cell = None
        if thing is not CELL:
            return thing
        self.cell = number
        self.learned.cells.add(number)
        return self.shared[number].value if number in self.shared else None

    def read_ref(self) -> Steps:
        number = self.scalar()
        hint = self.hints.pop(self.node - 1, None) if self.hints else None
        if hint:
            return self._tuple(number, hint[0])
        return self._ref(number)

    def _ref(self, number: int) -> Steps:
        value = self.refer((yield))
        self.cell = number
        return value

    def _tuple(self, number: int, kind: int) -> Steps:
        target = len(self.things)
        self.open_tuples.add(target)
        value = yield
        self.open_tuples.discard(target)
        if kind != TUPLE or type(value) is not list or self.things[target] is not value:
            raise Unfit
        self.things[target] = value = tuple(value)
        self.cell = number
        return value

    def read_overload(self) -> Steps:
        number = self.scalar()
        value = self.refer((yield))
        if not isinstance(value, (Blessed, Hook)):
            raise self.broken("an overloaded reference to what is no object")
        value.overloaded = True
        self.cell = number
        return value

    def read_weakref(self) -> Steps:
        self.weak = True
        return self._weak(self._ref(self.scalar()))

    def read_weakoverload(self) -> Steps:
        self.weak = True
        return self._weak(self.read_overload())

    def _weak(self, steps: Steps) -> Steps:
        return WeakRef((yield from steps))

    def read_bless(self) -> Steps:
        name = self.take(self.class_length()).decode("latin-1")
        self.class_names.append(name)
        return self._bless(name)

    def read_ix_bless(self) -> Steps:
        return self._bless(self.seen_class(self.class_length()))

    def seen_class(self, index: int) -> str:
        if index >= len(self.class_names):
            raise self.broken(f"it names class {index} of {len(self.class_names)}")
        return self.class_names[index]

    def _bless(self, name: str) -> Steps:
        self.pending = Blessed(name, None)
        value = self.refer((yield))
        self.cell = None
        return value

    # -- lists and hashes --

    def read_array(self, size: int | None = None) -> Steps:
        size = self.count(1, size)
        number = len(self.things)
        out: list[Any] = PerlList() if number in self.learned.special else []
        thing = self.referent(out)
        for index in range(size):
            value = yield
            if value is None and self.tag == op.SV_UNDEF and self.special(number, out):
                out.missing.add(index)  # type: ignore[attr-defined]
            out.append(value)
            if self.shared:
                self.settle(number, out, index)
        self.cell = None
        return thing

    def read_hash(self, size: int | None = None) -> Steps:
        size = self.count(5, size)
        number = len(self.things)
        out: dict[Any, Any] = PerlHash() if number in self.learned.special else {}
        thing = self.referent(out)
        for _ in range(size):
            value = yield
            gone = value is None and self.tag == op.SVUNDEF_ELEM
            key = self.key(self.octets(self.take(self.length())), op.SCALAR)
            if not gone:
                out[key] = value
                if self.shared:
                    self.settle(number, out, key)
        self.cell = None
        return thing

    def read_flag_hash(self, size: int | None = None) -> Steps:
        restricted = bool(self.byte() & op.HASH_RESTRICTED)
        size = self.count(3, size)
        restricted = restricted and size > 0  # Perl itself loses the lock of an empty one
        number = len(self.things)
        special = restricted or number in self.learned.special
        out: dict[Any, Any] = PerlHash(restricted=restricted) if special else {}
        thing = self.referent(out)
        for _ in range(size):
            value = yield
            cell = self.cell
            gone = value is None and self.tag == op.SVUNDEF_ELEM
            flags = self.byte()
            if flags & op.KEY_IS_SV:
                key = yield
                self.check_key(key)
            else:
                key = self.flagged_key(flags)
            if flags & op.KEY_PLACEHOLDER:
                if isinstance(out, PerlHash) and restricted:
                    out.placeholders.append(key)
                continue
            if gone:
                continue
            out[key] = value
            if isinstance(out, PerlHash) and flags & op.KEY_LOCKED and restricted:
                out.readonly.add(key)
            if self.shared:
                self.cell = cell
                self.settle(number, out, key)
        self.cell = None
        return thing

    def flagged_key(self, flags: int) -> Any:
        raw = self.take(self.length())
        if flags & op.KEY_UTF8:
            return self.key(text(raw), op.UTF8STR)
        if flags & op.KEY_WAS_UTF8:
            return self.key(raw.decode("latin-1"), op.UTF8STR)
        return self.key(self.octets(raw), op.SCALAR)

    def check_key(self, key: Any) -> None:
        if self.cell is None or not isinstance(key, (str, bytes)):
            raise self.broken("a hash key that is no string")

    # -- objects of other kinds --

    def read_tied_referent(self) -> Steps:
        tied = Tied(op.TIED_KINDS[self.tag], None)
        return self._tied(tied, self.referent(tied), None)

    def read_tied_scalar(self) -> Steps:
        tied = Tied(op.TIED_KINDS[self.tag], None)
        return self._tied(tied, tied, self.scalar())

    def _tied(self, tied: Tied, thing: Any, number: int | None) -> Steps:
        tied.object = yield
        if tied.kind == "key":
            tied.key = yield
        elif tied.kind == "idx":
            tied.key = self.length()
        self.cell = number
        return thing

    def read_regexp(self) -> Regexp:
        name = self.pending.class_name if self.pending else "Regexp"
        self.pending = None
        size = self.length() if self.byte() & 1 else self.byte()
        pattern = self.octets(self.take(size))
        flags = self.take(self.byte()).decode("latin-1")
        regexp = Regexp(pattern, flags, name)
        self.things.append(regexp)
        self.cell = None
        return regexp

    def read_code(self) -> Steps:
        self.pending = None
        code = Code("")
        self.things.append(code)
        return self._code(code)

    def _code(self, code: Code) -> Steps:
        source = yield
        if self.cell is None or not isinstance(source, (str, bytes)):
            raise self.broken("code that is no text")
        code.source = source
        self.cell = None
        return code

    def read_hook(self) -> Steps:
        """Read an object that its class froze.

        u8 flags; for each HOOK_RECURSE a node and the flags again; the class by
        name or index; the string; the numbers of what the references refer to.
        """
        self.pending = None
        hook = Hook("", "")
        self.things.append(hook)
        return self._hook(hook)

    def _hook(self, hook: Hook) -> Steps:
        flags = self.byte()
        base = flags & op.HOOK_BASE
        extra = self.byte() if base == op.HOOK_EXTRA else 0
        while flags & op.HOOK_RECURSE:
            yield
            flags = self.byte()
        if base == op.HOOK_EXTRA and extra not in op.HOOK_EXTRAS:
            raise self.broken(f"a hook for a variable of unknown kind {extra}")
        hook.base = op.HOOK_EXTRAS[extra] if extra else op.HOOK_BASES[base]
        size = self.length() if flags & op.HOOK_LONG_CLASS else self.byte()
        if flags & op.HOOK_INDEXED:
            hook.class_name = self.seen_class(size)
        else:
            hook.class_name = self.take(size).decode("latin-1")
            self.class_names.append(hook.class_name)
        size = self.length() if flags & op.HOOK_LONG_STRING else self.byte()
        hook.frozen = self.octets(self.take(size))
        if flags & op.HOOK_HAS_LIST:
            size = self.length() if flags & op.HOOK_LONG_LIST else self.byte()
            for _ in range(self.count(4, size)):
                hook.refs.append(self.refer(self.read_object()))
        if extra:
            hook.tied = yield
        self.cell = None
        return hook

    def read_lobject(self) -> Any:
        """Read a thing of more than 2 GB, or what says it is."""
        tag = self.byte()
        if tag not in LARGE:
            raise self.broken(f"a large object of tag {tag}")
        if tag == op.FLAG_HASH:
            raise self.broken("a large flagged hash")
        size: int = self.layout.large.unpack(self.take(8))[0]
        return LARGE[tag](self, size)

    # -- images of before 0.7 --

    def read_marks(self, number: int) -> None:
        """Read what follows each node there: the class if it is blessed, and an end mark."""
        while True:
            mark = self.byte()
            if mark == op.OLD_STORED:
                return
            if mark == op.OLD_CLASS:
                size = self.byte()
            elif mark == op.OLD_LONG_CLASS:
                size = self.length()
            else:
                raise self.broken(f"unknown mark {mark}")
            self.learned.classes[number] = self.take(size).decode("latin-1")


READ: dict[int, Callable[[Reader], Any]] = {
    op.OBJECT: Reader.read_object,
    op.LSCALAR: Reader.read_lscalar,
    op.ARRAY: Reader.read_array,
    op.HASH: Reader.read_hash,
    op.REF: Reader.read_ref,
    op.UNDEF: Reader.read_undef,
    op.INTEGER: Reader.read_integer,
    op.DOUBLE: Reader.read_double,
    op.BYTE: Reader.read_byte,
    op.NETINT: Reader.read_netint,
    op.SCALAR: Reader.read_scalar,
    op.TIED_ARRAY: Reader.read_tied_referent,
    op.TIED_HASH: Reader.read_tied_referent,
    op.TIED_SCALAR: Reader.read_tied_scalar,
    op.SV_UNDEF: Reader.read_undef,
    op.SV_YES: Reader.read_true,
    op.SV_NO: Reader.read_false,
    op.BLESS: Reader.read_bless,
    op.IX_BLESS: Reader.read_ix_bless,
    op.HOOK: Reader.read_hook,
    op.OVERLOAD: Reader.read_overload,
    op.TIED_KEY: Reader.read_tied_scalar,
    op.TIED_IDX: Reader.read_tied_scalar,
    op.UTF8STR: Reader.read_utf8str,
    op.LUTF8STR: Reader.read_lutf8str,
    op.FLAG_HASH: Reader.read_flag_hash,
    op.CODE: Reader.read_code,
    op.WEAKREF: Reader.read_weakref,
    op.WEAKOVERLOAD: Reader.read_weakoverload,
    op.VSTRING: Reader.read_vstring,
    op.LVSTRING: Reader.read_lvstring,
    op.SVUNDEF_ELEM: Reader.read_undef,
    op.REGEXP: Reader.read_regexp,
    op.LOBJECT: Reader.read_lobject,
    op.BOOLEAN_TRUE: Reader.read_true,
    op.BOOLEAN_FALSE: Reader.read_false,
}

LARGE: dict[int, Callable[[Reader, int], Any]] = {
    op.LSCALAR: Reader.read_lscalar,
    op.ARRAY: Reader.read_array,
    op.HASH: Reader.read_hash,
    op.LUTF8STR: Reader.read_lutf8str,
}

# A reference and the thing behind it are one level, not two.
_PREFIXES = frozenset(
    (op.REF, op.OVERLOAD, op.WEAKREF, op.WEAKOVERLOAD, op.BLESS, op.IX_BLESS)
)
_REFERENTS = frozenset(
    (
        op.OBJECT,
        op.ARRAY,
        op.HASH,
        op.TIED_ARRAY,
        op.TIED_HASH,
        op.BLESS,
        op.IX_BLESS,
        op.HOOK,
        op.FLAG_HASH,
        op.CODE,
        op.REGEXP,
        op.LOBJECT,
    )
)
