"""`Probe`: looks fast whether the parts of an object hold the very objects that they held.

It is straight Python code, written for what there is, as the guards of a trace are: it reads all
attributes and items into two flat lists, one of names and one of objects, and compares the names
and the `id` of each object. An object that died may have given its `id` to another, so what can be
held weakly tells of its death.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, final
from weakref import ref

from eagerflow.ops.state.variables import Variable
from eagerflow.types import DType

#: types of plain values, which are kept as they are
ATOMS: Final = frozenset({int, float, complex, bool, str, bytes, type(None), range, slice,
                           DType})  # fmt: skip
#: the ``id`` of no object
_NONE: Final = -1


@final
class Probe:
    """What an object and its parts hold at one moment, of which nothing is kept alive.

    Args:
        root: where `eagerflow.capture.modules.walk` begins.
        kind: the class of parts.
        flags: the attributes of parts that count, whatever they are.
    """

    __slots__ = ("_dead", "_ids", "_kept", "_kind", "_loose", "_names", "_plain", "_read")

    def __init__(self, root: Any, kind: type, flags: frozenset[str]) -> None:
        survey = _Survey(root, kind, flags)
        self._kind = kind
        self._plain = survey.plain
        self._names = survey.names
        self._ids = [*map(id, survey.values)]
        #: positions of what is not walked into, where other such objects may come
        self._loose = survey.loose
        self._dead: list[Any] = []  # weak references to what is no more
        self._kept = [self._keep(i, value) for i, value in enumerate(survey.values)]
        self._read = survey.reader()

    def _keep(self, position: int, value: Any) -> Any:
        """What makes sure that no other object gets the ``id`` unseen."""
        if type(value) in ATOMS:
            return value
        try:
            return ref(value, self._dead.append)
        except TypeError:
            if position in self._loose:
                self._ids[position] = _NONE
            return None  # of what is walked into, the code compares the class and the items

    def holds(self) -> bool:
        """Whether all is as it was; False also where that takes a closer look."""
        contents = self._read()
        if contents is None or not self._plain or (self._dead and not self._bury()):
            return False
        names, values = contents
        if names != self._names:
            return False
        ids = [*map(id, values)]
        return ids == self._ids or self._differs_loosely(ids, values)

    def _bury(self) -> bool:
        """Forget the ids of what is dead; False if it mattered."""
        for dead in list(self._dead):
            position = next((i for i, one in enumerate(self._kept) if one is dead), None)
            if position is not None and position not in self._loose:
                return False
            if position is not None:
                self._ids[position] = _NONE
            with suppress(ValueError):  # another thread was first
                self._dead.remove(dead)
        return True

    def _differs_loosely(self, ids: list[int], values: list[Any]) -> bool:
        """Whether there are only others than before of what is not walked into, such as a count.

        Their ids are not kept: they may die, and another object get them.
        """
        if len(ids) != len(self._ids):
            return False
        changed = [i for i, (a, b) in enumerate(zip(ids, self._ids, strict=True)) if a != b]
        return all(i in self._loose and not _is_walked(values[i], self._kind) for i in changed)


@final
class _Survey:
    """The walk that writes the code of a probe."""

    def __init__(self, root: Any, kind: type, flags: frozenset[str]) -> None:
        self._kind = kind
        self._flags = flags
        self._lines: list[str] = []
        self._constants: dict[str, Any] = {"S": object(), "id": id}
        self._name_parts: list[str] = []
        self._value_parts: list[str] = []
        self.names: list[Any] = []
        self.values: list[Any] = []
        self.loose: set[int] = set()
        self.plain = True  # whether all keys are texts
        self._seen: set[int] = set()
        self._pending: deque[tuple[Any, str]] = deque([(root, "")])
        while self._pending:
            self._visit(*self._pending.popleft())

    def _visit(self, value: Any, expression: str) -> None:
        if id(value) in self._seen or isinstance(value, Variable):
            return
        self._seen.add(id(value))
        x = f"x{len(self._seen)}"
        part = isinstance(value, self._kind)
        if part:
            self._lines.append(f"{x} = {self._constant(ref(value))}().__dict__")
        else:
            cls = self._constant(type(value))
            self._lines.append(f"{x} = {expression}")
            self._lines.append(f"if {x}.__class__ is not {cls}: return None")
        if part or isinstance(value, dict):
            self._add_dict(x, vars(value) if part else value, part=part)
        elif isinstance(value, (list, tuple)):
            self._value_parts.append(f"*{x}, S")
            for i, item in enumerate(value):
                self._add(item, f"{x}[{i}]")
            self._end()
        else:
            for name in value.__dataclass_fields__:
                self._value_parts.append(f"{x}.{name}")
                self._add(getattr(value, name, None), f"{x}.{name}")

    def _add_dict(self, x: str, entries: dict[Any, Any], *, part: bool) -> None:
        self._name_parts.append(f"*{x}, S")
        self._value_parts.append(f"*{x}.values()")
        for key, item in entries.items():
            self.names.append(key)
            if type(key) is not str:
                self.plain = False
            self._add(item, f"{x}[{key!r}]", strict=part and key in self._flags)
        self.names.append(self._constants["S"])

    def _add(self, item: Any, expression: str, *, strict: bool = False) -> None:
        walked = _is_walked(item, self._kind)
        if not walked and not strict:
            self.loose.add(len(self.values))
        self.values.append(item)
        if walked:
            self._pending.append((item, expression))

    def _end(self) -> None:
        self.values.append(self._constants["S"])

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def reader(self) -> Callable[[], tuple[list[Any], list[Any]] | None]:
        """The code that reads all names and objects; it gives None where it cannot."""
        names, values = ", ".join(self._name_parts), ", ".join(self._value_parts)
        body = "\n  ".join([*self._lines, f"return [{names}], [{values}]"])
        text = f"def read():\n try:\n  {body}\n except Exception:\n  return None\n"
        return FunctionType(_compiled(text), self._constants)


@lru_cache(maxsize=64)
def _compiled(text: str) -> CodeType:
    """The code of the function in ``text``: what is looked at again is mostly built as before."""
    module = compile(text, "<probe>", "exec")
    return next(c for c in module.co_consts if isinstance(c, CodeType))


def _is_walked(value: Any, kind: type) -> bool:
    """Whether `eagerflow.capture.modules.walk` looks at it, or into it."""
    return isinstance(value, (kind, Variable, dict, list, tuple)) or (
        hasattr(type(value), "__dataclass_fields__")
    )
