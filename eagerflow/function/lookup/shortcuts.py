"""Shortcuts: generated functions that check the arguments of a call and run its trace.

Parsing arguments and looking up their trace takes ten times as long as running a small one. So
the first call of a *form* (types of arguments, lanes and shapes of tensors, values of others) that
finds a trace adds a generated function that does both for later calls of that form. For a function
of two tensors the generated code is::

    def call(args):
        if stack.installed or len(args) != 2: return missed
        if stack.scoped or stack.refusing:
         if scope_of_call() != scope: return missed
        x0, x1, = args
        if type(x0) is not Tensor: return missed
        if x0._lane is not lane_x0 or x0._data.shape != shape_x0: return missed
        if type(x1) is not Tensor: return missed
        if x1._lane is not lane_x1 or x1._data.shape != shape_x1: return missed
        if x0 is x1: return missed
        captured = guards.read()
        if captured is None: return missed
        entry.used = next(uses)
        results = entry.run_raw(x0._data, x1._data, )
        result = Tensor()
        result._data, result._lane, result._mark = results[0], entry.single, None
        return result

Tuples, lists and dicts with strings for keys are unpacked by such statements as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from types import CodeType, FunctionType
from typing import Any, Final, final

from eagerflow.core.interpreter import stack
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import as_tensor
from eagerflow.function.cache_entry import CacheEntry, uses
from eagerflow.function.lookup.call_arguments import scope_of_call
from eagerflow.hardware import as_device

#: result of a shortcut for arguments that it does not take
MISSED: Final = object()
#: maximum number of forms with shortcuts
_MOST: Final = 1024
#: maximum number of traces of one form, as where conditions alternate; the latest comes first
_WAYS: Final = 4
#: maximum number of parts of a form: a shortcut for more would be long, or deeply nested
_LONGEST: Final = 512
#: maximum number of variables compared pair by pair; for more, the set of all ids is shorter
_FEW: Final = 3
_PLAIN: Final = frozenset({bool, str, type(None)})
_BY_IDENTITY: Final[Any] = object.__hash__
_ARRAY: Final = as_device("cpu:0").backend.array_type
_TAKEN: Final = frozenset({Tensor, _ARRAY, tuple, list, dict})
_stack: Final = stack
_NAMES: Final = {
    "__name__": __name__, "stack": _stack, "scope_of_call": scope_of_call, "missed": MISSED,
    "Tensor": Tensor, "Array": _ARRAY, "as_tensor": as_tensor, "next": next, "uses": uses,
}  # fmt: skip

Shortcut = Callable[[tuple[Any, ...]], Any]


@final
class Shortcuts:
    """The shortcuts of one traced function.

    Attributes:
        last: the shortcut found last, which the next call tries first.
    """

    __slots__ = ("_by_form", "last")

    def __init__(self) -> None:
        self._by_form: dict[Any, tuple[tuple[CacheEntry, Shortcut], ...]] = {}
        self.last: Shortcut = _misses

    def __len__(self) -> int:
        return len(self._by_form)

    def clear(self) -> None:
        """Drop all shortcuts: they may lead to dropped traces."""
        self._by_form.clear()
        self.last = _misses

    def call(self, form: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """The result of a call of this form; `MISSED` if its trace must be looked up."""
        for _, shortcut in self._by_form.get(form, ()):
            result = shortcut(args)
            if result is not MISSED:
                self.last = shortcut
                return result
        return MISSED

    def add(
        self, form: tuple[Any, ...], entry: CacheEntry, args: tuple[Any, ...], rest: Sequence[Any]
    ) -> None:
        """Add a shortcut to an entry for calls of this form.

        Args:
            form: of the call.
            entry: the entry that the lookup found.
            args: the arguments of the call.
            rest: the leaves that follow the arguments: defaults.
        """
        if len(self._by_form) >= _MOST:
            self.clear()
        others = [one for one in self._by_form.get(form, ()) if one[0] is not entry]
        self.last = shortcut = _write(form[0], entry, args, tuple(rest))
        self._by_form[form] = ((entry, shortcut), *others[: _WAYS - 1])


def _misses(args: tuple[Any, ...]) -> Any:
    return MISSED


def form_of(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The form of a call; None if its trace must be looked up each time."""
    if _stack.installed:
        return None
    form: list[Any] = [scope_of_call()]
    return tuple(form) if _describe(args, form, set()) else None


def _describe(values: Iterable[Any], form: list[Any], seen: set[int]) -> bool:
    """Append the form of values to ``form``; return False if they have none.

    Args:
        values: arguments, or the items of a container among them.
        form: the form of the values before them.
        seen: ids of tensors, arrays and containers before them. A repeated object has no form, as
            it is one input, or one target of stores, and not two. A tuple may be repeated, as it
            is immutable.
    """
    for x in values:
        kind = type(x)
        if kind is float or kind is int:
            form.append(kind)
        elif kind in _PLAIN:
            form.append(x)
        elif kind in _TAKEN:
            if len(form) > _LONGEST or not _describe_one(x, form, seen):
                return False
        elif kind.__hash__ is _BY_IDENTITY:
            form.append(id(x))  # dropped when the object dies
        else:
            return False
    return True


def _describe_one(x: Any, form: list[Any], seen: set[int]) -> bool:
    """Append the form of a tensor, an array or a container; return False if it has none."""
    kind = type(x)
    if kind is tuple:
        form += (tuple, len(x))
        return _describe(x, form, seen)
    if id(x) in seen:
        return False
    seen.add(id(x))
    if kind is Tensor:
        form += (x._lane, x._data.shape)
        return True
    if kind is list:
        form += (list, len(x))
        return _describe(x, form, seen)
    if kind is dict:
        form += (dict, tuple(x))
        return all(type(key) is str for key in x) and _describe(x.values(), form, seen)
    if x.dtype.isnative:
        form += (as_tensor(x)._lane, x.shape, _ARRAY)
        return True
    return False


def leaves_of(values: Iterable[Any]) -> list[Any]:
    """The leaves of arguments that have a form, in the order in which a call parses them."""
    leaves: list[Any] = []
    for x in values:
        if type(x) is tuple or type(x) is list:
            leaves += leaves_of(x)
        elif type(x) is dict:
            leaves += leaves_of(x[key] for key in sorted(x))
        elif x is not None:
            leaves.append(x)
    return leaves


def _write(
    scope: Any, entry: CacheEntry, args: tuple[Any, ...], rest: tuple[Any, ...]
) -> Shortcut:  # fmt: skip
    """The shortcut for calls of the form of this one."""
    names = {**_NAMES, "scope": scope, "entry": entry, "guards": entry.guards, "rest": rest}
    arguments = _Arguments(args, names)
    checks = arguments.statements()
    if scope is not None:
        checks.insert(0, "if not (stack.scoped or stack.refusing): return missed")
    if entry.asks_numbers:
        checks.append(f"if not entry.agrees(({arguments.listed()}*rest, )): return missed")
    lines = [
        f"if stack.installed or len(args) != {len(args)}: return missed",
        "if stack.scoped or stack.refusing:",
        " if scope_of_call() != scope: return missed",
        *checks,
        "captured = guards.read()",
        "if captured is None: return missed",
        "entry.used = next(uses)",
        *_run(entry, arguments, rest),
    ]
    return FunctionType(_compiled("\n ".join(["def call(args):", *lines])), names)


@final
class _Arguments:
    """The arguments of a shortcut: the statements that unpack containers and check each part.

    Args:
        args: the arguments of a call of its form.
        names: the global names of the shortcut, to which lanes, shapes and other values are added.

    Attributes:
        leaves: for each leaf its variable and its value in this call.
    """

    def __init__(self, args: tuple[Any, ...], names: dict[str, Any]) -> None:
        self.leaves: list[tuple[str, Any]] = []
        self._names = names
        self._count = 0
        self._checks: list[str] = []
        self._conversions: list[str] = []
        self._distinct: list[str] = []
        for x, value in zip(self._taken_apart("args", len(args)), args, strict=True):
            self._check(x, value)

    def listed(self) -> str:
        """The leaves, with a comma after each."""
        return "".join([f"{x}, " for x, _ in self.leaves])

    def statements(self) -> list[str]:
        """The statements that miss if arguments have another form; arrays become tensors."""
        return [*self._checks, *_differ(self._distinct), *self._conversions]

    def _taken_apart(self, whole: str, size: int) -> list[str]:
        """New variables for the items of a container."""
        parts = [f"x{i}" for i in range(self._count, self._count + size)]
        self._count += size
        if parts:
            self._checks.append(f"{', '.join(parts)}, = {whole}")
        return parts

    def _miss(self, condition: str) -> None:
        self._checks.append(f"if {condition}: return missed")

    def _check(self, x: str, value: Any) -> None:
        kind = type(value)
        if kind is tuple or kind is list or kind is dict:
            self._check_container(x, value)
            return
        if kind is Tensor:
            self._miss(f"type({x}) is not Tensor")
            self._checks += self._typed(x, value)
            self._distinct.append(x)
        elif kind is _ARRAY:
            self._miss(f"type({x}) is not Array or not {x}.dtype.isnative")
            self._conversions += [f"{x} = as_tensor({x})", *self._typed(x, as_tensor(value))]
            self._distinct.append(x)
        elif kind is float or kind is int:
            self._miss(f"type({x}) is not {kind.__name__}")
        elif kind is str:
            self._names[f"value_{x}"] = value
            self._miss(f"type({x}) is not str or {x} != value_{x}")
        elif kind in _PLAIN:
            self._miss(f"{x} is not {value}")
        else:  # not the object itself, which the shortcut would keep alive
            self._miss(f"id({x}) != {id(value)}")
        if value is not None:
            self.leaves.append((x, value))

    def _check_container(self, x: str, value: tuple[Any, ...] | list[Any] | dict[str, Any]) -> None:
        if isinstance(value, dict):
            self._names[f"keys_{x}"] = keys = list(value)
            self._miss(f"type({x}) is not dict or [*{x}] != keys_{x}")
            self._miss(f"any([type(key) is not str for key in {x}])")
            parts = dict(zip(keys, self._taken_apart(f"{x}.values()", len(keys)), strict=True))
            for key in sorted(keys):
                self._check(parts[key], value[key])
        else:
            self._miss(f"type({x}) is not {type(value).__name__} or len({x}) != {len(value)}")
            for part, held in zip(self._taken_apart(x, len(value)), value, strict=True):
                self._check(part, held)
        if not isinstance(value, tuple):
            self._distinct.append(x)

    def _typed(self, x: str, value: Tensor) -> list[str]:
        """The statements that miss if a tensor has another dtype, device or shape."""
        self._names[f"lane_{x}"], self._names[f"shape_{x}"] = value._lane, value._data.shape
        return [f"if {x}._lane is not lane_{x} or {x}._data.shape != shape_{x}: return missed"]


def _differ(variables: Sequence[str]) -> list[str]:
    """The statements that miss if two of these variables are one object."""
    if len(variables) <= _FEW:
        pairs = combinations(variables, 2)
        return [f"if {x} is {y}: return missed" for x, y in pairs]
    ids = ", ".join([f"id({x})" for x in variables])
    return [f"if len({{{ids}}}) != {len(variables)}: return missed"]


def _run(entry: CacheEntry, arguments: _Arguments, rest: tuple[Any, ...]) -> list[str]:
    """The statements that run the trace and return the result."""
    if rest or entry.single is None or entry.catches:
        return [f"return entry.run(({arguments.listed()}*rest, ), captured)"]
    used = [arguments.leaves[i] for i in entry.leaves]
    inputs = "".join(
        [f"{x}._data, " if isinstance(value, (Tensor, _ARRAY)) else f"{x}, " for x, value in used]
    )
    if entry.captured:
        inputs += "*[x._data if type(x) is Tensor else x for x in captured]"
    return [
        f"results = entry.run_raw({inputs})",
        "result = Tensor()",
        "result._data, result._lane, result._mark = results[0], entry.single, None",
        "return result",
    ]


@lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    """The code of a shortcut, cached: shortcuts differ in the values of names more than in text."""
    module = compile(text, "<shortcut>", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType))
