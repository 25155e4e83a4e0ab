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
        return {"c": complex, "b": bool, "i": np.int64, "u": np.uint64}.get(kind, float)
    first = out[0]
    if isinstance(first, bool):
        return bool
    if isinstance(first, int):
        return np.int64 if min(out) < 0 else np.uint64
    return complex if any(isinstance(v, complex) for v in out) else float


def total(function: Callable[[float], float]) -> Callable[[float], float]:
    """``function`` of Python's math module with IEEE's results where it raises instead."""

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
