"""What a module holds, by path: a walk over attributes and the containers in them.

It reads attributes by names made at run time. A trace that looked into this code would have to
guard every attribute of every object; so this module counts as library code for traces, and what
they rely on are the attributes that `forward` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from eagerflow.ops.state import Variable

__all__ = ["held", "made", "near"]

_T = TypeVar("_T")


def made(cls: type[_T], **attributes: Any) -> _T:
    """A new object with these attributes, also where its class lets nobody set any."""
    value = object.__new__(cls)
    vars(value).update(attributes)
    return value


def _children(value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """The attributes or items in which modules and variables are looked for."""
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
    """``path``, or with a number if something else has it, such as ``"a.b"`` and a dict ``"a"``."""
    name, count = path, 1
    while name in taken:
        count += 1
        name = f"{path}~{count}"
    taken.add(name)
    return name


def held(root: Any, kind: type) -> Iterator[tuple[str, Any, Any]]:
    """Path, value and owner of each module and each variable below ``root``, itself included.

    Modules come once, under their first path; variables as often as they are found. No path comes
    twice: a number tells apart those that would be one, as of keys 1 and "1". The owner is the
    module that holds the value, and of ``root`` None.

    Args:
        root: a module.
        kind: the class of modules.
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
        children = list(_children(value, kind))
        if isinstance(value, kind):
            path = _apart(path, taken)
            yield path, value, owner
            owner = value
        if children:
            seen.add(id(value))
            start = f"{path}." if path else ""
            pending += [(start + name, child, owner) for name, child in reversed(children)]


def near(module: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """Path and value of the modules and variables that a module holds itself, or in containers."""
    seen: set[int] = set()
    taken: set[str] = set()
    pending = list(reversed(list(_children(module, kind))))
    while pending:
        path, value = pending.pop()
        if isinstance(value, (Variable, kind)):
            yield _apart(path, taken), value
        elif id(value) not in seen:
            children = list(_children(value, kind))
            if children:
                seen.add(id(value))
                pending += [(f"{path}.{name}", child) for name, child in reversed(children)]
