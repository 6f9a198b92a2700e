"""Tagged values, the form in which the recordings describe Perl data, and Python values.

`value_of` makes the Python value that a tagged value describes; `difference`
says where a Python value is not what a tagged value describes.  The tags are
those of the recordings: ``undef``, ``int``, ``num``, ``octets``, ``text``, ``bool``,
``array``, ``hash``, ``ref``, ``blessed``, ``shared`` and ``backref``, ``weak``, ``hook``,
``regexp``, ``code``, ``vstring``, ``tied``.
"""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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

Form = dict[str, Any]


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Let this module (and ``==``) follow the deepest recording."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def octets(raw: bytes) -> str | bytes:
    """Return octets as ``strings="auto"`` reads them."""
    return raw.decode("ascii") if raw.isascii() else raw


def string_of(form: Form) -> str | bytes:
    """Return the string that an ``octets`` or ``text`` form describes."""
    if form["t"] == "octets":
        return octets(b64decode(form["b64"]))
    if "v" in form:
        text: str = form["v"].encode("utf-16", "surrogatepass").decode("utf-16")
        return text
    return PerlText(b64decode(form["b64"]))


def value_of(form: Form) -> Any:
    """Return the Python value that a tagged value describes."""
    with deep_recursion():
        return _Builder().slot(form)


class _Builder:
    def __init__(self) -> None:
        self.referents: dict[int, Any] = {}
        self.cells: dict[int, ScalarRef] = {}

    def slot(self, form: Form, holder: Any = None, place: Any = None) -> Any:
        """Make the value of a scalar slot; a shared one is noted in its holder."""
        if form["t"] == "backref":
            if form["id"] in self.referents:
                return self.referents[form["id"]]
            cell = self.cells[form["id"]]
        elif form["t"] == "shared" and form["of"] == "cell":
            cell = self.cells[form["id"]] = ScalarRef(None)
            cell.value = self.slot(form["v"])
        else:
            return self.value(form)
        if holder is not None:
            holder.cells[place] = cell
        return cell.value

    def value(self, form: Form, number: int | None = None) -> Any:
        return getattr(self, f"make_{form['t']}")(form, number)

    def note(self, number: int | None, value: Any) -> Any:
        if number is not None:
            self.referents[number] = value
        return value

    def make_shared(self, form: Form, _: int | None) -> Any:
        return self.value(form["v"], form["id"])

    def make_undef(self, _form: Form, _: int | None) -> None:
        return None

    def make_int(self, form: Form, _: int | None) -> int:
        return int(form["v"])

    def make_num(self, form: Form, _: int | None) -> float:
        return float(form["v"])

    def make_bool(self, form: Form, _: int | None) -> bool:
        return bool(form["v"])

    def make_octets(self, form: Form, _: int | None) -> str | bytes:
        return string_of(form)

    make_text = make_octets

    def make_array(self, form: Form, number: int | None) -> list[Any]:
        missing = [i for i, item in enumerate(form["v"]) if item.get("exists") is False]
        special = missing or any(_is_cell(item) for item in form["v"])
        out: list[Any] = PerlList(missing=missing) if special else []
        self.note(number, out)
        for index, item in enumerate(form["v"]):
            out.append(self.slot(item, out if special else None, index))
        return out

    def make_hash(self, form: Form, number: int | None) -> dict[Any, Any]:
        special = "restricted" in form or any(_is_cell(item) for _, item in form["v"])
        out: dict[Any, Any] = {}
        if special:
            out = PerlHash(
                restricted=bool(form.get("restricted")),
                readonly=map(string_of, form.get("readonly", ())),
                placeholders=map(string_of, form.get("placeholders", ())),
            )
        self.note(number, out)
        for key_form, item in form["v"]:
            key = string_of(key_form)
            out[key] = self.slot(item, out if special else None, key)
        return out

    def make_ref(self, form: Form, number: int | None) -> ScalarRef:
        inner = form["v"]
        if inner["t"] == "backref" and inner["id"] in self.cells:
            return self.cells[inner["id"]]
        out: ScalarRef = self.note(number, ScalarRef(None))
        if inner["t"] == "shared" and inner["of"] == "cell":
            self.cells[inner["id"]] = out
            inner = inner["v"]
        out.value = self.slot(inner)
        return out

    def make_blessed(self, form: Form, number: int | None) -> Blessed:
        out = Blessed(form["class"], None, overloaded=bool(form.get("overloaded")))
        self.note(number, out)
        out.value = self.value(form["v"])
        return out

    def make_weak(self, form: Form, _: int | None) -> WeakRef:
        return WeakRef(self.slot(form["v"]))

    def make_hook(self, form: Form, number: int | None) -> Hook:
        out: Hook = self.note(
            number, Hook(form["class"], string_of(form["frozen"]), [], form["base"])
        )
        out.refs.extend(self.slot(item) for item in form["refs"])
        return out

    def make_regexp(self, form: Form, number: int | None) -> Regexp:
        pattern = string_of(form["pattern"])
        return self.note(number, Regexp(pattern, form["flags"], form["class"]))  # type: ignore

    def make_code(self, form: Form, number: int | None) -> Code:
        return self.note(number, Code(string_of(form["source"])))  # type: ignore

    def make_vstring(self, form: Form, _: int | None) -> VString:
        return VString(string_of(form["literal"]), string_of(form["v"]))

    def make_tied(self, form: Form, number: int | None) -> Tied:
        kind = form["kind"]
        key = form.get(kind)
        if isinstance(key, dict):
            key = string_of(key)
        out: Tied = self.note(number, Tied(kind, None, key))
        out.object = self.slot(form["v"])
        return out


def _is_cell(form: Form) -> bool:
    return form["t"] == "backref" or form["t"] == "shared" and form["of"] == "cell"


def difference(value: Any, form: Form) -> str | None:
    """Say where a Python value is not what a tagged value describes; None if nowhere."""
    return same(value_of(form), value)


def same(expected: Any, actual: Any) -> str | None:
    """Say where two Python values differ in type, content or sharing; None if nowhere.

    Stricter than ``==``: 1, 1.0 and True differ, shared parts must be shared in both
    alike, and what `PerlList` and `PerlHash` remember counts.  Any depth.
    """
    there: dict[int, int] = {}  # id of an expected part -> id of the actual one
    back: dict[int, int] = {}
    todo: list[tuple[str, Any, Any]] = [("value", expected, actual)]
    while todo:
        path, one, other = todo.pop()
        if isinstance(one, _IDENTIFIED) and one != ():
            if id(one) in there or id(other) in back:
                if there.get(id(one)) != id(other) or back.get(id(other)) != id(one):
                    return f"{path}: shared differently"
                continue
            there[id(one)] = id(other)
            back[id(other)] = id(one)
        if type(one) is not type(other) and not _alike(one, other):
            return f"{path}: expected {type(one).__name__}, got {type(other).__name__}"
        parts = list(_parts(one)), list(_parts(other))
        if [name for name, _ in parts[0]] != [name for name, _ in parts[1]]:
            names = [name for name, _ in parts[0]], [name for name, _ in parts[1]]
            return f"{path}: expected {names[0]!r:.200}, got {names[1]!r:.200}"
        if not parts[0] and not _equal(one, other):
            return f"{path}: expected {one!r:.200}, got {other!r:.200}"
        for (name, inner), (_, outer) in zip(*parts):
            todo.append((f"{path}{name}"[-300:], inner, outer))
    return None


_IDENTIFIED = (list, dict, tuple, ScalarRef, Blessed, Hook, Regexp, Code, Tied)


def _alike(one: Any, other: Any) -> bool:
    # A PerlList that remembers nothing is a list.
    kinds = {type(one), type(other)}
    return kinds == {list, PerlList} or kinds == {dict, PerlHash}


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)


_FIELDS: dict[type, tuple[str, ...]] = {
    ScalarRef: ("value",),
    WeakRef: ("value",),
    Blessed: ("class_name", "overloaded", "value"),
    # Not overloaded: the recordings do not tell.
    Hook: ("class_name", "frozen", "base", "tied", "refs"),
    Regexp: ("pattern", "flags", "class_name"),
    Code: ("source",),
    VString: ("literal", "value"),
    Tied: ("kind", "object", "key"),
}


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Give each part of a value with its name, in an order that means nothing."""
    if isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
        yield from ((f".missing {index}", True) for index in sorted(getattr(value, "missing", ())))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", value[key]) for key in sorted(value, key=repr))
        if isinstance(value, PerlHash):
            if value.restricted:
                yield ".restricted", True
            for name in ("readonly", "placeholders"):
                keys = sorted(getattr(value, name), key=repr)
                yield from ((f".{name} {key!r}", True) for key in keys)
    for name in _FIELDS.get(type(value), ()):
        yield f".{name}", getattr(value, name)
    if isinstance(value, (PerlList, PerlHash)):
        for place in sorted(value.cells, key=repr):
            yield f".cells[{place!r}]", value.cells[place]
