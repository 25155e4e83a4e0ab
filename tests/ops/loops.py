"""References that apply a Python function to each element, independent of NumPy's functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def loop(function: Callable[..., Any], *, complex_: Callable[..., Any] | None = None) -> Any:
    """A reference that calls ``function`` with the elements as Python numbers.

    Args:
        function: for real elements, and for complex ones if nothing else is given.
        complex_: for complex elements.
    """

    def reference(*arrays: Any, **kwargs: Any) -> Any:
        together = np.broadcast_arrays(*arrays)
        kind = "c" if any(a.dtype.kind == "c" for a in together) else together[0].dtype.kind
        chosen = complex_ if kind == "c" and complex_ is not None else function
        rows = zip(*(a.ravel().tolist() for a in together), strict=True)
        out = [chosen(*row, **kwargs) for row in rows]
        return np.array(out, dtype=_dtype(out, kind)).reshape(together[0].shape)

    return reference


def _dtype(out: list[Any], kind: str) -> Any:
    if not out:
        return {"b": bool, "i": np.int64, "u": np.uint64}.get(kind, float)
    types = {type(v) for v in out}
    if types == {bool}:
        return bool
    if types == {int}:
        return np.int64 if min(out) < 0 else np.uint64
    return complex if complex in types else float


def total(function: Callable[[float], float]) -> Callable[[float], float]:
    """``function`` of Python's math module, with IEEE's results where it raises an error."""

    def extended(x: float) -> float:
        try:
            return function(x)
        except ValueError:  # outside of the domain
            return math.nan
        except OverflowError:
            return math.inf

    return extended


def divided(a: Any, b: Any) -> Any:
    """a / b with IEEE's results for a divisor of zero."""
    if b != 0 or isinstance(b, complex):
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def reducing(function: Callable[[list[Any]], Any], *, empty: Any = None) -> Any:
    """A reference that calls ``function`` with each list of elements that is reduced to one.

    Args:
        function: of a list of Python numbers.
        empty: the result for no elements, if ``function`` has none.
    """

    def reference(x: Any, axis: Any = None, *, keepdims: bool = False, **kwargs: Any) -> Any:
        named = range(x.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
        axes = [a % x.ndim for a in named]
        kept = [i for i in range(x.ndim) if i not in axes]
        moved = np.transpose(x, kept + axes)
        shape = moved.shape[: len(kept)]
        rows = moved.reshape((math.prod(shape), math.prod(moved.shape[len(kept) :]))).tolist()
        out = [function(row, **kwargs) if row or empty is None else empty for row in rows]
        result = np.array(out, dtype=_dtype(out, "f")).reshape(shape)
        return np.expand_dims(result, tuple(axes)) if keepdims else result

    return reference


def along(function: Callable[[list[Any]], list[Any]]) -> Any:
    """A reference that calls ``function`` with each list of elements along an axis."""

    def reference(*arrays: Any, axis: int = -1, **kwargs: Any) -> Any:
        moved = [np.moveaxis(a, axis, -1) for a in arrays]
        shape = moved[0].shape[:-1]
        if 0 in shape:
            return np.zeros(arrays[0].shape)
        rows = [m.reshape(math.prod(shape), -1).tolist() for m in moved]
        out = [function(*row, **kwargs) for row in zip(*rows, strict=True)]
        flat = np.array(out, dtype=_dtype([v for row in out for v in row], "f"))
        return np.moveaxis(flat.reshape((*shape, -1)), -1, axis)

    return reference
