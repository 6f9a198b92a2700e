"""The machine that writes an image: the loop, lengths and strings, the path of an error.

Strategy: see `writer`, which knows the types.  Here a value is only something
that is written at once, or a generator that gives the values inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, NoReturn

from ..errors import E_MISMATCH_ARG, StorableError
from . import hints as hint
from . import opcodes as op
from .hashkeys import BadKey, Key, hash_keys
from .limits import MAX_LENGTH
from .opcodes import Layout

Place = tuple[str, Any]  # how a path goes on, and with what
Inner = tuple[Place, Callable[[Any], Any], Any]  # place, what writes it, value
Steps = Generator[Inner, None, None]

ITEM = "[%r]"
ATTRIBUTE = ".%s"
VALUE = (ATTRIBUTE, "value")


class Writing:
    """One image in the making.

    Attributes:
        out: the parts of the image.
        node: how many nodes are written, as the hints count them.
        hints: what Python knows more, by node.
        numbers: id of a list, dict, reference or object -> its number.
        depth: the level of what is being written.
        places: the path to it.
    """

    def __init__(self, layout: Layout, name: str | bytes) -> None:
        self.layout = layout
        self.name = name
        self.out: list[bytes] = [op.NETWORK_HEADER if layout.network else op.NATIVE_HEADER]
        self.next_number = 0
        self.node = 0
        self.hints: hint.Hints = {}
        self.numbers: dict[int, int] = {}
        self.classes: dict[bytes, int] = {}
        self.depth = 0
        self.places: list[Place | None] = []
        self.open_tuples: dict[int, int] = {}  # id -> node

    # -- the loop --

    def write(self, write: Callable[[Any], Any], value: Any) -> bytes:
        """Return the image of what ``write`` writes for a value, without a trailer.

        Raises:
            StorableError: the value cannot be frozen; the message names the path.
        """
        stack: list[tuple[Steps, int]] = []
        places = self.places
        while True:
            level = self.depth
            steps = write(value)
            if isinstance(steps, GeneratorType):
                stack.append((steps, level))
                places.append(None)
            else:
                self.depth = level
            while stack:
                try:
                    places[-1], write, value = next(stack[-1][0])
                    break
                except StopIteration:
                    self.depth = stack.pop()[1]
                    places.pop()
            else:
                return b"".join(self.out)

    def refuse(self, what: str) -> NoReturn:
        root = self.name if isinstance(self.name, str) else ascii(self.name)
        path = root + "".join(place[0] % (place[1],) for place in self.places if place)
        if len(path) > 200:
            path = f"{path[:100]}...{path[-97:]}"
        raise StorableError(f"Cannot freeze {path}: {what}", code=E_MISMATCH_ARG)

    def put(self, tag: int, rest: bytes = b"") -> None:
        self.out.append(bytes((tag,)) + rest)

    # -- lengths and strings --

    def length(self, size: int) -> bytes:
        if size > MAX_LENGTH:
            self.refuse(f"{size} bytes or items are more than {MAX_LENGTH}")
        return self.layout.length.pack(size)

    def counted(self, short: int, long: int, raw: bytes) -> None:
        """Write octets: the short tag up to 255, the long one above."""
        if len(raw) < 256:
            self.put(short, bytes((len(raw),)) + raw)
        else:
            self.put(long, self.length(len(raw)) + raw)

    def class_length(self, size: int) -> bytes:
        return bytes((size,)) if size < 128 else b"\x80" + self.length(size)

    def encode(self, value: str) -> bytes:
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(value[error.start])
            self.refuse(f"a str with the lone surrogate U+{code:04X} is no text")

    def raw(self, value: Any) -> bytes:
        """Return a ``str`` or ``bytes`` as octets."""
        if isinstance(value, str):
            return self.encode(value)
        if isinstance(value, bytes):
            return value
        self.refuse(f"a str or bytes must stand here, not the type {type(value).__name__}")

    def class_name(self, value: Any) -> bytes:
        if isinstance(value, str) and value:
            try:
                return value.encode("latin-1")
            except UnicodeEncodeError:
                pass
        self.refuse("the class name must be a str, not empty, of one character per byte")

    # -- hash keys --

    def keys(self, keys: list[Any]) -> list[Key]:
        try:
            return hash_keys(keys)
        except BadKey as error:
            self.refuse(str(error))

    def key(self, written: Key, more: int, flagged: bool) -> None:
        flags, raw, known = written
        if known:
            self.hints[self.node] = known
        self.node += 1
        head = bytes((flags | more,)) if flagged else b""
        self.out.append(head + self.length(len(raw)) + raw)
