"""Small helpers for values of any depth."""

from __future__ import annotations

from typing import Any

from redis_jobqueue.storable import Blessed, Hook, ScalarRef, Tied, WeakRef


def overloaded_classes(value: Any) -> set[str]:
    """Return the classes in a value that overload: Perl must know them to read it."""
    found: set[str] = set()
    met: set[int] = set()
    todo = [value]
    while todo:
        part = todo.pop()
        if id(part) in met:
            continue
        met.add(id(part))
        if isinstance(part, (Blessed, Hook)) and part.overloaded:
            found.add(part.class_name)
        if isinstance(part, dict):
            todo.extend(part.values())
        elif isinstance(part, (list, tuple)):
            todo.extend(part)
        elif isinstance(part, (ScalarRef, Blessed, WeakRef)):
            todo.append(part.value)
        elif isinstance(part, Hook):
            todo += [part.refs, part.tied]
        elif isinstance(part, Tied):
            todo += [part.object, part.key]
    return found
