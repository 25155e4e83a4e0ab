"""`trace`: makes a traced function of a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, overload

from eagerflow.core.tensor import AbstractArray
from eagerflow.errors import TraceError
from eagerflow.function.traced import COMPILE, Compile, TracedFunction

__all__ = ["trace"]


@overload
def trace(fn: Callable[..., Any], /) -> TracedFunction: ...


@overload
def trace(
    fn: Callable[..., Any], /, *, static: str | Sequence[str] = (), compile: Compile = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> TracedFunction: ...  # fmt: skip


@overload
def trace(
    *, static: str | Sequence[str] = (), compile: Compile = "background", strict: bool = False,
    max_traces: int | None = None, name: str | None = None,
) -> Callable[[Callable[..., Any]], TracedFunction]: ...  # fmt: skip


def trace(
    fn: Any = None, /, *, static: str | Sequence[str] = (), compile: Compile = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Capture a function into a static dataflow graph, which later calls run.

    Use it as a decorator, with arguments or without. See `TracedFunction` for what it makes.

    Args:
        fn: a Python function, method or callable object. It may read and update variables, draw
            random numbers, take gradients, and call other functions, traced or not.
        static: names of parameters whose arguments are static, whatever they are: another value
            is another trace. Strings, bools, None and objects are so anyway.
        compile: when to compile: ``"background"`` runs at once while it compiles, ``"now"``
            compiles first, ``"off"`` never does.
        strict: whether what a trace would drop or freeze (a ``print``, ``time.time()``, an
            ``append`` to a list from outside) is an error instead of a warning.
        max_traces: how many traces are allowed; one more is an error. No limit by default.
        name: of the graph; by default that of the function.

    Raises:
        TraceError: ``fn`` is no function, or one that cannot be traced, such as a generator.

    >>> @ef.trace
    ... def f(x, y=2.0):
    ...     return x * y
    >>> f(ef.tensor([1.0, 2.0])), f(ef.tensor([1.0, 2.0, 3.0]), 3)
    (Tensor([2., 4.], f32[2]@cpu:0), Tensor([3., 6., 9.], f32[3]@cpu:0))
    """
    names = (static,) if isinstance(static, str) else tuple(static)
    if compile not in COMPILE:
        raise TraceError(f"trace: compile={compile!r}", expected=" or ".join(map(repr, COMPILE)))
    if max_traces is not None and (type(max_traces) is not int or max_traces < 1):
        raise TraceError(f"trace: max_traces={max_traces!r}", expected="an int of at least 1")

    def decorate(function: Any) -> TracedFunction:
        _check(function)
        return TracedFunction(function, names, compile, strict, max_traces, name)

    return decorate if fn is None else decorate(fn)


def _check(fn: Any) -> None:
    if isinstance(fn, AbstractArray):
        raise TraceError(
            "ef.trace captures functions",
            given=str(fn.type),
            hint="the sum of the diagonal of a matrix is ef.linalg.trace(x)",
        )
    if isinstance(fn, (classmethod, property)):
        kind = type(fn).__name__
        raise TraceError(
            f"ef.trace cannot take a {kind}", hint=f"put @{kind} above @ef.trace, not below it"
        )
    if not callable(fn):
        raise TraceError("ef.trace captures functions", given=repr(fn))
    if isinstance(fn, type):
        raise TraceError(
            f"ef.trace cannot capture the class {fn.__name__}",
            hint="decorate its methods, or a function that makes and calls an instance",
        )
    inner = fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004 - not a test
    for is_kind, kind in (
        (inspect.isgeneratorfunction, "a generator"),
        (inspect.iscoroutinefunction, "a coroutine"),
        (inspect.isasyncgenfunction, "an asynchronous generator"),
    ):
        if is_kind(inner):
            raise TraceError(
                f"ef.trace cannot capture {getattr(fn, '__name__', fn)}, {kind}",
                hint="trace a function that it calls for each step",
            )
