"""The house: which module may use which, and what the parts without I/O never touch.

The table is that of the design: data flows one way down and one way back.  A
new module belongs into it before it can be used.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

PACKAGE = Path(__file__).parents[2] / "redis_jobqueue"

ROOMS: list[tuple[str, ...]] = [
    # From the ground up: a room may use what stands above it in this list, and its own row.
    ("_version", "errors"),
    ("storable",),
    ("keys", "checks"),
    ("metadata",),
    ("job",),
    ("record", "lua"),
    ("operations",),
    # Below here is the world: network, clocks, threads.
    ("guardian",),
    ("embedded",),
    ("address",),
    ("options",),
    ("settings",),
    ("sorting",),
    ("connection",),
    ("handle", "arguments", "identity"),
    ("waiting", "heart", "tending"),
    ("lifecycle", "watching"),
    ("claiming",),
    ("owner",),
    ("management",),
    ("queue",),
    ("handlers", "middleware"),
    ("child",),
    ("children",),
    ("running",),
    ("worker",),
    ("aio",),
    ("metrics",),
    ("testing", "demo", "cli"),
    ("__main__",),
]

ONLY = {
    # Rooms that use less than what stands above them.
    "storable": ("errors",),
    "keys": ("errors",),
    "checks": ("errors", "storable"),
    "lua": (),
    "guardian": (),
    "embedded": ("errors", "guardian"),
    "heart": ("errors",),
    "tending": ("errors",),
}

WITHOUT_IO = ("_version", "errors", "storable", "keys", "checks", "metadata", "job", "record",
              "lua", "operations")  # fmt: skip

IO = {"_thread", "asyncio", "concurrent", "fcntl", "ftplib", "glob", "http", "io", "logging",
      "mmap", "multiprocessing", "os", "pathlib", "random", "redis", "secrets", "select",
      "selectors", "shutil", "signal", "smtplib", "socket", "socketserver", "ssl", "subprocess",
      "sys", "tempfile", "threading", "time", "urllib", "uuid"}  # fmt: skip

ALLOWED_IO = {"job": {"time"}}
"""A job stamps its own times."""

OTHERS = {
    "redis": ("address", "options", "sorting", "connection", "waiting", "handle", "aio"),
    "pytest": ("testing",),
    "click": ("cli",),
    "rich": ("cli",),
}
"""Packages besides the standard library and attrs, and the rooms that may use them."""


@attrs.frozen
class Import:
    """One imported name: where it stands, and its dotted path."""

    module: str
    room: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.name}"


def modules() -> dict[str, Path]:
    """Return every module of the package by its path."""
    return {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """Return the row's name for a file: the folder below the package, else the file itself."""
    head, slash, _ = module.partition("/")
    return head if slash else head.removesuffix(".py")


def imports_of(module: str, path: Path) -> Iterator[Import]:
    """Give all imports of a file, also those inside of functions."""
    parents = ["redis_jobqueue", *Path(module).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [base if base != "redis_jobqueue" else f"{base}.{alias.name}"
                     for alias in node.names]  # fmt: skip
        for name in names:
            yield Import(module, room_of(module), getattr(node, "lineno", 0), name)


IMPORTS = [each for module, path in modules().items() for each in imports_of(module, path)]
INNER = [each for each in IMPORTS if room_of(each.module) != "__init__"]


def used_room(name: str) -> str | None:
    """Return the row that an imported name belongs to; ``package`` for the package's front."""
    words = name.split(".")
    if words[0] != "redis_jobqueue":
        return None
    second = words[1] if len(words) > 1 else ""
    known = {room for row in ROOMS for room in row}
    is_module = (PACKAGE / second).is_dir() or (PACKAGE / f"{second}.py").is_file()
    return second if second and (second in known or is_module) else "package"


def row_of(room: str) -> int:
    """Return how far up a room stands; one without a place stands above all."""
    return next((number for number, row in enumerate(ROOMS) if room in row), len(ROOMS))


def test_every_module_has_its_place() -> None:
    """A module that the table does not name is refused: put it where it belongs."""
    known = {room for row in ROOMS for room in row} | {"__init__"}
    assert [] == sorted({room_of(module) for module in modules()} - known)


def test_rooms_use_what_stands_below() -> None:
    """Each module imports only what its row of the table allows."""
    wrong = []
    for each in INNER:
        used = used_room(each.name)
        if used is None or used == each.room:
            continue
        if used == "package":  # the front door is for what stands on top
            allowed = row_of(each.room) >= row_of("demo")
        elif each.room in ONLY:
            allowed = used in ONLY[each.room]
        else:
            allowed = row_of(used) <= row_of(each.room)
        if not allowed:
            wrong.append(str(each))
    assert [] == wrong


def test_front_door_hides_nothing() -> None:
    """``redis_jobqueue/__init__.py`` only passes names on."""
    wrong = [str(each) for each in IMPORTS if each.module == "__init__.py"
             and used_room(each.name) is None and each.name != "__future__"]  # fmt: skip
    assert [] == wrong


def test_inner_rooms_do_no_io() -> None:
    """Operations and all below never see the network, a clock, a thread or luck."""
    wrong = [
        str(each)
        for each in INNER
        if each.room in WITHOUT_IO
        and each.name.split(".")[0] in IO - ALLOWED_IO.get(each.room, set())
    ]
    assert [] == wrong


def test_few_packages_are_used() -> None:
    """Besides the standard library only attrs everywhere, and each other package in its rooms."""
    wrong = []
    for each in INNER:
        top = each.name.split(".")[0]
        if top in ("redis_jobqueue", "attrs") or top in sys.stdlib_module_names:
            continue
        if each.room not in OTHERS.get(top, ()):
            wrong.append(str(each))
    assert [] == wrong


@pytest.mark.parametrize("name", ["pickle", "marshal", "shelve", "dill", "cloudpickle", "ctypes"])
def test_nothing_dangerous_is_imported(name: str) -> None:
    """Data from Redis can never become code."""
    assert [] == [str(each) for each in IMPORTS if each.name.split(".")[0] == name]


def test_guardian_stands_alone() -> None:
    """It runs with ``python -I -S``: the standard library is all it has."""
    names = {each.name.split(".")[0] for each in IMPORTS if each.module == "guardian.py"}
    assert names <= sys.stdlib_module_names
