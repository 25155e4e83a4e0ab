"""Side effects of a branch or the body of a loop while it is traced, which no graph repeats.

A branch is traced once, whether it is taken or not, and a body until its types are known: an
append or a name that is set would happen a different number of times than eagerly.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, final

from eagerflow.errors import TraceError

__all__ = ["OutsideState"]

_CONTAINERS: Final = (list, dict, set)
_LIMIT: Final = 1000  # items of a container that are compared
_EMPTY: Final = object()


class _Seen(NamedTuple):
    """Something that a function can reach, as it was.

    Attributes:
        kind: ``"cell"``, ``"global"`` or ``"content"`` (of a container, or the attributes of an
            object).
        name: its name in the function.
        thing: the cell, the dict of globals, the container or the dict of attributes.
        before: its value then.
    """

    kind: str
    name: str
    thing: Any
    before: Any


@final
class OutsideState:
    """The state that a function can reach by name: to be made before the function is traced.

    Args:
        function: the user's function; other callable objects are not followed.
    """

    def __init__(self, function: Any) -> None:
        self._seen: list[_Seen] = []
        self._known: set[int] = set()
        self._globals: Any = None
        while isinstance(function, functools.partial):
            function = function.func
        if isinstance(function, MethodType):
            self._enter("self", function.__self__)
            function = function.__func__
        self._globals = getattr(function, "__globals__", None)
        if type(function) is FunctionType:
            self._names(function)

    def _names(self, function: FunctionType) -> None:
        self._known.add(id(function))
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            value = _contents(cell)
            self._seen.append(_Seen("cell", name, cell, value))
            self._enter(name, value)
        known = function.__globals__
        for name in dict.fromkeys(_names_in(function.__code__)):
            if name in known:
                self._seen.append(_Seen("global", name, known, known[name]))
                self._enter(name, known[name])

    def _enter(self, name: str, value: Any, depth: int = 0) -> None:
        """Note a container, or an object with attributes and the containers among these."""
        if id(value) in self._known or depth > 1:
            return
        if type(value) is FunctionType:
            if value.__globals__ is self._globals:  # a helper beside it
                self._names(value)
            return
        self._known.add(id(value))
        if type(value) in _CONTAINERS:
            if len(value) <= _LIMIT:
                self._seen.append(_Seen("content", name, value, value.copy()))
        elif _is_users(value):
            attributes = vars(value)
            self._seen.append(_Seen("content", name, attributes, dict(attributes)))
            for key, item in list(attributes.items()):
                self._enter(f"{name}.{key}", item, depth + 1)

    def check(self, where: str) -> None:
        """Refuse changes since then, and undo them.

        Args:
            where: the line of the function.

        Raises:
            TraceError: something was changed.
        """
        changed = [seen for seen in self._seen if not _is_same(seen)]
        for seen in changed:
            _put_back(seen)
        if changed:
            raise TraceError(
                "a branch or a loop of a traced function changes something outside",
                given=f"{changed[0].name}, in {where}",
                hint="return what it makes: what iterations change is the carry (init), and state "
                "is kept in an ef.Variable",
            )


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _names_in(item)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return _EMPTY


def _is_users(value: Any) -> bool:
    """Whether it is an object of a class that the user wrote, with attributes."""
    if isinstance(value, (type, FunctionType, MethodType, ModuleType)):
        return False
    module = str(type(value).__module__)
    return not module.startswith("eagerflow") and type(getattr(value, "__dict__", None)) is dict


def _is_same(seen: _Seen) -> bool:
    kind, name, thing, before = seen
    if kind == "cell":
        return _contents(thing) is before
    if kind == "global":
        return thing.get(name, _EMPTY) is before
    if len(thing) != len(before):
        return False
    if type(thing) is set:
        return bool(thing == before)
    if type(thing) is list:
        return all(a is b for a, b in zip(thing, before, strict=True))
    return all(thing.get(key, _EMPTY) is value for key, value in before.items())


def _put_back(seen: _Seen) -> None:
    kind, name, thing, before = seen
    if kind == "cell":
        if before is not _EMPTY:
            thing.cell_contents = before
    elif kind == "global":
        thing[name] = before
    elif type(thing) is list:
        thing[:] = before
    else:
        thing.clear()
        thing.update(before)
