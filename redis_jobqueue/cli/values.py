"""Perl's values as JSON, both ways, and as text for a human.

What JSON has no form for is an object with one key that starts with ``$``:
``{"$bytes": base64}``, ``{"$ref": value}``, ``{"$blessed": [class, value]}``,
``{"$float": "nan"}``, ``{"$hash": [[key, value], ...]}`` (where a key is no
text), ``{"$other": text}`` (what can be shown only), ``{"$again": path}``.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

from redis_jobqueue.errors import ArgumentError
from redis_jobqueue.storable import Blessed, PerlText, ScalarRef

DEPTH = 200
"""Levels that are shown; deeper ones are cut off, because no JSON reader takes them."""


def to_json(value: Any, path: str = "$", above: dict[int, str] | None = None) -> Any:
    """Give a thawed value as JSON knows it."""
    above = {} if above is None else above
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**4000 else {"$other": "a very large integer"}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, bytes):
        kind = "$text" if isinstance(value, PerlText) else "$bytes"
        return {kind: base64.b64encode(value).decode()}
    if id(value) in above:
        return {"$again": above[id(value)]}
    if len(above) >= DEPTH:
        return {"$other": "deeper than can be shown"}
    inside = {**above, id(value): path}
    if isinstance(value, (list, tuple)):
        return [to_json(each, f"{path}[{n}]", inside) for n, each in enumerate(value)]
    if isinstance(value, dict):
        return _hash(value, path, inside)
    if isinstance(value, ScalarRef):
        return {"$ref": to_json(value.value, f"{path}.$ref", inside)}
    if isinstance(value, Blessed):
        return {"$blessed": [value.class_name, to_json(value.value, f"{path}.$blessed", inside)]}
    return {"$other": repr(value)}


def _hash(value: dict[Any, Any], path: str, above: dict[int, str]) -> Any:
    rows = [(key, to_json(each, f"{path}.{key}", above)) for key, each in value.items()]
    clear = all(isinstance(key, str) for key, _ in rows)
    if clear and not (len(rows) == 1 and str(rows[0][0]).startswith("$")):
        return dict(rows)
    return {"$hash": [[to_json(key), each] for key, each in rows]}


def from_json(value: Any, path: str = "$") -> Any:
    """Give the value that a JSON document stands for.

    Raises:
        ArgumentError: a form that starts with ``$`` is unknown or malformed.
    """
    if isinstance(value, list):
        return [from_json(each, f"{path}[{n}]") for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and next(iter(value)).startswith("$"):
        ((form, inner),) = value.items()
        return _form(form, inner, path)
    return {key: from_json(each, f"{path}.{key}") for key, each in value.items()}


def _form(form: str, inner: Any, path: str) -> Any:
    try:
        if form == "$bytes":
            return base64.b64decode(inner, validate=True)
        if form == "$float" and inner in ("nan", "inf", "-inf"):
            return float(inner)
        if form == "$ref":
            return ScalarRef(from_json(inner, f"{path}.$ref"))
        if form == "$blessed":
            name, data = inner
            return Blessed(str(name), from_json(data, f"{path}.$blessed"))
        if form == "$hash":
            return {from_json(key): from_json(each, f"{path}.{key}") for key, each in inner}
    except (TypeError, ValueError, binascii.Error):
        pass
    raise ArgumentError(
        f"{path}: {form} is no form that can be read; there are $bytes, $float, $ref, $blessed "
        "and $hash (a hash with one key that starts with $ is written as $hash)"
    )


def text_of(value: Any, *, most: int | None = None) -> str:
    """Give a value as a human reads it, a line for each element of what is large.

    Args:
        value: thawed data.
        most: characters at most; the rest is said to be missing.
    """
    whole = "\n".join(_lines(to_json(value), 0))
    if most is not None and len(whole) > most:
        return f"{whole[:most]}\n... {len(whole) - most} more characters (--full shows them)"
    return whole


def _lines(value: Any, level: int) -> list[str]:
    pad = "  " * level
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$"):
        ((form, inner),) = value.items()
        return _form_lines(form, inner, level)
    short = _short(value)
    if short is not None and len(short) + len(pad) <= 76:
        return [pad + short]
    if isinstance(value, dict):
        out = [pad + "{"]
        for key, each in value.items():
            first, *rest = _lines(each, level + 1)
            out += [f"{pad}  {_quoted(key)}: {first.strip()}", *rest]
        return [*out, pad + "}"]
    if isinstance(value, list):
        return [pad + "[", *(line for each in value for line in _lines(each, level + 1)), pad + "]"]
    return [pad + (short or "")]


def _form_lines(form: str, inner: Any, level: int) -> list[str]:
    pad = "  " * level
    if form in ("$bytes", "$text"):
        return [pad + repr(base64.b64decode(inner))]
    if form in ("$float", "$other"):
        return [pad + str(inner)]
    if form == "$again":
        return [f"{pad}the same as {inner}"]
    if form == "$blessed":
        name, data = inner
        first, *rest = _lines(data, level)
        return [f"{pad}{name} object {first.strip()}", *rest]
    if form == "$ref":
        first, *rest = _lines(inner, level)
        return [f"{pad}reference to {first.strip()}", *rest]
    out = [pad + "{"]
    for key, each in inner:
        first, *rest = _lines(each, level + 1)
        out += [f"{pad}  {_lines(key, 0)[0]}: {first.strip()}", *rest]
    return [*out, pad + "}"]


def _quoted(text: str) -> str:
    return repr(text)


def _short(value: Any) -> str | None:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (dict, list)):
        inside = value.values() if isinstance(value, dict) else value
        if any(isinstance(each, (dict, list)) and each for each in inside) or len(value) > 12:
            return None
        if isinstance(value, list):
            return f"[{', '.join(_short(each) or '' for each in value)}]"
        return f"{{{', '.join(f'{_quoted(k)}: {_short(v)}' for k, v in value.items())}}}"
    return str(value)
