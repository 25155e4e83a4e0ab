"""The callable form of native ops: what eager code and generated code call.

Elementwise ops are functions of NumPy, so a call is a call of NumPy's. What runs along an axis is a
generalised function of NumPy in a function of ours, which brings several axes together in the order
of their numbers: so the result depends on neither strides nor order in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eagerflow_kernels.native.compiler import MachineCode, best_target
from eagerflow_kernels.native.form import Kind, Loops
from eagerflow_kernels.native.library import loops_of
from eagerflow_kernels.native.llvm.module import TargetName, render
from eagerflow_kernels.native.ufuncs import ufunc_of

Array = np.ndarray[Any, Any]

_lock: Final = threading.Lock()
_made: Final[dict[tuple[Loops, TargetName], np.ufunc]] = {}


def compiled(loops: Loops, target: TargetName | None = None) -> np.ufunc:
    """Loops as a function of NumPy.

    Args:
        loops: what to compile.
        target: for which processor; the best that this one can run by default.

    Raises:
        NoCompiler: there is no llvmlite, or no code for this processor.
    """
    target = target or best_target()
    code = MachineCode(render(loops, target), target)
    return ufunc_of(loops, code.address(loops.name), code)


def native_ufunc(name: str, *kinds: Kind, target: TargetName | None = None, **attributes: Any) -> np.ufunc:
    """The function of NumPy for an op alone; it is made once.

    Raises:
        KeyError: the op is not native for these kinds.
        NoCompiler: there is no llvmlite, or no code for this processor.
    """
    loops = loops_of(name, *kinds, **attributes)
    key = (loops, target or best_target())
    with _lock:
        found = _made.get(key)
        if found is None:
            found = _made[key] = compiled(*key)
    return found


def along_axes(ufunc: np.ufunc) -> Callable[..., Any]:
    """A reduction over any axes: ``f(x, *, axis, keepdims)`` with a tuple of axes."""

    def reduction(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Any:
        if len(axis) == 1:
            return ufunc(x, axis=axis[0], keepdims=keepdims)
        out = ufunc(rows_of(x, axis))
        if keepdims:
            out = np.asarray(out).reshape([1 if i in axis else d for i, d in enumerate(x.shape)])
        return out

    return reduction


def rows_of(x: Array, axis: tuple[int, ...]) -> Array:
    """The axes as one last one, in the order of their numbers; a copy if it must be."""
    kept = [i for i in range(x.ndim) if i not in axis]
    shape = [x.shape[i] for i in kept]
    length = 1
    for i in axis:
        length *= x.shape[i]
    return x.transpose(*kept, *sorted(axis)).reshape(*shape, length)


def along_axis(ufunc: np.ufunc) -> Callable[..., Any]:
    """What keeps its axis: ``f(x, *, axis)``."""

    def function(x: Array, *, axis: int) -> Any:
        return ufunc(x, axis=axis)

    return function
