"""State outside dicts, lists and sets: attributes in slots and of classes, and memory."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final, final

__all__ = ["Attributes", "HeldMemory", "memory_of", "slots_of"]

#: bytes from which on memory is not compared
_MOST_BYTES: Final = 1 << 20
#: classes by their modules and names: a program with an instance has loaded them
_ARRAYS: Final = frozenset({("builtins", "bytearray"), ("array", "array"), ("numpy", "ndarray")})
_NONE: Final = object()


@final
class Attributes:
    """The attributes of a class, or those of an object that are in slots, like a dict.

    Args:
        owner: the class or the object.
        names: those of the slots; None for a class.

    Attributes:
        owner: see above.
    """

    def __init__(self, owner: Any, names: Iterable[str] | None = None) -> None:
        self.owner = owner
        self._names = names

    def copy(self) -> dict[str, Any]:
        """Those that are set."""
        if self._names is None:
            return dict(vars(self.owner))
        values = {name: getattr(self.owner, name, _NONE) for name in self._names}
        return {name: value for name, value in values.items() if value is not _NONE}

    def keys(self) -> Iterable[str]:
        return self.copy().keys()

    def get(self, name: str, default: Any) -> Any:
        if self._names is None:
            return vars(self.owner).get(name, default)
        return getattr(self.owner, name, default)

    def __getitem__(self, name: str) -> Any:
        return self.get(name, None)

    def __setitem__(self, name: str, value: Any) -> None:
        (type if self._names is None else object).__setattr__(self.owner, name, value)

    def pop(self, name: str, default: Any) -> None:
        """Delete one, if it is set."""
        if self.get(name, _NONE) is not _NONE:
            (type if self._names is None else object).__delattr__(self.owner, name)


def slots_of(cls: type) -> list[str]:
    """The names of the attributes that instances of a class have in slots."""
    slots = []
    for base in cls.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            private = name.startswith("__") and not name.endswith("__")
            slots.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return [name for name in slots if name not in ("__dict__", "__weakref__")]


@final
class HeldMemory:
    """The contents of an array that Python writes to, and a copy of them.

    Args:
        owner: the array.
        held: a copy of it.

    Attributes:
        owner: see above.
    """

    def __init__(self, owner: Any, held: Any) -> None:
        self.owner = owner
        self._held = held

    @property
    def changed(self) -> bool:
        """Whether the contents have changed."""
        return memoryview(self.owner).tobytes() != memoryview(self._held).tobytes()

    def restore(self) -> None:
        """Restore the contents."""
        self.owner[... if getattr(self.owner, "shape", None) == () else slice(None)] = self._held


def memory_of(x: Any) -> HeldMemory | None:
    """The memory of a `bytearray`, an `array`, an array of NumPy; None of a large one."""
    kind = type(x)
    if (kind.__module__, kind.__name__) not in _ARRAYS:
        return None
    try:
        with memoryview(x) as view:
            if view.readonly or view.nbytes > _MOST_BYTES:
                return None
    except (TypeError, ValueError, BufferError):  # of a dtype that no buffer has
        return None
    return HeldMemory(x, copy.copy(x))
