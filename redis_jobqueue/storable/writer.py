"""Value to image: any value that Perl can hold, byte for byte as Perl's nfreeze writes it.

Strategy: the mirror of the reader.  One method for each Python type, found in a
table: `SLOT` for what sits in a scalar slot, `REFERENT` for what a reference
leads to.  A method writes what is at hand; if there is more inside it is a
generator that gives each inner value with its place, and the loop in `writing`
keeps those on a list of its own.

Lists, dicts and references are known by identity: the second meeting writes the
number of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from . import hints as hint
from . import opcodes as op
from .limits import MAX_FREEZE_DEPTH, MAX_FREEZE_HASH_DEPTH, MAX_INT_DIGITS
from .opcodes import BE32, BE32_SIGNED
from .types import (
    Blessed,
    Code,
    Hook,
    PerlHash,
    PerlList,
    PerlText,
    Regexp,
    ScalarRef,
    Tied,
    VString,
    WeakRef,
)
from .writing import ATTRIBUTE, ITEM, VALUE, Steps, Writing


class Writer(Writing):
    """How each type is written."""

    def resolve(self, value: Any) -> tuple[type, Any]:
        """Find the type that a value is written as, and what of it is written."""
        kind = type(value)
        if kind in SLOT:
            return kind, value
        base = written_as(value)
        if base is None:
            self.refuse(f"Perl has no form for the type {kind.__name__}")
        return base, _PLAIN[base](value) if base in _PLAIN else value

    def slot(self, value: Any) -> Steps | None:
        """Write a value into a scalar slot: an element, a hash value, a target."""
        kind, value = self.resolve(value)
        self.next_number += 1
        self.node += 1
        steps: Steps | None = SLOT[kind](self, value)
        return steps

    # -- scalars --

    def write_none(self, _value: None) -> None:
        self.put(op.UNDEF)

    def write_str(self, value: str) -> None:
        if value.isascii():
            self.counted(op.SCALAR, op.LSCALAR, value.encode("ascii"))
        else:
            self.counted(op.UTF8STR, op.LUTF8STR, self.encode(value))

    def write_bytes(self, value: bytes) -> None:
        if value.isascii():
            self.hints[self.node - 1] = hint.BYTES, b""
        self.counted(op.SCALAR, op.LSCALAR, value)

    def write_text(self, value: PerlText) -> None:
        self.counted(op.UTF8STR, op.LUTF8STR, value)

    def write_bool(self, value: bool) -> None:
        self.hints[self.node - 1] = hint.BOOL, b""
        self.integer(int(value))

    def write_int(self, value: int) -> None:
        if self.integer(value):
            return
        try:
            if value.bit_length() > 4 * MAX_INT_DIGITS:
                raise ValueError
            digits = str(value)
        except ValueError:
            self.refuse(f"an int may have {MAX_INT_DIGITS} digits at most")
        self.hints[self.node - 1] = hint.INT, b""
        self.counted(op.SCALAR, op.LSCALAR, digits.encode("ascii"))

    def integer(self, value: int) -> bool:
        """Write an int if there is a tag that takes it."""
        if -128 <= value <= 127:
            self.put(op.BYTE, bytes((value + 128,)))
        elif self.layout.network and -(2**31) <= value < 2**31:
            self.put(op.NETINT, BE32_SIGNED.pack(value))
        elif not self.layout.network and -(2**63) <= value < 2**63:
            self.put(op.INTEGER, self.layout.integer.pack(value))
        else:
            return False
        return True

    def write_float(self, value: float) -> None:
        plain = hint.float_text(value)
        if isinstance(plain, str) and not self.layout.network:
            self.put(op.DOUBLE, self.layout.double.pack(value))
            return
        self.hints[self.node - 1] = hint.pack_float(value)
        if isinstance(plain, str) or not self.integer(plain):
            self.counted(op.SCALAR, op.LSCALAR, str(plain).encode("ascii"))

    def write_vstring(self, value: VString) -> Steps:
        self.counted(op.VSTRING, op.LVSTRING, self.raw(value.literal))
        self.raw(value.value)
        self.next_number -= 1  # the string inside is the very scalar
        self.node -= 1
        yield VALUE, self.slot, value.value

    # -- references --

    def write_reference(self, value: Any) -> Steps | None:
        if isinstance(value, tuple) and id(value) not in self.numbers:
            self.hints[self.node - 1] = hint.TUPLE, b""
            self.open_tuples[id(value)] = self.node - 1
        self.put(op.OVERLOAD if _overloaded(value) else op.REF)
        return self.enter(value)

    def write_weak(self, reference: WeakRef) -> Steps:
        value = reference.value
        self.put(op.WEAKOVERLOAD if _overloaded(value) else op.WEAKREF)
        yield VALUE, self.enter, value

    def enter(self, value: Any) -> Steps | None:
        """Write what a reference leads to, one level down."""
        self.depth += 1
        if self.depth > MAX_FREEZE_DEPTH:
            self.refuse(f"Perl takes no list or reference below level {MAX_FREEZE_DEPTH}")
        return self.referent(value)

    def bare(self, value: Any) -> Steps | None:
        """Write what the reference of a hook leads to: Perl counts lists and hashes only."""
        inner = value.value if isinstance(value, Blessed) else value
        return (self.enter if isinstance(inner, (list, tuple, dict)) else self.referent)(value)

    def referent(self, value: Any) -> Steps | None:
        """Write a list, hash or object, or the number of one that is written."""
        kind, value = self.resolve(value)
        if kind not in REFERENT:
            self.refuse(f"a reference must stand here, not the type {kind.__name__}")
        number = self.numbers.get(id(value))
        if number is not None:
            # Inside itself a tuple cannot be given back: it stays a list.
            self.hints.pop(self.open_tuples.get(id(value), -1), None)
            self.put(op.OBJECT, BE32.pack(number))
            return None
        if kind is not tuple or tuple.__len__(value):  # Python has only one empty tuple
            self.numbers[id(value)] = self.next_number
        steps: Steps | None = REFERENT[kind](self, value)
        return steps

    def write_scalar_ref(self, value: ScalarRef) -> Steps:
        if value.value is None and self.next_number == 1:  # the root: \undef in Perl
            self.next_number += 1
            self.node += 1
            self.put(op.SV_UNDEF)
            return
        yield VALUE, self.slot, value.value

    def write_blessed(self, value: Blessed) -> Steps:
        self.bless(value.class_name)
        yield VALUE, self.blessed, value.value

    def blessed(self, value: Any) -> Steps | None:
        """Write what is blessed: it has the number of its object."""
        kind = self.resolve(value)[0]
        if kind is ScalarRef:
            return self._target(value)
        if kind not in _BLESSABLE:
            self.refuse(
                "what is blessed must be a list, a dict or a ScalarRef,"
                f" not the type {kind.__name__}"
            )
        steps: Steps | None = REFERENT[kind](self, value)
        return steps

    def _target(self, value: ScalarRef) -> Steps:
        yield VALUE, self.slot, value.value

    def bless(self, name: Any) -> None:
        raw = self.class_name(name)
        if raw in self.classes:
            self.put(op.IX_BLESS, self.class_length(self.classes[raw]))
        else:
            self.classes[raw] = len(self.classes)
            self.put(op.BLESS, self.class_length(len(raw)) + raw)

    # -- lists and hashes --

    def write_list(self, value: list[Any]) -> Steps:
        self.next_number += 1
        self.put(op.ARRAY, self.length(list.__len__(value)))
        for index, item in enumerate(list.__iter__(value)):
            yield (ITEM, index), self.slot, item

    def write_tuple(self, value: tuple[Any, ...]) -> Steps:
        self.next_number += 1
        self.put(op.ARRAY, self.length(tuple.__len__(value)))
        for index, item in enumerate(tuple.__iter__(value)):
            yield (ITEM, index), self.slot, item
        self.open_tuples.pop(id(value), None)

    def write_perl_list(self, value: PerlList) -> Steps:
        self.next_number += 1
        self.put(op.ARRAY, self.length(len(value)))
        for index, item in enumerate(value):
            write = self.missing if item is None and index in value.missing else self.slot
            yield (ITEM, index), self.cell(value.cells.get(index), item, write), item

    def missing(self, _value: None) -> None:
        self.next_number += 1
        self.node += 1
        self.put(op.SV_UNDEF)

    def cell(
        self, scalar: ScalarRef | None, item: Any, write: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        """Return what writes a slot that may be the scalar of a `ScalarRef`."""
        if scalar is None or scalar.value is not item:
            return write
        if id(scalar) in self.numbers:
            return partial(self.write_number, self.numbers[id(scalar)])
        self.numbers[id(scalar)] = self.next_number
        return write

    def write_number(self, number: int, _value: Any) -> None:
        self.put(op.OBJECT, BE32.pack(number))

    def write_dict(self, value: dict[Any, Any]) -> Steps:
        if self.depth > MAX_FREEZE_HASH_DEPTH:
            self.refuse(f"Perl takes no hash below level {MAX_FREEZE_HASH_DEPTH}")
        self.next_number += 1
        more = value if type(value) is PerlHash else _NOTHING_MORE
        if not more.restricted and (more.readonly or more.placeholders):
            self.refuse("only a restricted hash has readonly keys and placeholders")
        placeholders = [key for key in more.placeholders if key not in value]
        keys = self.keys([*dict.keys(value), *placeholders])
        if more.restricted or any(flags for flags, _, _ in keys):
            restricted = op.HASH_RESTRICTED if more.restricted else 0
            self.put(op.FLAG_HASH, bytes((restricted,)) + self.length(len(keys)))
        else:
            self.put(op.HASH, self.length(len(keys)))
        flagged = self.out[-1][0] == op.FLAG_HASH
        for (key, item), written in zip(dict.items(value), keys):
            yield (ITEM, key), self.cell(more.cells.get(key), item, self.slot), item
            self.key(written, op.KEY_LOCKED if key in more.readonly else 0, flagged)
        for written in keys[dict.__len__(value) :]:
            self.missing(None)
            self.key(written, op.KEY_LOCKED | op.KEY_PLACEHOLDER, flagged)

    # -- objects of other kinds --

    def write_tied_slot(self, value: Tied) -> Steps | None:
        if value.kind in ("array", "hash"):
            return self.write_reference(value)
        return self._tied(value)

    def write_tied_referent(self, value: Tied) -> Steps:
        if value.kind not in ("array", "hash"):
            self.refuse(f"a tied {value.kind} must stand in a ScalarRef")
        self.next_number += 1
        return self._tied(value)

    def _tied(self, value: Tied) -> Steps:
        if value.kind not in _TIED_TAGS:
            self.refuse(f"nothing is tied as {value.kind!r:.50}")
        self.put(_TIED_TAGS[value.kind])
        yield (ATTRIBUTE, "object"), self.slot, value.object
        if value.kind == "key":
            yield (ATTRIBUTE, "key"), self.slot, value.key
        elif value.kind == "idx":
            if not isinstance(value.key, int) or value.key < 0:
                self.refuse("the key of a tied element must be its index")
            self.out.append(self.length(value.key))

    def write_regexp(self, value: Regexp) -> None:
        self.bless(value.class_name)
        self.next_number += 1
        pattern, flags = self.raw(value.pattern), self.raw(value.flags)
        if len(flags) > 255:
            self.refuse("a pattern has no more than 255 flags")
        long = len(pattern) > 255
        size = self.length(len(pattern)) if long else bytes((len(pattern),))
        self.put(op.REGEXP, bytes((long,)) + size + pattern + bytes((len(flags),)) + flags)

    def write_code(self, value: Code) -> Steps:
        self.next_number += 1
        self.put(op.CODE)
        self.raw(value.source)
        yield (ATTRIBUTE, "source"), self.slot, value.source

    def write_hook(self, hook: Hook) -> Steps:
        """Write an object that its class froze; see `Reader.read_hook`."""
        if hook.base not in _HOOK_BASES:
            self.refuse(f"a hook has no base {hook.base!r:.50}")
        self.next_number += 1
        base, extra = _HOOK_BASES[hook.base]
        self.put(op.HOOK)
        numbers: list[int] = []
        for index, value in enumerate(hook.refs):
            number = self.numbers.get(id(value))
            if number is None:
                number = self.next_number
                self.put(base | op.HOOK_RECURSE, extra)
                extra = b""
                yield (ATTRIBUTE, f"refs[{index}]"), self.bare, value
            numbers.append(number)
        self._hook_end(hook, base, extra, numbers)
        if base == op.HOOK_EXTRA:
            yield (ATTRIBUTE, "tied"), self.slot, hook.tied

    def _hook_end(self, hook: Hook, flags: int, extra: bytes, numbers: list[int]) -> None:
        name, frozen = self.class_name(hook.class_name), self.raw(hook.frozen)
        if name in self.classes:
            flags |= op.HOOK_INDEXED
            size, name = self.classes[name], b""
        else:
            self.classes[name] = len(self.classes)
            size = len(name)
        flags |= op.HOOK_LONG_CLASS if size > 255 else 0
        flags |= op.HOOK_LONG_STRING if len(frozen) > 255 else 0
        rest = extra + self.hook_length(size) + name + self.hook_length(len(frozen)) + frozen
        if numbers:
            flags |= op.HOOK_HAS_LIST | (op.HOOK_LONG_LIST if len(numbers) > 255 else 0)
            rest += self.hook_length(len(numbers)) + b"".join(map(BE32.pack, numbers))
        self.put(flags, rest)

    def hook_length(self, size: int) -> bytes:
        return bytes((size,)) if size < 256 else self.length(size)


def written_as(value: Any) -> type | None:
    """Return the type that a value is written as: a subclass as its base, an Enum not at all."""
    if isinstance(value, Enum):
        return None
    return next((base for base in SLOT if isinstance(value, base)), None)


def _overloaded(value: Any) -> bool:
    return isinstance(value, (Blessed, Hook)) and value.overloaded


SLOT: dict[type, Callable[..., Any]] = {
    type(None): Writer.write_none,
    bool: Writer.write_bool,
    PerlText: Writer.write_text,
    str: Writer.write_str,
    bytes: Writer.write_bytes,
    int: Writer.write_int,
    float: Writer.write_float,
    PerlList: Writer.write_reference,
    list: Writer.write_reference,
    tuple: Writer.write_reference,
    PerlHash: Writer.write_reference,
    dict: Writer.write_reference,
    ScalarRef: Writer.write_reference,
    Blessed: Writer.write_reference,
    Hook: Writer.write_reference,
    Regexp: Writer.write_reference,
    Code: Writer.write_reference,
    Tied: Writer.write_tied_slot,
    VString: Writer.write_vstring,
    WeakRef: Writer.write_weak,
}

REFERENT: dict[type, Callable[..., Any]] = {
    PerlList: Writer.write_perl_list,
    list: Writer.write_list,
    tuple: Writer.write_tuple,
    PerlHash: Writer.write_dict,
    dict: Writer.write_dict,
    ScalarRef: Writer.write_scalar_ref,
    Blessed: Writer.write_blessed,
    Hook: Writer.write_hook,
    Regexp: Writer.write_regexp,
    Code: Writer.write_code,
    Tied: Writer.write_tied_referent,
}

# What of a subclass is written: a plain value of its base, whatever it overrides.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    bytes: lambda value: b"".join((value,)),
    int: int.__int__,
    float: float.__float__,
}

_BLESSABLE = frozenset((PerlList, list, tuple, PerlHash, dict, ScalarRef, Code, Tied))
_NOTHING_MORE = PerlHash()
_TIED_TAGS = {kind: tag for tag, kind in op.TIED_KINDS.items()}
_HOOK_BASES = {name: (number, b"") for number, name in op.HOOK_BASES.items()} | {
    name: (op.HOOK_EXTRA, bytes((number,))) for number, name in op.HOOK_EXTRAS.items()
}
