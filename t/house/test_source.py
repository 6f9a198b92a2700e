"""The source itself: small files, documented and annotated names, nothing forbidden."""

from __future__ import annotations

import ast
import fnmatch
import hashlib
import importlib.util
import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import redis_jobqueue
from redis_jobqueue import storable

TOP = Path(__file__).parents[2]
PACKAGE = TOP / "redis_jobqueue"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [
    path
    for folder in (PACKAGE, TOP / "t")
    for path in sorted(folder.rglob("*"))
    if path.suffix in (".py", ".lua", ".pl", ".pm")
]
LONGEST = 450
LONGEST_TEST = 500  # a test file is read test by test
"""Lines of a file; about 400 is the rule, and nobody counts to the last line."""

CARD = {"setup.cfg", "setup.py", "redis_jobqueue", "t", "README.rst", "LICENSE", ".ci",
        ".gitignore"}  # fmt: skip


def name_of(path: Path) -> str:
    """Return a path for messages."""
    return path.relative_to(TOP).as_posix()


def test_top_level_is_the_card() -> None:
    """A newcomer finds these eight things at the top and nothing else."""
    ignored = [line.rstrip("/") for line in (TOP / ".gitignore").read_text().split()]
    found = {
        path.name
        for path in TOP.iterdir()
        if path.name != ".git" and not any(fnmatch.fnmatch(path.name, each) for each in ignored)
    }
    assert CARD == found


def test_files_are_small() -> None:
    """In a file of more than some 400 lines one gets lost."""
    lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    most = {name: LONGEST_TEST if name.startswith("t/") else LONGEST for name in lines}
    assert {} == {name: count for name, count in lines.items() if count > most[name]}


def test_no_keys_command() -> None:
    """KEYS holds the server for as long as it has keys: nobody sends it."""
    wrong = [
        name_of(path)
        for path in sorted(PACKAGE.rglob("*.lua"))
        if re.search(r"call\(\s*['\"]keys['\"]", path.read_text("utf-8"), re.IGNORECASE)
    ]
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and node.value in ("KEYS", b"KEYS", b"keys"):
                wrong.append(f"{name_of(path)}:{node.lineno}")
            if isinstance(node, ast.Attribute) and node.attr == "keys":
                owner = ast.unparse(node.value)
                if "redis" in owner or "client" in owner:
                    wrong.append(f"{name_of(path)}:{node.lineno}")
    assert [] == wrong


def test_no_lua_in_python() -> None:
    """Scripts are files; a script in a string is found by nobody."""
    wrong = [name_of(path) for path in MODULES if "redis.call" in path.read_text("utf-8")]
    assert [] == wrong


def test_nothing_is_evaluated() -> None:
    """No text is ever run as code."""
    wrong = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in ("eval", "exec", "compile", "__import__"):
                    wrong.append(f"{name_of(path)}:{node.lineno}")
    assert [] == wrong


def test_no_paths_of_one_machine() -> None:
    """What works here only does not belong into a file that others get."""
    private = re.compile("|".join(["/wo" "rk/", "/ro" "ot/", "/ho" "me/", "/Us" "ers/",
                                   "/tmp/ve" "nv", r"\.py" "env"]))  # fmt: skip
    others = [TOP / name for name in ("setup.cfg", "setup.py", "README.rst", ".gitignore")]
    others += sorted((TOP / ".ci").iterdir())
    wrong = [
        f"{name_of(path)}: {found[0]}"
        for path in [*SOURCES, *others]
        if (found := private.search(path.read_text("utf-8")))
    ]
    assert [] == wrong


Function = ast.FunctionDef | ast.AsyncFunctionDef

FRONTS = ("redis_jobqueue", "redis_jobqueue.storable", "redis_jobqueue.embedded",
          "redis_jobqueue.testing", "redis_jobqueue.aio")  # fmt: skip
"""The modules that users import from."""


def offered() -> set[str]:
    """Return the names of all classes that users can get, with those they are made from."""
    names = set()
    for front in FRONTS:
        if importlib.util.find_spec(front):
            for value in vars(importlib.import_module(front)).values():
                if isinstance(value, type):
                    names |= {each.__name__ for each in value.__mro__}
    return names


def missing_docs(path: Path, classes: set[str]) -> Iterator[str]:
    """Give what has no docstring: the module, its public functions and classes, their methods.

    Methods count for the classes that users get; inside, a class is explained once.
    """
    tree = ast.parse(path.read_text("utf-8"))
    if not ast.get_docstring(tree):
        yield "the module"
    for node in tree.body:
        if not isinstance(node, (Function, ast.ClassDef)) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node) and "overload" not in ast.unparse(node).split("def")[0]:
            yield node.name
        if node.name in classes and isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function) and not inner.name.startswith("_"):
                    again = any(".setter" in ast.unparse(each) for each in inner.decorator_list)
                    if not again and not ast.get_docstring(inner):
                        yield f"{node.name}.{inner.name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_names_are_documented(path: Path) -> None:
    """Whatever others may use says what it is."""
    assert [] == list(missing_docs(path, offered()))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_everything_is_annotated(path: Path) -> None:
    """Every argument and every result has a type, private functions included."""
    missing = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, Function):
            named = node.args
            every = [*named.posonlyargs, *named.args, *named.kwonlyargs]
            every += [each for each in (named.vararg, named.kwarg) if each]
            bare = [each.arg for each in every
                    if each.annotation is None and each.arg not in ("self", "cls")]  # fmt: skip
            if bare or (node.returns is None and node.name != "__init__"):
                missing.append(f"{node.name}({', '.join(bare)})")
    assert [] == missing


def rank(name: str) -> tuple[int, str]:
    """Return the place of a name: constants, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("module", [redis_jobqueue, storable], ids=lambda module: module.__name__)
def test_public_names_are_listed_in_order(module: Any) -> None:
    """``__all__`` is sorted, names what is there, and misses nothing that is public."""
    names = module.__all__
    assert sorted(names, key=rank) == list(names)
    assert [] == [name for name in names if not hasattr(module, name)]
    own = {
        name
        for name, value in vars(module).items()
        if name.isidentifier() and not name.startswith("_")
        and not isinstance(value, types.ModuleType) and name != "annotations"
    }  # fmt: skip
    assert set() == own - set(names)


DATA = {
    # The recordings from the real module: rows, and the start of the file's SHA-256.
    "hashes.json": (74, "27dbc38722670683"),
    "malformed.json": (275, "a0b0657562c9f2ae"),
    "outcomes.json": (1347, "bc32a2d5de409473"),
    "payloads.json": (3, "4f30dd3bc4926091"),
    "storable.json": (298, "06ea4a52cc0f3d37"),
}


@pytest.mark.parametrize("name", DATA)
def test_recordings_are_complete(name: str) -> None:
    """The recordings are those that were made, to the last byte."""
    content = (TOP / "t" / "data" / name).read_bytes()
    assert DATA[name] == (len(json.loads(content)), hashlib.sha256(content).hexdigest()[:16])
