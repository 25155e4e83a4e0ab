"""Containers among the arguments: what a function does to them is done to those of each call.

A traced function runs once, with containers of its own that hold symbolic tensors. What it puts
into them, or takes out, is noted as a change of the container at the same path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

from eagerflow.function.places import GONE

__all__ = ["ArgumentChange", "Containers"]

#: from a parameter to a container: its number, then items and, with a leading dot, attributes
_Path = tuple[Any, ...]


class ArgumentChange(NamedTuple):
    """Something that was done to a container.

    Attributes:
        path: of the container.
        how: ``"set"`` and ``"delete"`` for an item or attribute, ``"extend"``, or ``"fill"`` for
            all of its items.
        key: the item or attribute.
    """

    path: _Path
    how: str
    key: Any = None

    def owner(self, arguments: Sequence[Any]) -> Any:
        """The container of a call, whose arguments by parameter are given."""
        number, *steps = self.path
        found = arguments[number]
        for name, key in steps:
            found = getattr(found, name) if name else found[key]
        return found

    def apply(self, owner: Any, value: Any) -> None:
        """Do it to a container."""
        if self.how == "extend":
            owner.extend(value)
        elif self.how == "fill":
            if isinstance(owner, list):
                owner[:] = value
            else:
                owner.clear()
                (owner.update if isinstance(owner, dict) else owner.extend)(value)
        elif isinstance(owner, (dict, list, deque)):
            if self.how == "set":
                owner[self.key] = value
            else:
                del owner[self.key]
        elif self.how == "set":
            object.__setattr__(owner, self.key, value)
        else:
            object.__delattr__(owner, self.key)


@final
class Containers:
    """The containers among the arguments of a trace, as they are before the function runs.

    Args:
        arguments: by parameter.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._found: list[tuple[_Path, Any, Any]] = []
        for i, argument in enumerate(arguments):
            self._visit((i,), argument)

    def _visit(self, path: _Path, value: Any) -> None:
        kind = type(value)
        if isinstance(value, dict):
            self._found.append((path, value, dict(value)))
            items: Any = [("", key) for key in value]
        elif isinstance(value, (list, tuple, deque)):
            if not isinstance(value, tuple):
                self._found.append((path, value, list(value)))
            items = [("", i) for i in range(len(value))]
        elif hasattr(kind, "__dataclass_fields__") and hasattr(value, "__dict__"):
            self._found.append((path, value, dict(vars(value))))
            items = [(name, None) for name in vars(value)]
        else:
            return
        for name, key in items:
            self._visit((*path, (name, key)), getattr(value, name) if name else value[key])

    def changes(self) -> Iterator[tuple[ArgumentChange, Any]]:
        """What was done to them, with the new value."""
        for path, owner, before in self._found:
            if isinstance(before, list):
                yield from _sequence_changes(path, before, owner)
                continue
            now = owner if isinstance(owner, dict) else vars(owner)
            kept = [key for key in before if key in now]
            if isinstance(owner, dict) and list(now)[: len(kept)] != kept:
                yield ArgumentChange(path, "fill"), dict(owner)
                continue
            for key in before.keys() - now.keys():
                yield ArgumentChange(path, "delete", key), None
            for key, value in now.items():
                if before.get(key, GONE) is not value:
                    yield ArgumentChange(path, "set", key), value


def _sequence_changes(
    path: _Path, before: list[Any], owner: Any
) -> Iterator[tuple[ArgumentChange, Any]]:
    now = list(owner)
    same = [a is b for a, b in zip(before, now, strict=False)]
    if len(now) == len(before):
        for i, unchanged in enumerate(same):
            if not unchanged:
                yield ArgumentChange(path, "set", i), now[i]
    elif len(now) > len(before) and all(same):
        yield ArgumentChange(path, "extend"), now[len(before) :]
    else:
        yield ArgumentChange(path, "fill"), now
