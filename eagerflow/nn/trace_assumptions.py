"""Assumptions of traces that ask modules for all that they hold, and how modules are made.

Library code for traces, so that nothing it reads is a guard.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from eagerflow import extending

_T = TypeVar("_T")
#: flags of modules in messages: what is so now, by name and value
_FLAGS: Final = {
    ("frozen", True): "is frozen now",
    ("frozen", False): "is not frozen any more",
    ("training", True): "is in training mode now",
    ("training", False): "is in evaluation mode now",
}


def made(cls: type[_T], **attributes: Any) -> _T:
    """A new object with these attributes, also where its class refuses to set any."""
    value = object.__new__(cls)
    vars(value).update(attributes)
    return value


def note_walk(module: Any, kind: type, *flags: str) -> None:
    """Note, in the trace that is being made, if any, that the contents of a module were asked for.

    Args:
        module: where the walk begins.
        kind: the class of modules.
        flags: attributes of the modules that are looked at as well.
    """
    extending.note_walk(module, kind, flags, words=_FLAGS)


def note_modules(module: Any, kind: type) -> None:
    """Note, as `note_walk` does, that the caller gets the modules and may look at them."""
    flags = (name for name, _ in _FLAGS)
    extending.note_walk(module, kind, flags, words=_FLAGS, gives_parts=True)
