"""Containers among the arguments: what a function does to them is done to those of each call.

A traced function runs once, with containers of its own that hold symbolic tensors. What it puts
into them, or takes out, is noted as a change of the container at the same path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

from eagerflow.capture.paths import GONE, AccessPath, Root
from eagerflow.errors import TraceError

__all__ = ["Apart", "ArgumentChange", "Containers", "Own", "at", "is_container", "merged"]

#: from a parameter to a container: its number, then items and, with a leading dot, attributes
_Path = tuple[Any, ...]


def at(path: _Path, arguments: Sequence[Any]) -> Any:
    """The value at the end of a path in the arguments of a call, which are given by parameter."""
    number, *steps = path
    value = arguments[number]
    for name, key in steps:
        value = getattr(value, name) if name else value[key]
    return value


def is_container(value: Any) -> bool:
    """Whether ``value`` is an object that holds others and can be changed."""
    if isinstance(value, (list, dict, set, deque)):
        return True
    return hasattr(type(value), "__dataclass_fields__") and not isinstance(value, type)


def merged(value: Any, made: Any, known: dict[int, Any]) -> Any:
    """``made``, a copy of ``value``, with one copy of each container that occurs more than once.

    Args:
        value: the original.
        made: the copy.
        known: the copies by the ids of the originals.
    """
    if made is value:
        return made
    if isinstance(value, tuple):
        parts = [merged(a, b, known) for a, b in zip(value, made, strict=True)]
        if all(a is b for a, b in zip(parts, made, strict=True)):
            return made
        kind: Any = type(made)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if not is_container(value):
        return made
    if id(value) in known:
        return known[id(value)]
    known[id(value)] = made
    if isinstance(value, dict):
        for key, item in value.items():
            made[key] = merged(item, made[key], known)
    elif isinstance(value, (list, deque)):
        for i, item in enumerate(value):
            made[i] = merged(item, made[i], known)
    else:
        for name, item in getattr(value, "__dict__", {}).items():
            object.__setattr__(made, name, merged(item, getattr(made, name), known))
    return made


@final
class Own:
    """Stands for a container that is an argument, in what a function returns or stores.

    Args:
        path: of the container.
    """

    __slots__ = ("path",)  # no tuple: trees are to take it for a leaf

    def __init__(self, path: _Path) -> None:
        self.path = path


class Apart(NamedTuple):
    """The check that no container among the arguments of a call is also used from outside.

    In a trace these are two objects, so that a change of one is not seen in the other. It is
    asked as changes are, before anything is done.

    Attributes:
        pairs: paths in the arguments, and access paths that may lead to none of these objects.
        name: of the function.
    """

    pairs: tuple[tuple[tuple[_Path, ...], tuple[AccessPath | Root, ...]], ...]
    name: str

    def owner(self, arguments: Sequence[Any]) -> None:
        """Look at the arguments of a call.

        Raises:
            TraceError: one is used from outside as well.
        """
        for paths, outside in self.pairs:
            here = {id(at(path, arguments)) for path in paths}
            for outer in outside:
                value = outer.get()
                if id(value) in here:
                    raise TraceError(
                        f"{self.name} changes a {type(value).__name__} that is an argument and is "
                        "also used from outside",
                        given=f"{outer.text} as an argument",
                        expected="a container that is used in one of the two ways",
                        hint="pass a copy, or do not use the same object by its name outside",
                    )

    def apply(self, owner: None, value: Any) -> None:
        """Nothing is to be done."""


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
        return at(self.path, arguments)

    def text(self, names: Sequence[str]) -> str:
        """The name of the container in messages, given the names of the parameters."""
        number, *steps = self.path
        return names[number] + "".join([f".{n}" if n else f"[{k!r}]" for n, k in steps])

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
        self._paths: dict[int, _Path] = {}
        for i, argument in enumerate(arguments):
            self._visit((i,), argument)

    @property
    def paths(self) -> tuple[_Path, ...]:
        """The paths of all of them."""
        return tuple(self._paths.values())

    @property
    def values(self) -> list[Any]:
        """All of them, but for sets."""
        return [owner for _, owner, _ in self._found]

    def marked(self, value: Any) -> Any:
        """``value`` with `Own` in the place of each of them."""
        path = self._paths.get(id(value))
        if path is not None:
            return Own(path)
        kind = type(value)
        if kind is dict:
            return {key: self.marked(item) for key, item in value.items()}
        if kind is list or kind is tuple:
            return kind(map(self.marked, value))
        return value

    def _visit(self, path: _Path, value: Any) -> None:
        kind = type(value)
        if is_container(value) and not isinstance(value, set):
            if id(value) in self._paths:
                return
            self._paths[id(value)] = path
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
