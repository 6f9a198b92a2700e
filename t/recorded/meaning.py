"""What the Perl of the recordings comes to: walk the tree of `syntax`.

A Perl string is a ``str`` with one character per character of Perl; a list or
hash reference is a ``list`` or ``dict``.  Every expression has a value in list
context (`Run.many`) and one in scalar context (`Run.one`).  What touches the
package, Redis or a server is asked of a `World`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from redis_jobqueue.storable import Blessed, ScalarRef

from recorded.syntax import Node, Unreadable, parse


class World(Protocol):
    """What a program can reach: its first variables, functions and methods."""

    variables: dict[str, Any]

    def method(self, on: Any, name: str, given: list[Any]) -> list[Any]:
        """Call a method; the values that it gives in list context."""

    def function(self, name: str, given: list[Any]) -> Any:
        """Call a function or constant."""


class Flagged(str):
    """Text with Perl's UTF-8 flag on."""


class _Last(Exception):
    pass


def run(text: str, world: World) -> list[Any]:
    """Run a program; the values of its last statement in list context."""
    return Run(world).many(parse(text))


def true(value: Any) -> bool:
    """Tell whether Perl takes a value for true."""
    if isinstance(value, (str, bytes, int, float)) or value is None:
        return value not in (None, "", "0", b"", b"0", 0)
    return True


def text(value: Any) -> str:
    """Give a value as Perl's text of it."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return f"{value:.15g}" if isinstance(value, float) else str(value)


class Run:
    """One run of a program in a world, whose variables it shares."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.variables = world.variables

    def many(self, node: Node) -> list[Any]:
        """Give the values of a node in list context."""
        found = getattr(self, f"many_{_NAMES.get(node[0], node[0])}", None)
        return found(node) if found else [self.one(node)]

    def one(self, node: Node) -> Any:
        """Give the value of a node in scalar context."""
        kind = node[0]
        if kind in _SIGNS:
            return _SIGNS[kind](self.one(node[1]), self.one(node[2]))
        found = getattr(self, f"one_{_NAMES.get(kind, kind)}", None)
        if found:
            return found(node)
        values = self.many(node)
        return values[-1] if values else None

    # Statements.

    def many_block(self, node: Node) -> list[Any]:
        return self.in_order(node[1], self.many, [])

    def one_block(self, node: Node) -> Any:
        return self.in_order(node[1], self.one, None)

    def in_order(self, parts: list[Node], last: Any, nothing: Any) -> Any:
        for part in parts[:-1]:
            self.many(part)
        return last(parts[-1]) if parts else nothing

    def many_for(self, node: Node) -> list[Any]:
        try:
            for value in self.many(node[1]):
                self.variables["$_"] = value
                self.many(node[2])
        except _Last:
            pass
        return []

    def many_if(self, node: Node) -> list[Any]:
        return self.many(node[2]) if true(self.one(node[1])) else []

    def many_last(self, node: Node) -> list[Any]:
        raise _Last

    # Variables.

    def many_variable(self, node: Node) -> list[Any]:
        value = self.variable(node[1])
        return list(value) if node[1][0] == "@" else [value]

    def one_variable(self, node: Node) -> Any:
        value = self.variable(node[1])
        return len(value) if node[1][0] == "@" else value

    def variable(self, name: str) -> Any:
        if name not in self.variables:
            raise Unreadable(f"the variable {name}")
        return self.variables[name]

    def many_my(self, node: Node) -> list[Any]:
        return []

    def one_assign(self, node: Node) -> Any:
        target = node[1][1] if node[1][0] == "my" else node[1]
        if target[0] == "list":
            values = self.many(node[2])
            for place, variable in enumerate(target[1]):
                self.variables[variable[1]] = values[place] if place < len(values) else None
            return len(values)
        if target[0] == "item":
            self.one(target[1])[text(self.one(target[2]))] = self.one(node[2])
        elif target[1][0] == "@":
            self.variables[target[1]] = self.many(node[2])
        else:
            self.variables[target[1]] = self.one(node[2])
        return None if target[0] == "item" else self.one(target)

    def one_item(self, node: Node) -> Any:
        kind, name = node[1][:2]
        holder = self.variable(name) if kind == "variable" else self.one(node[1])
        key = self.one(node[2])
        return holder.get(text(key)) if isinstance(holder, Mapping) else holder[int(key)]

    # Values.

    def many_list(self, node: Node) -> list[Any]:
        return [value for part in node[1] for value in self.many(part)]

    def one_list(self, node: Node) -> Any:
        return self.in_order(node[1], self.one, None)

    def one_text(self, node: Node) -> Any:
        return node[1]

    one_number = one_text

    def one_undef(self, node: Node) -> Any:
        return None

    def one_join(self, node: Node) -> Any:
        return "".join(text(self.one(part)) for part in node[1])

    def one_array(self, node: Node) -> Any:
        return self.many(node[1])

    def one_hash(self, node: Node) -> Any:
        return pairs(self.many(node[1]))

    def one_sub(self, node: Node) -> Any:
        return lambda: self.many(node[1])

    def one_ref(self, node: Node) -> Any:
        return ScalarRef(self.one(node[1]))

    def one_negate(self, node: Node) -> Any:
        return -self.one(node[1])

    def one_not(self, node: Node) -> Any:
        return "" if true(self.one(node[1])) else "1"

    def many_deref(self, node: Node) -> list[Any]:
        value = self.one(node[2])
        if node[1] == "@":
            return list(value)
        return [value] if node[1] == "%" else [value.value]

    def many_choose(self, node: Node) -> list[Any]:
        return self.many(node[2] if true(self.one(node[1])) else node[3])

    def one_choose(self, node: Node) -> Any:
        return self.one(node[2] if true(self.one(node[1])) else node[3])

    def one_range(self, node: Node) -> Any:
        raise Unreadable("a range in scalar context")

    def many_range(self, node: Node) -> list[Any]:
        return list(range(self.one(node[1]), self.one(node[2]) + 1))

    def many_map(self, node: Node) -> list[Any]:
        found = []
        for value in self.many(node[2]):
            self.variables["$_"] = value
            found += self.many(node[1])
        return found

    def many_do(self, node: Node) -> list[Any]:
        return self.many(node[1])

    def many_eval(self, node: Node) -> list[Any]:
        try:
            return self.many(node[1])
        except Unreadable:
            raise
        except Exception:
            return []

    # Calls.

    def many_method(self, node: Node) -> list[Any]:
        return self.world.method(self.one(node[1]), node[2], self.many(node[3]))

    def many_call(self, node: Node) -> list[Any]:
        name, given = node[1:]
        if name == "scalar":
            return [self.one(given)]
        values = self.many(given)
        if name == "utf8::upgrade":
            self.variables[given[1][0][1]] = Flagged(values[0])
            return []
        if name == "keys":
            return list(values[0])
        if name == "sort":
            return sorted(values, key=text)
        if name == "join":
            return [text(values[0]).join(map(text, values[1:]))]
        if name in _FUNCTIONS:
            return [_FUNCTIONS[name](*values)]
        return [self.world.function(name, values)]

    def one_glob(self, node: Node) -> Any:
        return self.world.function("*" + node[1], [])


def pairs(values: list[Any]) -> dict[str, Any]:
    """Make a hash of keys and values in turn."""
    if len(values) % 2:
        raise Unreadable("an odd number of elements")
    return {text(key): value for key, value in zip(values[::2], values[1::2])}


def _bless(value: Any, name: str) -> Blessed:
    return Blessed(name, value)


_FUNCTIONS: dict[str, Any] = {
    "bless": _bless,
    "chr": chr,
    "lc": str.lower,
    "uc": str.upper,
    "select": lambda *given: time.sleep(given[3]),
    "time": lambda: int(time.time()),
}

# Names of methods for the signs that need the tree and not just both values.
_NAMES = {"=": "assign", "?": "choose", "..": "range"}

_SIGNS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: float(a) ** b,
    ".": lambda a, b: text(a) + text(b),
    "x": lambda a, b: text(a) * b,
    "==": lambda a, b: "1" if float(a) == float(b) else "",
    "eq": lambda a, b: "1" if text(a) == text(b) else "",
}
