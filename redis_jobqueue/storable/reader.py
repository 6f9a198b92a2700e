"""Image to value: any image, of any depth, whatever it holds.

Strategy: one method for each tag, found in the table `READ`.  A tag with nothing
inside returns its value; one with something inside is a generator that is sent
each value as it is read.  The loop in `reading` keeps them on a list of its own, so
that the depth of an image never meets the depth of Python's stack.

A list or hash is made, and numbered, before what is in it is read: that is how
Perl numbers things, and how a cycle finds its start.  What can only be known
later (which scalars are shared, which lists have holes) is learned in a first
pass, and a second one reads with that knowledge.

Nothing is allocated on the word of the image: every length is checked against
the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import opcodes as op
from .hints import Unfit
from .opcodes import BE32_SIGNED
from .reading import CELL, Reading, Steps
from .types import (
    Blessed,
    Code,
    Hook,
    PerlHash,
    PerlList,
    Regexp,
    Tied,
    VString,
    WeakRef,
    text,
)


class Reader(Reading):
    """What follows each tag."""

    # -- scalars --

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
        if self.hints.is_tuple(self.node - 1):
            return self._tuple(number)
        return self._ref(number)

    def _ref(self, number: int) -> Steps:
        value = self.refer((yield))
        self.cell = number
        return value

    def _tuple(self, number: int) -> Steps:
        target = len(self.things)
        self.open_tuples.add(target)
        value = yield
        self.open_tuples.discard(target)
        if type(value) is not list or self.things[target] is not value:
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
        met: dict[Any, tuple[int, bytes]] = {}
        for _ in range(size):
            value = yield
            cell = self.cell
            gone = value is None and self.tag == op.SVUNDEF_ELEM
            flags = self.byte()
            if flags & op.KEY_IS_SV:
                key = yield
                self.check_key(key)
            else:
                key = self.flagged_key(flags, met)
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

    def key(self, key: Any, tag: int) -> Any:
        """Count a hash key as a node."""
        self.node += 1
        return self.hints.key(self.node - 1, key, tag)

    def flagged_key(self, flags: int, met: dict[Any, tuple[int, bytes]]) -> Any:
        raw = self.take(self.length())
        if flags & op.KEY_UTF8:
            key = self.key(text(raw), op.UTF8STR)
        elif flags & op.KEY_WAS_UTF8:
            key = self.key(raw.decode("latin-1"), op.UTF8STR)
        else:
            key = self.key(self.octets(raw), op.SCALAR)
        identity = flags & (op.KEY_UTF8 | op.KEY_WAS_UTF8), raw
        if met.setdefault(key, identity) != identity:
            raise self.broken(f"two keys of a hash are both {key!r:.50}, read in this way")
        return key

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
