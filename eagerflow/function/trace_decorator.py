"""`trace` makes graphs of functions, `eval_shape` gives the types of results of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, Protocol, TypeVar, get_args, overload

from eagerflow.core import tree
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray
from eagerflow.errors import TraceError, hides_frames
from eagerflow.function.traced_function import TracedFunction
from eagerflow.runtime.background_compilation import Mode
from eagerflow.tracing.tracer import current_tracer
from eagerflow.types import TensorSpec, TensorType

_P = ParamSpec("_P")
_R = TypeVar("_R")
_COMPILE: Final = get_args(Mode)


class _Trace(Protocol):
    """The decorator that `trace` returns when it is called with options only."""

    def __call__(self, fn: Callable[_P, _R], /) -> TracedFunction[_P, _R]: ...


@overload
def trace(fn: Callable[_P, _R], /) -> TracedFunction[_P, _R]: ...


@overload
def trace(
    fn: Callable[_P, _R], /, *, static: str | Sequence[str] = (), compile: Mode = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> TracedFunction[_P, _R]: ...  # fmt: skip


@overload
def trace(
    *, static: str | Sequence[str] = (), compile: Mode = "background", strict: bool = False,
    max_traces: int | None = None, name: str | None = None,
) -> _Trace: ...  # fmt: skip


def trace(
    fn: Any = None, /, *, static: str | Sequence[str] = (), compile: Mode = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Capture a function into a static dataflow graph, which later calls run.

    Use it as a decorator, with arguments or without. See `TracedFunction` for the result.

    Args:
        fn: a Python function, method or callable object. It may read and update variables, draw
            random numbers, take gradients, and call other functions, traced or not.
        static: names of parameters whose arguments are static, whatever their type: another value
            needs another trace. Strings, bools, None and objects are always static.
        compile: when to compile, where native kernels are in force (`config`) and there is
            llvmlite: ``"background"`` beside further calls once five have run, ``"now"`` before the
            first, ``"off"`` never. The results have the same bits.
        strict: whether an effect or value that a trace would drop or freeze (a ``print``,
            ``time.time()``, an ``append`` to a list from outside) is an error instead of a warning.
        max_traces: maximum number of traces; one more is an error. No limit by default.
        name: of the graph; by default the name of the function.

    Raises:
        TraceError: ``fn`` is no function, or one that cannot be traced, such as a generator.

    >>> @ef.trace
    ... def f(x, y=2.0):
    ...     return x * y
    >>> f(ef.tensor([1.0, 2.0])), f(ef.tensor([1.0, 2.0, 3.0]), 3)
    (Tensor([2., 4.], f32[2]@cpu:0), Tensor([3., 6., 9.], f32[3]@cpu:0))
    """
    names = (static,) if isinstance(static, str) else tuple(static)
    if compile not in _COMPILE:
        raise TraceError(f"trace: compile={compile!r}", expected=" or ".join(map(repr, _COMPILE)))
    if max_traces is not None and (type(max_traces) is not int or max_traces < 1):
        raise TraceError(f"trace: max_traces={max_traces!r}", expected="an int of at least 1")

    def decorate(function: Callable[_P, _R]) -> TracedFunction[_P, _R]:
        _check_function(function)
        return TracedFunction(function, names, compile, strict, max_traces, name)

    return decorate if fn is None else decorate(fn)


def _check_function(fn: Any) -> None:
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
    deferred = deferred_kind(fn)
    if deferred is not None:
        raise TraceError(
            f"ef.trace cannot capture {getattr(fn, '__name__', fn)}, {deferred}",
            hint="trace a function that it calls for each step",
        )


def deferred_kind(fn: Any) -> str | None:
    """The kind of a function whose calls do not run its body; None for other functions."""
    inner = fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004 - not a test
    for is_kind, kind in (
        (inspect.isgeneratorfunction, "a generator"),
        (inspect.iscoroutinefunction, "a coroutine"),
        (inspect.isasyncgenfunction, "an asynchronous generator"),
    ):
        if is_kind(fn) or is_kind(inner):
            return kind
    return None


@hides_frames
def eval_shape(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The result of a function with types in place of tensors; none of its ops is computed.

    The function is traced: its Python code runs once, and its changes of variables and of objects
    outside are not carried out.

    Args:
        f: a function, a module, or a traced function.
        args: its arguments; in place of tensors also their types (``x.type``), so that no memory is
            needed.
        kwargs: its keyword arguments, likewise.

    Returns:
        The result, with a `eagerflow.types.TensorSpec` (``dtype``, ``shape``, ``device``) in place
        of each tensor.

    Raises:
        TraceError: in a traced function, where types are known anyway, or if the trace is refused.

    >>> x = ef.eval_shape(ef.zeros, (1000, 1000))
    >>> x
    f32[1000,1000]@cpu:0
    >>> ef.eval_shape(lambda x, y: {"product": x @ y, "n": 3}, x, x)
    {'product': f32[1000,1000]@cpu:0, 'n': 3}
    """
    if current_tracer() is not None:
        raise TraceError(
            "eval_shape within a traced function",
            given="a trace",
            hint="a trace computes nothing: f(x).shape is known without eval_shape",
        )
    args, kwargs = tree.map(_stand_in, (args, kwargs))
    traced = f if isinstance(f, TracedFunction) else trace(f)
    return traced.abstract(*args, **kwargs)


def _stand_in(leaf: Any) -> Any:
    """A tensor of the given type with a single element in memory; other leaves as they are."""
    if isinstance(leaf, TensorSpec):
        leaf, device = leaf.type, leaf.device
    elif isinstance(leaf, TensorType):
        device = None
    else:
        return leaf
    return functions["broadcast_to"](
        functions["zeros"]((), dtype=leaf.dtype, device=device), leaf.shape
    )
