"""What Perl must see when Python has written a value: the value table of the README.

`perl_form` puts a Python value into the tagged form that the Perl driver
answers with, as it is after Perl's own ``nfreeze`` and ``thaw``: a float has
become text, a bool an integer, a tuple a list.  It knows nothing of our codec,
so the two can be held against each other.  `given_form` is for what is handed
to Perl: a float is a number there.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Mapping

import attrs

from redis_jobqueue.storable import Blessed, ScalarRef

Form = dict[str, Any]
"""A tagged form: `t` is the kind, the rest depends on it (see Tagged.pm)."""


@attrs.frozen
class Given:
    """A tagged form to be handed to Perl as it is."""

    form: Form


_INT32 = range(-(2**31), 2**31)


def octets(data: bytes) -> Form:
    """The form of a string without the UTF-8 flag."""
    return {"t": "octets", "b64": b64encode(data).decode()}


def text(string: str) -> Form:
    """The form of a string with the UTF-8 flag."""
    return {"t": "text", "v": string}


def number_text(number: float) -> str:
    """Perl's text of a number: 15 significant digits, no needless zeros."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Inf" if number > 0 else "-Inf"
    return f"{number:.15g}"


def string_of(form: Form) -> str | bytes:
    """The string in an octets or text form; ASCII octets as `str`."""
    if form["t"] == "text":
        return str(form["v"])
    data = b64decode(form["b64"])
    return data.decode() if data.isascii() else data


def perl_form(value: object) -> Form:
    """The tagged form of a Python value as Perl thaws it."""
    return _Writer(value, frozen=True).form(value)


def given_form(value: object) -> Form:
    """The tagged form of a Python value to be built in Perl, numbers as numbers."""
    return _Writer(value, frozen=False).form(value)


class _Writer:
    """Number what is reached more than once in the order of Perl's driver."""

    def __init__(self, value: object, frozen: bool) -> None:
        self._frozen = frozen
        self._met: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._meet(value)

    def _meet(self, value: object) -> None:
        if not isinstance(value, (list, tuple, dict, ScalarRef, Blessed)):
            return
        self._met[id(value)] = self._met.get(id(value), 0) + 1
        if self._met[id(value)] > 1:
            return
        if isinstance(value, dict):
            for inner in value.values():
                self._meet(inner)
        elif isinstance(value, (list, tuple)):
            for inner in value:
                self._meet(inner)
        else:
            self._meet(value.value)

    def form(self, value: object) -> Form:
        if isinstance(value, Given):
            return value.form
        if isinstance(value, ScalarRef):
            return {"t": "ref", "v": self._shared(value, "cell")}
        if isinstance(value, (list, tuple, dict, Blessed)):
            return self._shared(value, "referent")
        if not self._frozen and isinstance(value, float):
            return {"t": "num", "v": repr(value)}
        if not self._frozen and isinstance(value, int) and value in range(-(2**63), 2**63):
            return {"t": "int", "v": str(int(value))}
        return _plain(value)

    def _shared(self, value: Any, of: str) -> Form:
        if self._met[id(value)] < 2 or value == ():  # Python has only one empty tuple
            return self._inside(value)
        if id(value) in self._ids:
            return {"t": "backref", "id": self._ids[id(value)]}
        number = self._ids[id(value)] = len(self._ids) + 1
        return {"t": "shared", "id": number, "of": of, "v": self._inside(value)}

    def _inside(self, value: Any) -> Form:
        if isinstance(value, ScalarRef):
            return self.form(value.value)
        if isinstance(value, Blessed):
            return {"t": "blessed", "class": value.class_name, "v": self.form(value.value)}
        if isinstance(value, dict):
            return self._hash(value)
        return {"t": "array", "v": [self.form(inner) for inner in value]}

    def _hash(self, value: Mapping[object, object]) -> Form:
        def order(key: object) -> str:
            return key.decode("latin-1") if isinstance(key, bytes) else str(key)

        pairs = [[_plain_key(key), self.form(value[key])] for key in sorted(value, key=order)]
        return {"t": "hash", "v": pairs}


def _plain_key(key: object) -> Form:
    form = _plain(key)
    return octets(str(key).encode()) if form["t"] == "int" else form


def _plain(value: object) -> Form:
    if value is None:
        return {"t": "undef"}
    if isinstance(value, str):
        return octets(value.encode()) if value.isascii() else text(value)
    if isinstance(value, bytes):
        return octets(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 2**53:
            return _plain(int(value))
        return octets(number_text(value).encode())
    if isinstance(value, int):
        number = int(value)
        if number in _INT32:
            return {"t": "int", "v": str(number)}
        return octets(str(number).encode())
    raise TypeError(f"no Perl form for {value!r}")
