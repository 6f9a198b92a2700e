"""What Hypothesis makes values from: the one place for every test.

`values` are data of everyday kinds, `perl_values` have Perl's own kinds in
them, `shared_values` have parts that are reached more than once, also from
inside themselves.  `as_perl_has_it` is what becomes of a value in Perl.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from redis_jobqueue.storable import (
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

Strategy = st.SearchStrategy[Any]

ascii_text = st.text(st.characters(min_codepoint=0, max_codepoint=127), max_size=20)
text = ascii_text | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
long_text = st.sampled_from([250, 255, 256, 257]).flatmap(
    lambda size: st.sampled_from(["x", "é", "€"]).map(lambda letter: letter * size)
)
octets = st.binary(max_size=20) | st.sampled_from([255, 256]).map(lambda n: b"\xff" * n)
integers = (
    st.integers(-130, 130)
    | st.sampled_from([sign * 2**bits + near for sign in (1, -1) for bits in (7, 15, 31, 53, 63, 64)
                       for near in (-1, 0, 1)])
    | st.integers()
)
floats = st.floats() | st.integers(-(2**54), 2**54).map(float)
scalars: Strategy = (
    st.none() | st.booleans() | integers | floats | text | octets | long_text
)
keys: Strategy = text | octets | st.integers(-1000, 2**40)


def perl_key(key: Any) -> tuple[bool, bytes]:
    """Return what makes a key one and the same in Perl: its characters."""
    if isinstance(key, int):
        key = str(key)
    if isinstance(key, bytes):
        return False, key
    try:
        return False, key.encode("latin-1")
    except UnicodeEncodeError:
        return True, key.encode("utf-8")


def hashes(values: Strategy) -> Strategy:
    """Make dicts whose keys stay apart in Perl."""
    return st.lists(st.tuples(keys, values), max_size=5).map(_apart)


def _apart(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return dict({perl_key(key): (key, value) for key, value in pairs}.values())


def _containers(inner: Strategy) -> Strategy:
    return (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=3).map(tuple)
        | hashes(inner)
        | inner.map(ScalarRef)
    )


values: Strategy = st.recursive(scalars, _containers, max_leaves=15)
"""Scalars, lists, tuples, dicts and references to scalars."""

everyday: Strategy = st.recursive(
    st.none() | integers | text | floats | st.booleans(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(ascii_text, inner, max_size=5),
    max_leaves=15,
)
"""What JSON could hold as well."""

_strings = ascii_text | octets.filter(lambda raw: not raw.isascii())
_classes = st.sampled_from(["My::Point", "My::List", "A", "C" * 130, "Caf\xc3\xa9", "0"])


@st.composite
def _object(draw: st.DrawFn, inner: Strategy) -> Any:
    """Make one of the kinds that only Perl has."""
    return getattr(_Objects(draw, inner), draw(st.sampled_from(_Objects.KINDS)))()


class _Objects:
    KINDS = ("blessed", "hook", "tied_hook", "regexp", "code", "vstring", "tied", "tied_scalar")
    KINDS += ("restricted", "holes", "text")

    def __init__(self, draw: st.DrawFn, inner: Strategy) -> None:
        self.draw = draw
        self.inner = inner

    def blessed(self) -> Any:
        inside = st.lists(self.inner, max_size=3) | hashes(self.inner) | self.inner.map(ScalarRef)
        name, overloaded = self.draw(_classes), self.draw(st.booleans())
        return Blessed(name, self.draw(inside), overloaded=overloaded)

    def references(self) -> list[Any]:
        lists, refs = st.lists(self.inner, max_size=2), self.inner.map(ScalarRef)
        found: list[Any] = self.draw(st.lists(lists | hashes(self.inner) | refs, max_size=3))
        # The image does not say of these whether their class overloads.
        target = self.blessed()
        target.overloaded = False
        return found + [target] * self.draw(st.integers(0, 2))

    def hook(self) -> Any:
        base = self.draw(st.sampled_from(["hash", "array", "scalar"]))
        name, frozen = self.draw(_classes), self.draw(_strings)
        return Hook(name, frozen, self.references(), base, overloaded=self.draw(st.booleans()))

    def tied_hook(self) -> Any:
        base = self.draw(st.sampled_from(["tied hash", "tied array", "tied scalar"]))
        return Hook(self.draw(_classes), "frozen", self.references(), base, self.blessed())

    def regexp(self) -> Any:
        pattern = self.draw(st.sampled_from(["", "a.*b", r"^\d+$", "x" * 256, b"\xe9+"]))
        flags = self.draw(st.sampled_from(["", "i", "msix"]))
        return Regexp(pattern, flags, self.draw(_classes))

    def code(self) -> Any:
        return Code(self.draw(text))

    def vstring(self) -> Any:
        return VString("v1.2", self.draw(_strings))

    def tied(self) -> Any:
        return Tied(self.draw(st.sampled_from(["hash", "array"])), self.blessed())

    def tied_scalar(self) -> Any:
        kind, key = self.draw(
            st.sampled_from([("scalar", None), ("key", "k"), ("key", b"\xff"), ("idx", 3)])
        )
        return ScalarRef(Tied(kind, self.blessed(), key))

    def restricted(self) -> Any:
        pairs = self.draw(hashes(self.inner))
        if not pairs or "not there" in pairs:
            return pairs
        readonly = self.draw(st.sets(st.sampled_from(sorted(pairs, key=repr))))
        allowed = self.draw(st.sampled_from([[], ["not there"]]))
        return PerlHash(pairs, restricted=True, readonly=readonly, placeholders=allowed)

    def holes(self) -> Any:
        items = self.draw(st.lists(st.none() | self.inner, max_size=4))
        missing = [index for index, item in enumerate(items) if item is None]
        return PerlList(items, missing=missing) if missing else items

    def text(self) -> Any:
        octets = st.sampled_from([b"\xff\xfe", b"\xf4\x90\x80\x80", b"\xc0\x80"])
        return PerlText(self.draw(octets))


perl_values: Strategy = st.recursive(
    scalars, lambda inner: _containers(inner) | _object(inner), max_leaves=12
)
"""Values with objects, hooks, patterns, ties, locks and holes in them."""


@st.composite
def shared_values(draw: st.DrawFn) -> Any:
    """Make lists, dicts, references and objects that lead to each other in any way."""
    count = draw(st.integers(1, 6))
    kinds = draw(st.lists(st.sampled_from("lhrbc"), min_size=count, max_size=count))
    makers: dict[str, Any] = {
        "l": list,
        "h": dict,
        "r": lambda: ScalarRef(None),
        "b": lambda: Blessed("My::List", []),
        "c": PerlList,
    }
    nodes = [makers[kind]() for kind in kinds]
    for node, kind in zip(nodes, kinds):
        targets = draw(st.lists(st.sampled_from(nodes) | integers | ascii_text, max_size=4))
        if kind == "h":
            node.update((f"k{index}", target) for index, target in enumerate(targets))
        elif kind == "r":
            node.value = targets[0] if targets else None
        elif kind == "b":
            node.value.extend(targets)
        else:
            node.extend(targets)
        if kind == "c" and targets:
            node.cells[0] = ScalarRef(node[0])
            node.append(node.cells[0])
            if draw(st.booleans()):
                node.append(node[0])
                node.cells[len(node) - 1] = node.cells[0]
    if draw(st.booleans()):
        nodes.append(WeakRef(nodes[0]))
    return nodes


def as_perl_has_it(value: Any) -> Any:
    """Return what a value is once Perl has it: no floats, bools, tuples or ASCII bytes."""
    return _View().of(value)


class _View:
    def __init__(self) -> None:
        self.made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, (bool, int, float, bytes)):
            return _scalar(value)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, VString):
            return VString(self.of(value.literal), self.of(value.value))
        if isinstance(value, WeakRef):
            return WeakRef(self.of(value.value))
        if id(value) in self.made and value != ():
            return self.made[id(value)]
        return self.thing(value)

    def thing(self, value: Any) -> Any:
        made: Any
        if isinstance(value, (list, tuple)):
            made = self.made[id(value)] = PerlList(missing=getattr(value, "missing", ()))
            made.extend(self.of(item) for item in value)
            self.cells(value, made)
        elif isinstance(value, dict):
            made = self.made[id(value)] = PerlHash()
            made.update((self.key(key), self.of(item)) for key, item in value.items())
            if isinstance(value, PerlHash):
                made.restricted = value.restricted
                made.readonly = {self.key(key) for key in value.readonly}
                made.placeholders = [self.key(key) for key in value.placeholders]
            self.cells(value, made)
        else:
            made = self.made[id(value)] = type(value).__new__(type(value))
            for name in value.__slots__:
                if not name.startswith("__"):
                    setattr(made, name, None)
            for name in value.__slots__:
                if not name.startswith("__"):
                    inner = getattr(value, name)
                    plain = name in ("class_name", "overloaded", "base", "kind", "flags")
                    refs = name == "refs"
                    setattr(made, name, inner if plain else
                            [self.of(item) for item in inner] if refs else
                            self.of(inner))
            if isinstance(made, Tied) and made.kind == "idx":
                made.key = value.key
        return made

    def cells(self, value: Any, made: Any) -> None:
        for place, cell in getattr(value, "cells", {}).items():
            made.cells[place] = self.of(cell)

    def key(self, key: Any) -> Any:
        return _scalar(str(key).encode() if isinstance(key, int) else key)


def _scalar(value: Any) -> Any:
    if isinstance(value, PerlText) or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("ascii") if value.isascii() else value
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), -float("inf")):
            return "Inf" if value > 0 else "-Inf"
        if not value.is_integer() or abs(value) >= 2**53:
            return "%.15g" % value
    number = int(value)
    return number if -(2**31) <= number < 2**31 else str(number)
