"""`Probe`: looks fast whether the parts of an object hold the very objects that they held.

It is straight Python code, written for what there is, as the guards of a trace are: it reads all
attributes and items into two flat lists, one of names and one of objects, and compares the names
and the `id` of each object. An object that died may have given its `id` to another, so what can be
held weakly tells of its death.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, final
from weakref import ref

from eagerflow.capture.equality import ATOMS
from eagerflow.ops.state.variables import Variable
from eagerflow.types import DType

#: types of plain values, which are kept as they are
PLAIN: Final = ATOMS | {range, slice, DType}
#: ends what one owner holds
_END: Final = object()


@final
class Probe:
    """What an object and its parts hold at one moment, of which nothing is kept alive.

    Args:
        root: where `eagerflow.capture.modules.walk` begins.
        kind: the class of parts.
        flags: the attributes of parts that count, whatever they are.
    """

    __slots__ = ("_before", "_constants", "_dead", "_flags", "_kept", "_kind", "_lines", "_loose",
                 "_name_parts", "_names", "_pending", "_plain", "_read", "_seen", "_value_parts",
                 "_values")  # fmt: skip

    def __init__(self, root: Any, kind: type, flags: frozenset[str]) -> None:
        self._kind = kind
        self._flags = flags
        self._lines: list[str] = []
        self._constants: dict[str, Any] = {"S": _END}
        self._name_parts: list[str] = []
        self._value_parts: list[str] = []
        self._names: list[Any] = []
        self._values: list[Any] = []
        #: positions of what is not walked into, where other such objects may come
        self._loose: set[int] = set()
        self._seen: set[int] = set()
        self._pending: deque[tuple[Any, str]] = deque([(root, "")])
        while self._pending:
            self._visit(*self._pending.popleft())
        self._plain = all(type(name) is str or name is _END for name in self._names)
        self._before = _identities(self._values)
        self._dead: list[Any] = []  # weak references to what is no more: another may have its `id`
        self._kept = [self._keep(x) for i, x in enumerate(self._values) if i not in self._loose]
        self._read = self._reader()
        self._values.clear()
        self._pending.clear()

    def _keep(self, value: Any) -> Any:
        try:
            return value if type(value) in PLAIN else ref(value, self._dead.append)
        except TypeError:
            return None  # of what is walked into, the code compares the class and the items

    def holds(self) -> bool:
        """Whether all is as it was; False also where that takes a closer look."""
        contents = self._read()
        if contents is None or not self._plain or self._dead:
            return False
        names, values = contents
        if names != self._names:
            return False
        now, before, count = _identities(values), self._before, len(values)
        # of what is not walked into, there may be others than before, such as a count
        return now == before or all(
            i in self._loose and not _is_walked(values[i], self._kind)
            for i in range(count)
            if now[i] != before[i] or now[count + i] is not before[count + i]
        )

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
            self._values.append(_END)
        else:
            for name in value.__dataclass_fields__:
                self._value_parts.append(f"{x}.{name}")
                self._add(getattr(value, name, None), f"{x}.{name}")

    def _add_dict(self, x: str, entries: dict[Any, Any], *, part: bool) -> None:
        self._name_parts.append(f"*{x}, S")
        self._value_parts.append(f"*{x}.values()")
        for key, item in entries.items():
            self._names.append(key)
            self._add(item, f"{x}[{key!r}]", strict=part and key in self._flags)
        self._names.append(_END)

    def _add(self, item: Any, expression: str, *, strict: bool = False) -> None:
        walked = _is_walked(item, self._kind)
        if not walked and not strict:
            self._loose.add(len(self._values))
        self._values.append(item)
        if walked:
            self._pending.append((item, expression))

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def _reader(self) -> Callable[[], tuple[list[Any], list[Any]] | None]:
        """The code that reads all names and objects; it gives None where it cannot."""
        names, values = ", ".join(self._name_parts), ", ".join(self._value_parts)
        body = "\n  ".join([*self._lines, f"return [{names}], [{values}]"])
        text = f"def read():\n try:\n  {body}\n except Exception:\n  return None\n"
        return FunctionType(_compiled(text), self._constants)


def _identities(values: list[Any]) -> list[Any]:
    """What tells objects that live from each other, and what died from what came to its place."""
    return [*map(id, values), *map(type, values)]


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
