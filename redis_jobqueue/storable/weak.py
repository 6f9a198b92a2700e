"""What Perl lets go when it thaws: targets that only weak references lead to.

Strategy: walk once over all that is held strongly, starting from the root, and
put None (Perl's undef) in the place of every weak reference whose target the
walk did not meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .types import Blessed, Hook, PerlHash, PerlList, ScalarRef, Tied, WeakRef

Slot = tuple[Any, Any]  # what holds the value, and where: an index, a key, an attribute


def drop_dead(root: Any) -> Any:
    """Return the root without its dead weak references; lists and dicts change in place."""
    if isinstance(root, WeakRef):
        return None
    met: set[int] = set()
    weak: list[tuple[Slot, WeakRef]] = []
    todo = [root]
    while todo:
        holder = todo.pop()
        if id(holder) in met:
            continue
        met.add(id(holder))
        for place, value in _slots(holder):
            if isinstance(value, WeakRef):
                weak.append(((holder, place), value))
            elif isinstance(value, _HOLDERS):
                todo.append(value)
    for (holder, place), reference in weak:
        if id(reference.value) not in met:
            if isinstance(holder, (list, dict)):
                holder[place] = None
            else:
                setattr(holder, place, None)
    return root


_HOLDERS = (list, dict, ScalarRef, Blessed, Hook, Tied)


def _slots(holder: Any) -> Iterator[Slot]:
    """Give each value that a value holds, with its place."""
    if isinstance(holder, list):
        yield from enumerate(holder)
    elif isinstance(holder, dict):
        yield from holder.items()
    elif isinstance(holder, Hook):
        yield "refs", holder.refs
        yield "tied", holder.tied
    elif isinstance(holder, Tied):
        yield "object", holder.object
        yield "key", holder.key
    elif isinstance(holder, (ScalarRef, Blessed)):
        yield "value", holder.value
    if isinstance(holder, (PerlList, PerlHash)):
        # The scalar of a slot lives as long as the slot.
        yield from ((None, cell) for cell in holder.cells.values())
