"""Calls of modules while a trace listens: each opens a name scope, and a summary takes notes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from eagerflow.core.interpreter import is_traced
from eagerflow.graph.scopes import name_scope
from eagerflow.nn.paths import near

__all__ = ["call", "noting"]

#: what the modules are called that the running module holds, by id
_names: Final[ContextVar[dict[int, str] | None]] = ContextVar("names", default=None)
_notes: Final[ContextVar[list[tuple[Any, Any]] | None]] = ContextVar("notes", default=None)


def call(module: Any, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``module.forward(*args, **kwargs)``, in a trace within a scope of the module's name.

    That is its path in the module that calls it, or its class.
    """
    if not is_traced():
        return module.forward(*args, **kwargs)
    name = (_names.get() or {}).get(id(module)) or type(module).__name__
    names = {id(m): path for path, m in near(module, kind) if isinstance(m, kind)}
    token = _names.set(names)
    try:
        with name_scope(name):
            result = module.forward(*args, **kwargs)
    finally:
        _names.reset(token)
    notes = _notes.get()
    if notes is not None:
        notes.append((module, result))
    return result


@contextmanager
def noting() -> Iterator[list[tuple[Any, Any]]]:
    """The modules that are called in the block, in a trace, with their results."""
    notes: list[tuple[Any, Any]] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)
