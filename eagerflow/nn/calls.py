"""Calls of modules while a trace listens: each opens a name scope, and a summary takes notes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from eagerflow import name_scope  # what is public loads all that is asked for below
from eagerflow.autograph.calls import call as converted
from eagerflow.core.interpreter import is_traced
from eagerflow.graph.scopes import resource_names
from eagerflow.nn.paths import held, near
from eagerflow.ops.state import Variable

__all__ = ["call", "noting"]

#: what the modules are called that the running module holds, by id
_names: Final[ContextVar[dict[int, str] | None]] = ContextVar("names", default=None)
_notes: Final[ContextVar[list[tuple[Any, Any]] | None]] = ContextVar("notes", default=None)


def call(module: Any, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``module.forward(*args, **kwargs)``, in a trace within a scope of the module's name.

    That is its path in the module that calls it, or its class. Variables are called by their
    paths in the outermost module.
    """
    if not is_traced():
        return module.forward(*args, **kwargs)
    above = _names.get()
    name = (above or {}).get(id(module)) or type(module).__name__
    names = {id(m): path for path, m in near(module, kind) if isinstance(m, kind)}
    with ExitStack() as stack:
        if above is None:
            token = resource_names.set(_paths(module, kind))
            stack.callback(resource_names.reset, token)
        stack.callback(_names.reset, _names.set(names))
        stack.enter_context(name_scope(name))
        result = converted(module.forward)(*args, **kwargs)
    notes = _notes.get()
    if notes is not None:
        notes.append((module, result))
    return result


def _paths(root: Any, kind: type) -> dict[int, str]:
    """The first path of each variable, by the id of its resource.

    Names stay that are no end of the path: the user chose them.
    """
    found: dict[int, str] = {}
    for path, value, _ in held(root, kind):
        if isinstance(value, Variable) and (not value.name or _ends(path, value.name)):
            found.setdefault(id(value.resource), path)
    return found


def _ends(path: str, name: str) -> bool:
    return f".{path}".endswith(f".{name}")


@contextmanager
def noting() -> Iterator[list[tuple[Any, Any]]]:
    """The modules that are called in the block, in a trace, with their results."""
    notes: list[tuple[Any, Any]] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)
