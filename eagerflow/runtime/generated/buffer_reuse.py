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
        if out.nbytes < LARGE or getrefcount(out) > _alone[0] or not _fits(out, arrays):
            return kernel(*arrays)
        return kernel(*arrays, out=out)

    return run


def if_alone(out: Any) -> Any | None:
    """``out`` if nothing but a local variable, passed on once, sees its memory; else None.

    For functions that a program calls with a local variable, and that may write into its array.
    """
    if out.nbytes < LARGE or getrefcount(out) > _alone[2] or not _fits(out, ()):
        return None
    return out


def _fits(out: Any, arrays: tuple[Any, ...]) -> bool:
    flags, owner, dtype, shape = out.flags, out.base, out.dtype, out.shape
    if not (flags.c_contiguous and flags.writeable):
        return False
    if owner is None:
        if not flags.owndata:
            return False
    elif type(owner) is not np.ndarray or getrefcount(owner) > _alone[1] or not _owns(owner):
        return False
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

    The first as seen in `reusing`, for a variable of its caller; the second in `_fits`, for the
    owner of a view; the third in `if_alone`, for an argument of its caller.
    """
    counts = []

    def fits(out: Any) -> None:
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
    fits(x)
    function(x)
    del x
    return counts[0], counts[1], counts[2]


_alone: Final = _count()
