"""Results written into arrays that nobody needs any more."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from sys import getrefcount
from typing import Any, Final

import numpy as np

from eagerflow.types import TensorType

__all__ = ["pays", "reusing"]

#: bytes of an array from which on it costs more to get new memory than to look for old
LIMIT: Final = 1 << 16


def pays(kernel: Callable[..., Any], kind: TensorType) -> bool:
    """Whether a kernel can write into an array that may be large enough to be worth it."""
    if type(kernel) is not np.ufunc or kernel.nout != 1:
        return False
    sizes = [size for size in kind.shape if type(size) is int]
    return len(sizes) < len(kind.shape) or prod(sizes) * kind.dtype.itemsize >= LIMIT


def reusing(kernel: Callable[..., Any], place: int) -> Callable[..., Any]:
    """``kernel`` writing its result into its input number ``place``, if that is right.

    It is where nothing else can see that memory, and the result would have that layout anyway.
    """

    def run(*arrays: Any) -> Any:
        out = arrays[place]
        if out.nbytes < LIMIT or getrefcount(out) > _alone[0] or not _fits(out, arrays):
            return kernel(*arrays)
        return kernel(*arrays, out=out)

    return run


def _fits(out: Any, arrays: tuple[Any, ...]) -> bool:
    flags = out.flags
    if not (flags.owndata and flags.writeable):
        return False
    return all(
        x.flags.c_contiguous and x.dtype is out.dtype for x in arrays
    ) and out.shape == np.broadcast_shapes(*[x.shape for x in arrays])


def _count() -> int:
    """What `reusing` counts for an array that a local variable of its caller holds alone."""
    found = []

    def run(*arrays: Any) -> Any:
        out = arrays[0]
        found.append(getrefcount(out))

    x = np.empty(1)
    run(x)
    del x
    return found[0]


_alone: Final = [_count()]
