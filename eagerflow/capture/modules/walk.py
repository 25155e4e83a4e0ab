"""The walk over the parts and variables of an object: its attributes and the containers in them.

The walk reads attributes by names made at run time. A trace that analysed this code would have to
guard every attribute of every object; so this is library code for traces, which rely on the
attributes that the user's code reads, and on what `note_walk` notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eagerflow.ops.state.variables import Variable


def _items(value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """The attributes or items in which parts and variables are looked for."""
    if isinstance(value, kind):
        yield from vars(value).items()
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, (list, tuple)):
        yield from ((str(i), item) for i, item in enumerate(value))
    elif hasattr(type(value), "__dataclass_fields__"):
        yield from ((name, getattr(value, name, None)) for name in value.__dataclass_fields__)


def _apart(path: str, taken: set[str]) -> str:
    """``path``, with a number if it is taken, as by an attribute ``"a.b"`` and a dict ``"a"``."""
    name, count = path, 1
    while name in taken:
        count += 1
        name = f"{path}~{count}"
    taken.add(name)
    return name


def walk(root: object, kind: type) -> Iterator[tuple[str, Any, Any]]:
    """Path, value and owner of each part and each variable below ``root``, itself included.

    Parts are objects of one class, such as `eagerflow.nn.Module`. They are found in the attributes
    of other parts, also in lists, tuples, dicts and dataclasses there. Each part is yielded once,
    under its first path; a variable as often as it is found. No path is yielded twice: a number
    tells apart equal paths, as of keys 1 and "1". The owner is the part that holds the value, and
    None for ``root``.

    Args:
        root: a part.
        kind: the class of parts.

    >>> from eagerflow.extending import walk
    >>> class Block:
    ...     pass
    >>> outer, inner = Block(), Block()
    >>> outer.blocks, inner.weight = [inner], ef.Variable(1.0)
    >>> [path for path, value, owner in walk(outer, Block)]
    ['', 'blocks.0', 'blocks.0.weight']
    """
    seen: set[int] = set()
    taken: set[str] = set()
    pending: list[tuple[str, Any, Any]] = [("", root, None)]
    while pending:
        path, value, owner = pending.pop()
        if isinstance(value, Variable):
            yield _apart(path, taken), value, owner
            continue
        if id(value) in seen:
            continue
        items = list(_items(value, kind))
        if isinstance(value, kind):
            path = _apart(path, taken)
            yield path, value, owner
            owner = value
        if items:
            seen.add(id(value))
            start = f"{path}." if path else ""
            pending += [(start + name, item, owner) for name, item in reversed(items)]


def children(part: object, kind: type) -> Iterator[tuple[str, Any]]:
    """Path and value of the parts and variables that a part holds directly or in containers.

    Args:
        part: an object of the class.
        kind: the class of parts; see `walk`.

    >>> from eagerflow.extending import children
    >>> model = ef.nn.Sequential(ef.nn.Linear(2, 3), ef.nn.Linear(3, 1))
    >>> [path for path, value in children(model, ef.nn.Module)]
    ['layers.0', 'layers.1']
    """
    seen: set[int] = set()
    taken: set[str] = set()
    pending = list(reversed(list(_items(part, kind))))
    while pending:
        path, value = pending.pop()
        if isinstance(value, (Variable, kind)):
            yield _apart(path, taken), value
        elif id(value) not in seen:
            items = list(_items(value, kind))
            if items:
                seen.add(id(value))
                pending += [(f"{path}.{name}", item) for name, item in reversed(items)]
