"""Calls in converted code: the callee is converted as well, unless it is library code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, Final

from eagerflow.autograph.conversion.convert import converted, operator
from eagerflow.capture.library import is_library

__all__ = ["call", "converted_argument", "replacements", "wrappers"]

_OWN: Final = "eagerflow."
#: modules of eagerflow whose functions keep user functions, to be called when the graph runs
_LATE: Final = (
    "eagerflow.ops", "eagerflow.function", "eagerflow.runners", "eagerflow.data",
    "eagerflow.profiling",
)  # fmt: skip
#: builtins that call their arguments at once
_HIGHER: Final = frozenset({map, filter, sorted, functools.reduce, functools.partial})
#: functions that do more in converted code, with their replacements
replacements: Final[dict[Any, Callable[..., Any]]] = {}
#: likewise for all functions of a module, a method of a builtin class by its name, or objects of a
#: class, each with a function that gives the replacement
wrappers: Final[dict[Any, Callable[[Any], Callable[..., Any]]]] = {}


@operator
def call(function: Any) -> Any:
    """The function to call in place of ``function``."""
    kind = type(function)
    if kind is FunctionType:
        return _function(function)
    if kind is MethodType:
        inner = call(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if kind is BuiltinFunctionType or kind is type:
        if function in replacements:
            return replacements[function]
        if function in _HIGHER:
            return _with_converted_arguments(function)
        return _wrapped(function, (type(getattr(function, "__self__", None)), function.__name__))
    if kind is functools.partial:
        inner = call(function.func)
        if inner is function.func:
            return function
        return functools.partial(inner, *function.args, **function.keywords)
    if kind in wrappers:
        return wrappers[kind](function)
    return _object(function)


def _function(function: FunctionType) -> Any:
    if not is_library(function.__globals__):
        return converted(function)
    module = function.__globals__.get("__name__", "")
    if function in replacements:
        return replacements[function]
    if not module.startswith(_OWN) or module.startswith(_LATE):
        return _wrapped(function)
    if function.__closure__:  # a transform of a function, such as ef.grad(f)
        return _with_converted_cells(function)
    return _with_converted_arguments(function)


def _wrapped(function: Any, method: tuple[type, str] | None = None) -> Any:
    """A function of a library, or its wrapper."""
    wrap = wrappers.get(function.__module__ or method)
    return function if wrap is None else wrap(function)


def _with_converted_cells(function: FunctionType) -> FunctionType:
    """A function with converted ones in place of those that it was made for."""
    before = [cell.cell_contents for cell in function.__closure__ or ()]
    after = [converted_argument(x) for x in before]
    if all(a is b for a, b in zip(before, after, strict=True)):
        return function
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        tuple(map(CellType, after)),
    )  # fmt: skip


def _object(function: Any) -> Any:
    """A callable object: its class determines the call."""
    method = getattr(type(function), "__call__", None)  # noqa: B004 - not a test
    if type(method) is not FunctionType or is_library(method.__globals__):
        return function
    inner = converted(method)
    return function if inner is method else MethodType(inner, function)


def _with_converted_arguments(function: Any) -> Any:
    def caller(*args: Any, **kwargs: Any) -> Any:
        return function(
            *map(converted_argument, args), **{k: converted_argument(v) for k, v in kwargs.items()}
        )

    return caller


def converted_argument(value: Any) -> Any:
    """The replacement for an argument that a function of eagerflow may call."""
    if type(value) in (FunctionType, MethodType, functools.partial):
        return call(value)
    return value
