"""Calls of modules in a trace: each opens a name scope, and is recorded for a summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import eagerflow as ef
from eagerflow.extending import call_in_scope, children, walk

#: names of the modules that the running module holds, by id
_names: Final[ContextVar[dict[int, str] | None]] = ContextVar("names", default=None)
_notes: Final[ContextVar[list[tuple[Any, Any]] | None]] = ContextVar("notes", default=None)


def call(module: Any, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``module.forward(*args, **kwargs)`` within a scope of the module's name.

    The name is the module's path in the calling module, or its class. Variables are named by
    their paths in the outermost module.
    """
    above = _names.get()
    scope = (above or {}).get(id(module)) or type(module).__name__
    names = {id(m): path for path, m in children(module, kind) if isinstance(m, kind)}
    paths = _paths(module, kind) if above is None else None
    token = _names.set(names)
    try:
        result = call_in_scope(module.forward, args, kwargs, scope=scope, names=paths)
    finally:
        _names.reset(token)
    notes = _notes.get()
    if notes is not None:
        notes.append((module, result))
    return result


def _paths(root: Any, kind: type) -> Iterator[tuple[str, ef.Variable]]:
    """The paths and variables of a module, to be used as names.

    A name that is no end of the path stays: the user chose it.
    """
    for path, value, _ in walk(root, kind):
        if isinstance(value, ef.Variable) and (not value.name or _ends(path, value.name)):
            yield path, value


def _ends(path: str, name: str) -> bool:
    return f".{path}".endswith(f".{name}")


@contextmanager
def noting() -> Iterator[list[tuple[Any, Any]]]:
    """Record the modules that are called in the block, in a trace, with their results."""
    notes: list[tuple[Any, Any]] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)
