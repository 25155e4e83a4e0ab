"""Mutable containers among the arguments: changes in a trace are repeated on those of each call.

A traced function runs once, on copies of the containers that hold symbolic tensors. Items that it
adds or removes are noted as changes of the container at the same path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from types import SimpleNamespace
from typing import Any, NamedTuple, final

from eagerflow.capture.access_paths import AccessPath, Location, Root, contents, refill
from eagerflow.capture.inputs_and_stores import Output
from eagerflow.capture.snapshot import Held
from eagerflow.core import tree
from eagerflow.dims.number_stand_ins import asked
from eagerflow.errors import TraceError
from eagerflow.tracing.numpy_arrays import TracedArray


def is_container(value: Any) -> bool:
    """Whether ``value`` is a mutable container, or an object with fields."""
    if isinstance(value, (list, dict, set, deque)):
        return True
    return _has_fields(value)


def _has_fields(value: Any) -> bool:
    kind = type(value)
    return kind is SimpleNamespace or (
        hasattr(kind, "__dataclass_fields__") and not isinstance(value, type)
    )


def parts_of(value: Any) -> list[tuple[Any, Any]]:
    """The parts of a container or a tuple, by key, number or name; none of a set."""
    if isinstance(value, dict):
        return list(contents(value).items())
    if isinstance(value, (list, tuple, deque)):
        return list(enumerate(contents(value)))
    if _has_fields(value):
        return list(tree.attributes(value).items())
    return []


def classes_in(values: Iterable[Any]) -> Iterator[type]:
    """The classes of containers among arguments, nested ones too, also those of libraries."""
    for value in values:
        parts = parts_of(value)
        if parts:
            yield type(value)
            yield from classes_in(part for _, part in parts)


def ask_in_keys(value: Any, *, within: bool = True) -> None:
    """Replace symbolic numbers among dict keys and set items by numbers, which become static.

    Args:
        value: the dict or set, or a container of some.
        within: whether to look into nested containers as well.
    """
    if isinstance(value, dict):
        held = contents(value)
        keys = [asked(key, "its use as a key") for key in held]
        if not all(map(is_, keys, held)):
            refill(value, dict(zip(keys, held.values(), strict=True)))
    elif isinstance(value, set):
        items = [asked(item, "its place in a set") for item in contents(value)]
        if not all(map(is_, items, contents(value))):
            refill(value, items)
    for _, part in parts_of(value) if within else ():
        ask_in_keys(part)


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
    kind = "item" if isinstance(made, (dict, list, deque)) else "attribute"
    for key, item in parts_of(value):
        location = Location(kind, made, key, "")
        location.set(merged(item, location.get(), known))
    return made


class Apart(NamedTuple):
    """The check that no container among the arguments of a call is also used from outside.

    In a trace these are two objects, so that a change of one does not show in the other.

    Attributes:
        pairs: paths in the arguments, and access paths that may lead to none of these objects.
        name: of the function.
    """

    pairs: tuple[tuple[tuple[AccessPath, ...], tuple[AccessPath | Root, ...]], ...]
    name: str

    def check(self, arguments: Sequence[Any]) -> None:
        """Check the arguments of a call.

        Raises:
            TraceError: a container is used from outside as well.
        """
        for paths, outside in self.pairs:
            here = {id(path.get(arguments)) for path in paths}
            for outer in outside:
                value = outer.get()
                if id(value) in here:
                    raise TraceError(
                        f"{self.name} changes or compares a {type(value).__name__} that is an "
                        "argument and is also used from outside",
                        given=f"{outer.text} as an argument",
                        expected="a container that is used in one of the two ways",
                        hint="pass a copy, or do not use the same object by its name outside",
                    )


@final
class ArgumentContainers:
    """The containers among the arguments of a trace, as they are before the function runs.

    Args:
        names: of the parameters.
        arguments: by parameter.
        static: by parameter, whether the argument is static as a whole.
    """

    def __init__(
        self, names: Sequence[str], arguments: Sequence[Any], static: Sequence[bool]
    ) -> None:
        self._held: list[Held] = []
        self._paths: dict[int, AccessPath] = {}
        root = Root(None)
        for i, (name, argument) in enumerate(zip(names, arguments, strict=True)):
            if not static[i]:
                self._visit(AccessPath(root, "item", i, name), argument)

    @property
    def paths(self) -> tuple[AccessPath, ...]:
        """The paths of all containers, from the arguments by parameter."""
        return tuple(self._paths.values())

    @property
    def values(self) -> list[Any]:
        """All containers, but for sets."""
        return [held.owner for held in self._held]

    @property
    def outputs(self) -> dict[int, Output]:
        """The origin of each container as a result, by its id."""
        return {key: Output("argument", path) for key, path in self._paths.items()}

    def _visit(self, path: AccessPath, value: Any) -> None:
        if type(value) is TracedArray:
            self._paths[id(value)] = path
            return
        if not isinstance(value, tuple):
            if not is_container(value) or isinstance(value, set) or id(value) in self._paths:
                return
            self._paths[id(value)] = path
            held = Held.of_container(value, path.text, path)
            if held is None or hasattr(value, "__dict__"):
                self._hold(Held("attributes", value, path.text, path))
            if held is not None:
                self._hold(held)
            return
        for key, item in enumerate(contents(value)):
            self._visit(AccessPath(path, "item", key, f"{path.text}[{key!r}]"), item)

    def _hold(self, held: Held) -> None:
        items = enumerate(held.before) if held.kind == "deque" else held.entries()
        if held.kind == "attributes" and held.owner is held.now():
            return  # the attributes are the items
        self._held.append(held)
        for key, item in list(items):
            self._visit(held.part(key), item)

    def changes(self) -> Iterator[tuple[str, AccessPath, Any]]:
        """The changes of the containers: kind, target and value of a store."""
        for held in self._held:
            for kind, key, _, new in held.edits():
                whole = kind in ("append", "fill")
                path = held.path if whole else held.part(key)
                yield kind, path, None if kind == "delete" else new
