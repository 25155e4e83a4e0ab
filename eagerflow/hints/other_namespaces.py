"""Hints for names that are right but for their namespace: ``ef.dropout``, ``ef.nn.Adam``."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Final

import eagerflow as ef
from eagerflow.hints.call_forms import form_of

__all__ = ["hint_at_home"]

#: namespaces by their paths in the package, in the order in which they are searched
_PATHS: Final = (
    "linalg", "nn.functional", "nn", "random", "optim", "data", "distributions", "fft", "nn.init",
    "nn.metrics", "hardware",
)  # fmt: skip


def hint_at_home(owner: str, name: str) -> str | None:
    """The hint for a name of another namespace of eagerflow; None if there is none.

    >>> from eagerflow.hints.other_namespaces import hint_at_home
    >>> hint_at_home("eagerflow", "slogdet")
    'ef.linalg.slogdet(x, /)'

    Args:
        owner: the module that lacks the name.
        name: the name.
    """
    if owner.partition(".")[0] != "eagerflow" or name.startswith("_"):
        return None
    for path in ("", *_PATHS):
        home: object = ef
        for part in filter(None, path.split(".")):
            home = getattr(home, part)
        if name in dir(home) and owner != f"eagerflow.{path}".rstrip("."):
            return _shown(f"ef.{path}.{name}".replace("..", "."), getattr(home, name))
    return None


def _shown(path: str, value: object) -> str | None:
    """The text of a call of a function or a class, or the path of a module."""
    if isinstance(value, ModuleType):
        return path
    return form_of(value, path) if inspect.isfunction(value) or inspect.isclass(value) else None
