"""Values that the tests send between Python and Perl."""

from __future__ import annotations

from typing import Any

from redis_jobqueue import Blessed, ScalarRef


def _shared() -> list[Any]:
    part = {"part": [1]}
    return [part, {"again": part}, part]


def _cycle() -> dict[str, Any]:
    parent: dict[str, Any] = {"name": "parent"}
    parent["child"] = {"name": "child", "parent": parent}
    return parent


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _shared_scalar() -> list[Any]:
    scalar = ScalarRef("one scalar")
    return [scalar, scalar]


def _shared_object() -> dict[str, Any]:
    thing = Blessed("My::Thing", {"count": 2})
    return {"a": thing, "b": [thing]}


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


FROM_PYTHON: dict[str, Any] = {
    "empty text": "",
    "zero text": "0",
    "word": "plain",
    "long text": "x" * 300,
    "text with newline and NUL": "a\n\0b",
    "latin1 text": "caf\xe9",
    "wide text": "\u20ac uro \U0001f600",
    "long wide text": "\u0416" * 300,
    "bytes": b"\x00\xff\x80",
    "ASCII bytes": b"ascii",
    "empty bytes": b"",
    "None": None,
    "True": True,
    "False": False,
    "zero": 0,
    "negative": -1,
    "smallest byte": -128,
    "largest byte": 127,
    "two bytes": 128,
    "smallest 32 bits": -(2**31),
    "largest 32 bits": 2**31 - 1,
    "33 bits": 2**31,
    "64 bits": 2**64 - 1,
    "negative 64 bits": -(2**63),
    "beyond 64 bits": -(10**30),
    "tenth": 0.1,
    "third": 1 / 3,
    "whole float": 5.0,
    "large float": 1e16,
    "tiny float": 1e-7,
    "negative zero": -0.0,
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "not a number": float("nan"),
    "empty list": [],
    "empty dict": {},
    "list of everything": [1, "two", b"\xfe", 4.5, None, True, [], {}, "\u20ac"],
    "tuple": (1, (2, "three")),
    "dict": {"a": 1, "b": {"c": ["d"]}},
    "text keys": {"\u20ac": 1, "plain": 2, "\xe9": 3},
    "bytes keys": {b"\xff": 1, "plain": 2},
    "int keys": {1: "one", -20: "minus twenty"},
    "empty key": {"": "nothing"},
    "order": {
        "id": 4711,
        "customer": {"name": "J\xf6rg", "mail": "joerg@example.org"},
        "items": [{"sku": "A-1", "count": 2, "price": 9.99}, {"sku": "B", "count": 1}],
        "paid": True,
        "note": None,
    },
    "scalar reference": [ScalarRef("text")],
    "reference to reference": ScalarRef(ScalarRef([1])),
    "reference to None": [ScalarRef(None)],
    "object of a hash": Blessed("My::Thing", {"x": 1}),
    "object of a list": Blessed("My::List", [1, 2]),
    "object of a scalar": Blessed("My::Scalar", ScalarRef("s")),
    "objects in objects": Blessed("A", {"b": Blessed("B", [Blessed("A", [])])}),
    "long class name": Blessed("Very::" * 50 + "Long", []),
    "shared": _shared(),
    "cycle": _cycle(),
    "list in itself": _loop(),
    "shared scalar": _shared_scalar(),
    "shared object": _shared_object(),
    "150 levels of lists": _deep(150),
    "many": {f"key {number}": [number, str(number)] for number in range(100)},
}
"""What Python writes, by name."""

FROM_PERL: dict[str, tuple[dict[str, Any], Any]] = {
    "undef": ({"t": "undef"}, None),
    "octets": ({"t": "octets", "b64": "cGxhaW4="}, "plain"),
    "octets beyond ASCII": ({"t": "octets", "b64": "6Q=="}, b"\xe9"),
    "octets of UTF-8": ({"t": "octets", "b64": "4oKs"}, b"\xe2\x82\xac"),
    "flagged ASCII": ({"t": "text", "v": "plain"}, "plain"),
    "flagged latin1": ({"t": "text", "v": "caf\xe9"}, "caf\xe9"),
    "flagged text": ({"t": "text", "v": "\u20ac\U0001f600"}, "\u20ac\U0001f600"),
    "int": ({"t": "int", "v": "12"}, 12),
    "negative int": ({"t": "int", "v": "-129"}, -129),
    "32 bit int": ({"t": "int", "v": "-2147483648"}, -(2**31)),
    "large int": ({"t": "int", "v": "2147483648"}, "2147483648"),
    "64 bit int": ({"t": "int", "v": "-9223372036854775808"}, "-9223372036854775808"),
    "float": ({"t": "num", "v": "0.1"}, "0.1"),
    "third": ({"t": "num", "v": "0.3333333333333333"}, "0.333333333333333"),
    "whole float": ({"t": "num", "v": "5"}, 5),
    "huge float": ({"t": "num", "v": "1e+300"}, "1e+300"),
    "infinity": ({"t": "num", "v": "inf"}, "Inf"),
    "nan": ({"t": "num", "v": "nan"}, "NaN"),
    "negative zero": ({"t": "num", "v": "-0"}, 0),
    "true": ({"t": "ref", "v": {"t": "bool", "v": True}}, ScalarRef(True)),
    "false": ({"t": "ref", "v": {"t": "bool", "v": False}}, ScalarRef(False)),
    "list": (
        {"t": "array", "v": [{"t": "int", "v": "1"}, {"t": "octets", "b64": "eA=="}]},
        [1, "x"],
    ),
    "hole in a list": (
        {"t": "array", "v": [{"t": "undef", "exists": False}, {"t": "int", "v": "1"}]},
        [None, 1],
    ),
    "hash": (
        {
            "t": "hash",
            "v": [
                [{"t": "octets", "b64": "YQ=="}, {"t": "array", "v": []}],
                [{"t": "text", "v": "\u20ac"}, {"t": "hash", "v": []}],
                [{"t": "text", "v": "\xe8"}, {"t": "undef"}],
                [{"t": "octets", "b64": "6Q=="}, {"t": "int", "v": "3"}],
            ],
        },
        {"a": [], "\u20ac": {}, "\xe8": None, b"\xe9": 3},
    ),
    "reference to reference": (
        {"t": "ref", "v": {"t": "ref", "v": {"t": "int", "v": "1"}}},
        ScalarRef(ScalarRef(1)),
    ),
    "object": (
        {"t": "blessed", "class": "My::X", "v": {"t": "hash", "v": []}},
        Blessed("My::X", {}),
    ),
    "scalar object": (
        {"t": "blessed", "class": "My::X", "v": {"t": "ref", "v": {"t": "int", "v": "7"}}},
        Blessed("My::X", ScalarRef(7)),
    ),
}
"""Perl data as a form, and the Python value that it reads as, by name."""
