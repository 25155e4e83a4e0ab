"""Reliances of traces on the contents of modules, and the construction of modules.

To traces this is library code, so that its reads are not guarded.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from eagerflow import extending

_T = TypeVar("_T")
#: descriptions of flags of modules in messages, by name and new value
_FLAGS: Final = {
    ("frozen", True): "is frozen now",
    ("frozen", False): "is not frozen any more",
    ("training", True): "is in training mode now",
    ("training", False): "is in evaluation mode now",
}


def made(cls: type[_T], **attributes: Any) -> _T:
    """A new object with these attributes, even if its class refuses assignments."""
    value = object.__new__(cls)
    vars(value).update(attributes)
    return value


def note_walk(module: Any, kind: type, *flags: str) -> None:
    """Note, in the trace under way, if any, that the contents of a module were read.

    Args:
        module: the module at the root of the walk.
        kind: the class `Module`.
        flags: attributes of the modules that are read as well.
    """
    extending.note_walk(module, kind, flags, words=_FLAGS)


def note_modules(module: Any, kind: type) -> None:
    """Note, as `note_walk` does, that the caller gets the modules and may read them."""
    flags = (name for name, _ in _FLAGS)
    extending.note_walk(module, kind, flags, words=_FLAGS, gives_parts=True)
