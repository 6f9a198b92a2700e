"""The machine that reads an image: the loop, bytes and lengths, numbers, hints.

Strategy: see `reader`, which knows the tags.  Here a tag is only something that
returns its value at once, or a generator that is sent the values inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

import attrs

from ..errors import StorableError
from . import opcodes as op
from .hints import Pending
from .limits import MAX_DEPTH
from .opcodes import BE32, Layout
from .types import Blessed, PerlHash, PerlList, ScalarRef
from .weak import drop_dead

Octets = Callable[[bytes], Any]
Steps = Generator[None, Any, Any]
Table = dict[int, Callable[[Any], Any]]

CELL = object()  # the entry of a scalar in `Reader.things`


@attrs.define
class Learned:
    """What one pass over an image leaves to the next.

    Attributes:
        cells: numbers of the scalars that something else refers to.
        special: numbers of the lists and hashes that must be a `PerlList` or
            a `PerlHash`.
        classes: number -> class name, in images of before 0.7, which say it last.
    """

    cells: set[int] = attrs.field(factory=set)
    special: set[int] = attrs.field(factory=set)
    classes: dict[int, str] = attrs.field(factory=dict)

    def size(self) -> int:
        """Return how much is known."""
        return len(self.cells) + len(self.special) + len(self.classes)


class Reading:
    """One pass over one image.

    Attributes:
        pos: the next byte.
        things: what each number stands for: a list, dict or object, or `CELL`.
        cell: the number of the node just read if it is a scalar, else None.
        node: how many nodes were met, as the hints count them.
        pending: the object that waits for the thing that is blessed.
        shared: number -> the `ScalarRef` of a scalar that is shared.
        slots: places in lists and dicts that hold a shared scalar.
    """

    def __init__(
        self,
        data: bytes,
        start: int,
        layout: Layout,
        octets: Octets,
        old: bool,
        hints: Pending,
        learned: Learned,
    ) -> None:
        self.data = data
        self.pos = start
        self.layout = layout
        self.octets = octets
        self.old = old
        self.hints = hints
        self.learned = learned
        self.tag = -1
        self.things: list[Any] = []
        self.cell: int | None = None
        self.node = 0
        self.pending: Blessed | None = None
        self.class_names: list[str] = []
        self.shared = {number: ScalarRef(None) for number in learned.cells}
        self.slots: list[tuple[Any, Any, ScalarRef]] = []
        self.open_tuples: set[int] = set()
        self.weak = False

    # -- the loop --

    def read(self, table: Table) -> Any:
        """Read one node and all that is in it."""
        stack: list[tuple[Steps, int, int]] = []  # steps, levels, number
        depth = 0
        while True:
            tag = self.tag = self.byte()
            number = len(self.things)
            if tag not in table:
                raise self.broken(f"unknown tag {tag}")
            value = table[tag](self)
            if isinstance(value, GeneratorType):
                levels = 0 if self.next_byte() in _ONE_LEVEL.get(tag, ()) else 1
                depth += levels
                if depth > MAX_DEPTH:
                    raise self.broken(f"it is deeper than {MAX_DEPTH} levels")
                stack.append((value, levels, number))
                value = None  # starts it
            else:
                if self.cell == number:
                    value = self.hints.scalar(self.node - 1, value, tag)
                self.completed(value, number)
                if not stack:
                    return value
            while True:
                steps, levels, number = stack[-1]
                try:
                    steps.send(value)
                    break
                except StopIteration as stop:
                    value = stop.value
                depth -= levels
                stack.pop()
                self.completed(value, number)
                if not stack:
                    return value

    def completed(self, value: Any, number: int) -> None:
        """Note a value that is complete."""
        if self.old and number < len(self.things):  # not for a number alone
            self.read_marks(number)
        if self.cell in self.shared:
            self.shared[self.cell].value = value

    def finish(self, value: Any) -> Any:
        """Fill in what was not known when its place was read."""
        for holder, place, scalar in self.slots:
            holder[place] = scalar.value
        return drop_dead(value) if self.weak else value

    def next_byte(self) -> int:
        return self.data[self.pos] if self.pos < len(self.data) else -1

    # -- bytes and lengths --

    def broken(self, what: str) -> StorableError:
        return StorableError(f"Broken Storable image: {what} (before byte {self.pos})")

    def byte(self) -> int:
        if self.pos >= len(self.data):
            raise self.broken("it ends early")
        self.pos += 1
        return self.data[self.pos - 1]

    def take(self, size: int) -> bytes:
        end = self.pos + size
        if end > len(self.data):
            raise self.broken("it ends early")
        raw = self.data[self.pos : end]
        self.pos = end
        return raw

    def length(self) -> int:
        size: int = self.layout.length.unpack(self.take(4))[0]
        return size

    def count(self, least: int, number: int | None = None) -> int:
        """Read how many follow, at least so many bytes each."""
        number = self.length() if number is None else number
        if number * least > len(self.data) - self.pos:
            raise self.broken(f"it is too short for {number} items")
        return number

    def be32(self) -> int:
        number: int = BE32.unpack(self.take(4))[0]
        return number

    def class_length(self) -> int:
        size = self.byte()
        return self.length() if size & 0x80 else size

    # -- numbering --

    def scalar(self) -> int:
        """Number a scalar."""
        number = self.cell = len(self.things)
        self.things.append(self.claim(CELL))
        self.node += 1
        return number

    def referent(self, thing: Any) -> Any:
        """Number a list, hash or object; return what a reference to it is."""
        thing = self.claim(thing)
        self.things.append(thing)
        return thing

    def claim(self, thing: Any) -> Any:
        holder = self.pending
        if holder is None:
            name = self.learned.classes.get(len(self.things))
            if name is None:
                return thing
            holder = Blessed(name, None)
        self.pending = None
        holder.value = thing
        return holder

    def refer(self, value: Any) -> Any:
        """Return a reference to the node just read."""
        if self.cell is None:
            return value
        thing = self.things[self.cell]
        if isinstance(thing, Blessed):
            thing.value = ScalarRef(value)
            return thing
        return self.shared.get(self.cell) or ScalarRef(value)

    def special(self, number: int, holder: Any) -> bool:
        """Tell whether a list or hash can hold what it must; if not, the next pass knows."""
        if isinstance(holder, (PerlList, PerlHash)):
            return True
        self.learned.special.add(number)
        return False

    def settle(self, number: int, holder: Any, place: Any) -> None:
        """Note a place whose value is a shared scalar."""
        if self.cell in self.shared and self.special(number, holder):
            scalar = self.shared[self.cell]
            holder.cells[place] = scalar
            self.slots.append((holder, place, scalar))

    # -- images of before 0.7 --

    def read_marks(self, number: int) -> None:
        """Read what follows each node there: the class if it is blessed, and an end mark."""
        while True:
            mark = self.byte()
            if mark == op.OLD_STORED:
                return
            if mark == op.OLD_CLASS:
                size = self.byte()
            elif mark == op.OLD_LONG_CLASS:
                size = self.length()
            else:
                raise self.broken(f"unknown mark {mark}")
            self.learned.classes[number] = self.take(size).decode("latin-1")


_THINGS = frozenset(
    (
        op.OBJECT,
        op.ARRAY,
        op.HASH,
        op.TIED_ARRAY,
        op.TIED_HASH,
        op.HOOK,
        op.FLAG_HASH,
        op.CODE,
        op.REGEXP,
        op.LOBJECT,
    )
)
_CLASSES = frozenset((op.BLESS, op.IX_BLESS))

# A reference, a class and the thing behind them are one level: what of it adds none
# if what follows it is one of these.
_ONE_LEVEL: dict[int, frozenset[int]] = {
    tag: _THINGS | _CLASSES for tag in (op.REF, op.OVERLOAD, op.WEAKREF, op.WEAKOVERLOAD)
} | {tag: _THINGS for tag in _CLASSES}
