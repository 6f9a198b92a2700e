"""How things look: tables, ages, names, JSON."""

from __future__ import annotations

import base64
import json
import math
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text as Words

from redis_jobqueue.checks import Text


class _Console(Console):
    """A console that leaves a closed pipe to `Program`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, err: bool = False) -> Console:
    """Give a console on standard output; colours by rich's rules (``NO_COLOR``, terminals)."""
    return _Console(
        file=sys.stderr if err else sys.stdout, highlight=False, markup=False, emoji=False
    )


def say(text: str) -> None:
    """Print a line for a human, on standard error: standard output is for results."""
    click.echo(text, err=True)


def shown(name: Text | None) -> str:
    """Give a name in one line: control characters escaped, so that no terminal obeys them."""
    if name is None:
        return "-"
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    return "".join(
        c if not unicodedata.category(c).startswith("C") else repr(c)[1:-1] for c in text
    )


def age(seconds: float | None) -> str:
    """Give a length of time in five characters or so."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    for unit, size in (("s", 60), ("m", 60), ("h", 24)):
        if seconds < size * 2:
            return f"{seconds:.0f}{unit}"
        seconds /= size
    return f"{seconds:.0f}d"


def moment(seconds: float) -> str:
    """Give a moment as local time; ``-`` for 0."""
    if not seconds:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):  # no clock shows it
        return f"{seconds:g}"


def size(octets: int) -> str:
    """Give a number of octets."""
    number = float(octets)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def table(*columns: str, title: str | None = None) -> Table:
    """Make an empty table: a column is its heading, with ``>`` before it for numbers.

    ``!`` before it means that it is never cut off.
    """
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=title,
                 title_justify="left", title_style="bold", show_edge=False)  # fmt: skip
    for column in columns:
        kept = column.startswith("!")
        right = column.lstrip("!").startswith(">")
        heading = column.lstrip("!>")
        made.add_column(
            heading, justify="right" if right else "left", no_wrap=True,
            overflow="ignore" if kept else "ellipsis", min_width=36 if kept else None,
        )  # fmt: skip
    return made


def add_row(to: Table, *cells: object, style: str | None = None) -> None:
    """Add a row; nothing in a cell is taken for markup."""
    to.add_row(*(cell if isinstance(cell, Words) else Words(str(cell)) for cell in cells),
               style=style)  # fmt: skip


def progress(shown: bool = True) -> Progress:
    """Make a bar on standard error; nothing is shown where that is no terminal."""
    screen = console(err=True)
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        console=screen, transient=True, disable=not (shown and screen.is_terminal),
    )  # fmt: skip


def print_json(value: Any) -> None:
    """Print a value as JSON; what JSON has no form for is written as `plain` says."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Give a value of ours as JSON knows it: attrs classes as objects, octets as text.

    Octets that are no UTF-8 become ``{"$bytes": base64}``.  A float without
    digits (nan, inf) becomes None.
    """
    if attrs.has(type(value)):
        return {
            field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))
            if field.repr
        }  # fmt: skip
    if isinstance(value, dict):
        return {key_text(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def key_text(key: Any) -> str:
    """Give the key of a dict as text; octets that are no UTF-8 are escaped."""
    return key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key)


def some(count: int, thing: str) -> str:
    """Give a number with its noun."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def lines(values: Iterable[str]) -> None:
    """Print one value a line."""
    for value in values:
        click.echo(value)


def pairs(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line; a value may have several lines."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        first, *rest = value.splitlines() or [""]
        click.echo(f"{name:<{width}}  {first}".rstrip())
        for line in rest:
            click.echo(f"{'':<{width}}  {line}".rstrip())
