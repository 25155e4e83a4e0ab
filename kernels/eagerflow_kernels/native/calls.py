"""The callable form of native ops: what eager code and generated code call.

Elementwise ops are functions of NumPy, so a call is a call of NumPy's. What runs along an axis is a
generalised function of NumPy in a function of ours, which brings several axes together in the order
of their numbers: so the result depends on neither strides nor order in memory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eagerflow_kernels.native.compiler import MachineCode, best_target
from eagerflow_kernels.native.form import Kind, Loops
from eagerflow_kernels.native.library import OPS, loops_of
from eagerflow_kernels.native.llvm.module import TargetName, render
from eagerflow_kernels.native.ufuncs import ufunc_of

Array = np.ndarray[Any, Any]

#: dtypes whose ops have a callable form of ours
_CALLED: Final[dict[str, Kind]] = {"float32": "f32", "float64": "f64"}
#: ops that only choose among bits, and casts, which NumPy's `astype` does
_PORTABLE: Final = frozenset({"where", "cast", "logical_and", "logical_or", "logical_not"})

_lock: Final = threading.Lock()
_made: Final[dict[tuple[Loops, TargetName], np.ufunc]] = {}


def compiled(loops: Loops, target: TargetName | None = None) -> np.ufunc:
    """Loops as a function of NumPy.

    Args:
        loops: what to compile.
        target: for which processor; the best that this one can run by default.

    Raises:
        NoCompilerError: there is no llvmlite, or no code for this processor.
    """
    target = target or best_target()
    code = MachineCode(render(loops, target), target)
    return ufunc_of(loops, code.address(loops.name), code)


def native_ufunc(
    name: str, *kinds: Kind, target: TargetName | None = None, **attributes: Any
) -> np.ufunc:
    """The function of NumPy for an op alone; it is made once.

    Raises:
        KeyError: the op is not native for these kinds.
        NoCompilerError: there is no llvmlite, or no code for this processor.
    """
    loops = loops_of(name, *kinds, **attributes)
    key = (loops, target or best_target())
    with _lock:
        found = _made.get(key)
        if found is None:
            found = _made[key] = compiled(*key)
    return found


def is_ufunc_of(name: str, kernel: object) -> bool:
    """Whether a kernel is the callable form of an elementwise op, for some dtype."""
    with _lock:
        names = [loops.name for (loops, _), ufunc in _made.items() if ufunc is kernel]
    return any(found.rpartition("_")[0] == name for found in names)


def native_kernel(name: str, dtypes: tuple[str, ...]) -> Callable[..., Any] | None:
    """The callable form of an op, with the arguments of its portable kernel.

    Args:
        name: of the op.
        dtypes: the names of the dtypes of its inputs.

    Returns:
        None if the portable kernel is its callable form: it is not native for these dtypes, or what
        NumPy has gives the same bits.

    Raises:
        NoCompilerError: there is no llvmlite, or no code for this processor.
    """
    op = OPS.get(name)
    kind = _CALLED.get(dtypes[0]) if dtypes and len(set(dtypes)) == 1 else None
    if op is None or kind is None or name in _PORTABLE:
        return None
    ufunc = native_ufunc(name, *[kind] * op.inputs)
    if not op.along_axis:
        return ufunc
    return (
        along_axis(ufunc) if op.keeps_axis else along_axes(ufunc, needs_elements=op.needs_elements)
    )


def along_axes(ufunc: np.ufunc, needs_elements: bool = False) -> Callable[..., Any]:
    """A reduction over any axes: ``f(x, *, axis, keepdims)`` with a tuple of axes.

    Args:
        ufunc: reduces the last axis.
        needs_elements: whether there is no reduction of no elements.
    """

    def reduction(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Any:
        if needs_elements and x.size == 0 and any(x.shape[i] == 0 for i in axis):
            raise ValueError("zero-size array to a reduction which has no identity")
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
    length = math.prod(x.shape[i] for i in axis)
    shape = [x.shape[i] for i in kept]
    return x.transpose(*kept, *sorted(axis)).reshape(*shape, length)


def along_axis(ufunc: np.ufunc) -> Callable[..., Any]:
    """What keeps its axis: ``f(x, *, axis)``; the result lies in memory as ``x`` does."""

    def function(x: Array, *, axis: int) -> Any:
        return ufunc(x, axis=axis, out=np.empty_like(x))

    return function
