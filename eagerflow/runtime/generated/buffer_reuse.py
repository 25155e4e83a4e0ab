"""Kernels that write into an operand (``out=``), where nothing else sees that memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from sys import getrefcount
from typing import Any, Final

import numpy as np

from eagerflow.graph.passes.rewrite import LARGE


@cache
def reusing(kernel: Callable[..., Any], position: int) -> Callable[..., Any]:
    """``kernel`` writing its result into its input number ``position``, where that is safe.

    It is safe where nothing else can see the memory of that input, or of the array that it is a
    view of, and the result would have the same layout anyway.
    """

    def run(*arrays: Any) -> Any:
        out = arrays[position]
        if out.nbytes < LARGE or getrefcount(out) > _alone[0]:
            return kernel(*arrays)
        if not (_is_own(out) and _lie_alike(out, arrays)):
            return kernel(*arrays)
        return kernel(*arrays, out=out)

    return run


def if_alone(out: Any) -> Any | None:
    """``out`` if nothing but a local variable, passed on once, sees its memory; else None.

    For functions that a program calls with a local variable, and that may write into its array.
    """
    if out.nbytes < LARGE or getrefcount(out) > _alone[2]:
        return None
    return out if out.flags.c_contiguous and _is_own(out) else None


def _is_own(out: Any) -> bool:
    """Whether an array, or else the one that it is a view of, has its memory for itself."""
    owner = out.base
    if not out.flags.writeable:
        return False
    if owner is None:
        return _owns(out)
    return type(owner) is np.ndarray and getrefcount(owner) <= _alone[1] and _owns(owner)


def _lie_alike(out: Any, arrays: tuple[Any, ...]) -> bool:
    """Whether an elementwise result of ``arrays`` would lie as ``out``, which is among them."""
    dtype, shape = out.dtype, out.shape
    if not out.flags.c_contiguous:  # by columns, as gradients of transposed weights
        alike = (x.flags.f_contiguous and x.dtype is dtype and x.shape == shape for x in arrays)
        return bool(out.flags.f_contiguous) and all(alike)
    for x in arrays:
        if x is not out:
            if x.dtype is not dtype or not x.flags.c_contiguous:
                return False
            if x.shape != shape and x.ndim and np.broadcast(x, out).shape != shape:
                return False
    return True


def _owns(owner: Any) -> bool:
    """Whether an array owns its memory; a function, as a flags object holds a reference."""
    owns: bool = owner.flags.owndata
    return owns


def _count() -> tuple[int, int, int]:
    """Reference counts of an array that only a local variable holds, and of its owner.

    The first as seen in `reusing`, for a variable of its caller; the second in `_is_own`, for the
    owner of a view; the third in `if_alone`, for an argument of its caller.
    """
    counts = []

    def is_own(out: Any) -> None:
        owner = out.base
        counts.append(getrefcount(owner))

    def run(*arrays: Any) -> Any:
        out = arrays[0]
        counts.append(getrefcount(out))

    def alone(out: Any) -> None:
        counts.append(getrefcount(out))

    def function(out: Any) -> None:
        alone(out)

    x = np.empty(2)[:]
    run(x)
    is_own(x)
    function(x)
    del x
    return counts[0], counts[1], counts[2]


_alone: Final = _count()
