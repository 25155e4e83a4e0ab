"""The short way of a call: one generated function that checks arguments and runs the trace.

Parsing arguments and looking for their trace takes ten times as long as running a small one. So
the first call of a *form* (types of arguments, lanes and shapes of tensors, values of others) that
finds a trace leaves a function that does both for later calls of that form. For a function of two
tensors it is::

    def call(args):
        if stack.installed or len(args) != 2: return missed
        if stack.scoped or stack.refusing:
         if scope_of_call() != scope: return missed
        x0, x1, = args
        if type(x0) is not Tensor: return missed
        if x0._lane is not lane0 or x0._data.shape != shape0: return missed
        if type(x1) is not Tensor: return missed
        if x1._lane is not lane1 or x1._data.shape != shape1: return missed
        if x0 is x1: return missed
        captured = guards.read()
        if captured is None: return missed
        entry.used = next(uses)
        results = entry.run_raw(x0._data, x1._data, )
        result = Tensor()
        result._data, result._lane, result._mark = results[0], entry.single, None
        return result
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from types import CodeType, FunctionType
from typing import Any, Final, final

from eagerflow.core.moves_to_scopes import scope_of_call
from eagerflow.core.stack import stack
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import as_tensor
from eagerflow.function.cache_entry import CacheEntry, uses
from eagerflow.hardware import as_device

#: what a shortcut gives for other arguments than those it is for
MISSED: Final = object()
#: forms of calls whose trace is found without looking at their structure
_MOST: Final = 1024
#: traces of one form, as of answers that alternate; the one found last comes first
_WAYS: Final = 4
_PLAIN: Final = frozenset({bool, str, type(None)})
_BY_IDENTITY: Final[Any] = object.__hash__
_ARRAY: Final = as_device("cpu:0").backend.array_type
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
        last: the one that was found last, which the next call tries first.
    """

    __slots__ = ("_by_form", "last")

    def __init__(self) -> None:
        self._by_form: dict[Any, tuple[tuple[CacheEntry, Shortcut], ...]] = {}
        self.last: Shortcut = _misses

    def __len__(self) -> int:
        return len(self._by_form)

    def clear(self) -> None:
        """Forget them: they may lead to traces that are gone."""
        self._by_form.clear()
        self.last = _misses

    def call(self, form: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """What a call of this form gives; `MISSED` if it has to look for its trace."""
        for _, shortcut in self._by_form.get(form, ()):
            result = shortcut(args)
            if result is not MISSED:
                self.last = shortcut
                return result
        return MISSED

    def add(
        self, form: tuple[Any, ...], entry: CacheEntry, args: tuple[Any, ...], rest: Sequence[Any]
    ) -> None:
        """Let calls of this form use an entry.

        Args:
            form: of the call.
            entry: what it has found.
            args: its arguments.
            rest: the leaves that follow them: defaults.
        """
        if len(self._by_form) >= _MOST:
            self.clear()
        others = [one for one in self._by_form.get(form, ()) if one[0] is not entry]
        self.last = shortcut = _write(form[0], entry, args, tuple(rest))
        self._by_form[form] = ((entry, shortcut), *others[: _WAYS - 1])


def _misses(args: tuple[Any, ...]) -> Any:
    return MISSED


def form_of(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The form of a call; None if its trace has to be looked for each time."""
    if _stack.installed:
        return None
    form: list[Any] = [scope_of_call()]
    for i, x in enumerate(args):
        kind = type(x)
        if kind is Tensor:
            form += (x._lane, x._data.shape)
        elif kind is float or kind is int:
            form.append(kind)
            continue
        elif kind in _PLAIN:
            form.append(x)
            continue
        elif kind is _ARRAY and x.dtype.isnative:
            form += (as_tensor(x)._lane, x.shape, _ARRAY)
        elif kind.__hash__ is _BY_IDENTITY:
            form.append(id(x))  # forgotten when the object dies
            continue
        else:
            return None
        for other in args[:i]:
            if other is x:  # which is one input, and not two
                return None
    return tuple(form)


def _write(
    scope: Any, entry: CacheEntry, args: tuple[Any, ...], rest: tuple[Any, ...]
) -> Shortcut:  # fmt: skip
    """The shortcut of calls like this one."""
    names = {**_NAMES, "scope": scope, "entry": entry, "guards": entry.guards, "rest": rest}
    checks = _checks(args, names)
    if scope is not None:
        checks.insert(0, "if not (stack.scoped or stack.refusing): return missed")
    if entry.asks_numbers:
        leaves = "".join(f"x{i}, " for i in range(len(args)))
        checks.append(f"if not entry.agrees(({leaves}*rest, )): return missed")
    lines = [
        f"if stack.installed or len(args) != {len(args)}: return missed",
        "if stack.scoped or stack.refusing:",
        " if scope_of_call() != scope: return missed",
        *([f"{''.join(f'x{i}, ' for i in range(len(args)))}= args"] if args else ()),
        *checks,
        # tensors among what is read have types, which the entry checks as well
        f"captured = {'entry' if entry.checks else 'guards'}.read()",
        "if captured is None: return missed",
        "entry.used = next(uses)",
        *_run(entry, args, rest),
    ]
    return FunctionType(_compiled("\n ".join(["def call(args):", *lines])), names)


def _checks(args: tuple[Any, ...], names: dict[str, Any]) -> list[str]:
    """The statements that leave if arguments are of another form; arrays become tensors."""
    checks: list[str] = []
    conversions: list[str] = []
    for i, x in enumerate(args):
        kind = type(x)
        if kind is Tensor:
            checks += [f"if type(x{i}) is not Tensor: return missed", *_typed(i, x, names)]
        elif kind is _ARRAY:
            checks.append(f"if type(x{i}) is not Array or not x{i}.dtype.isnative: return missed")
            conversions += [f"x{i} = as_tensor(x{i})", *_typed(i, as_tensor(x), names)]
        elif kind is float or kind is int:
            checks.append(f"if type(x{i}) is not {kind.__name__}: return missed")
        elif kind is str:
            names[f"value{i}"] = x
            checks.append(f"if type(x{i}) is not str or x{i} != value{i}: return missed")
        elif kind in _PLAIN:
            checks.append(f"if x{i} is not {x}: return missed")
        else:  # not the object itself, which it would keep alive
            checks.append(f"if id(x{i}) != {id(x)}: return missed")
    arrays = [i for i, x in enumerate(args) if type(x) is Tensor or type(x) is _ARRAY]
    pairs = combinations(arrays, 2)
    checks += [
        f"if x{i} is x{j}: return missed" for i, j in pairs if type(args[i]) is type(args[j])
    ]
    return checks + conversions


def _typed(i: int, x: Tensor, names: dict[str, Any]) -> list[str]:
    """The statements that leave if a tensor has another dtype, device or shape."""
    names[f"lane{i}"], names[f"shape{i}"] = x._lane, x._data.shape
    return [f"if x{i}._lane is not lane{i} or x{i}._data.shape != shape{i}: return missed"]


def _run(entry: CacheEntry, args: tuple[Any, ...], rest: tuple[Any, ...]) -> list[str]:
    """The statements that run the trace and give the result."""
    if rest or entry.single is None or entry.catches:
        leaves = "".join(f"x{i}, " for i in range(len(args)))
        return [f"return entry.run(({leaves}*rest, ), captured)"]
    inputs = "".join(
        f"x{i}._data, " if isinstance(args[i], (Tensor, _ARRAY)) else f"x{i}, "
        for i in entry.leaves
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
    """Shortcuts differ mostly in the values that they name, and less in their text."""
    module = compile(text, "<shortcut>", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType))
