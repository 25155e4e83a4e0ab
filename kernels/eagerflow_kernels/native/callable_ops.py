"""The callable form of native ops, for eager code and generated code.

Elementwise ops are functions of NumPy, so a call is a call of NumPy's. An op along axes is a
generalised function of NumPy, in a Python function that merges several axes in the order of their
numbers: so the result depends on neither strides nor order in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, final

import numpy as np

from eagerflow_kernels.native.control import Control
from eagerflow_kernels.native.draw_loops import draw_loops
from eagerflow_kernels.native.executable_memory import MachineCode
from eagerflow_kernels.native.llvm.joint_call_code import render_joint_call
from eagerflow_kernels.native.llvm.thread_pool_code import FIELDS, SIZE, render_pool
from eagerflow_kernels.native.locks import MAKING
from eagerflow_kernels.native.loop_form import Kind, Loops
from eagerflow_kernels.native.losses import losses_by
from eagerflow_kernels.native.machine_code import Image
from eagerflow_kernels.native.op_rules import (
    OPS,
    PORTABLE,
    SUMS,
    SUMS_AND_NUMBERS,
    NativeOp,
    half_cast_loops,
    loops_of,
    loss_loops,
    name_of,
    sums_and_numbers_loops,
    sums_loops,
)
from eagerflow_kernels.native.processors import TargetName, best_target
from eagerflow_kernels.native.random_draws import draws_by
from eagerflow_kernels.native.segments import segments_by
from eagerflow_kernels.native.shipped_kernels import shipped
from eagerflow_kernels.native.thread_pool import ThreadPool, pool_of
from eagerflow_kernels.native.ufuncs import ufunc_of
from eagerflow_kernels.portable import elementwise
from eagerflow_kernels.portable.reduction import sum_to_axes

Array = np.ndarray[Any, Any]

#: dtypes whose ops have a native callable form
_CALLED: Final[dict[str, Kind]] = {"float32": "f32", "float64": "f64"}

_made: Final[dict[tuple[str, TargetName], np.ufunc]] = {}


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """Machine code that is called as a loop of NumPy's (see `llvm.module`).

    Attributes:
        address: of its first instruction.
        data: the address that it gets besides arrays: of a control, or of the pool.
        kept: the objects that keep both in memory.
    """

    address: int
    data: int
    kept: object


def compiled(
    loops: Loops, target: TargetName | None = None, *, keep: bool = False,
    control: Control | None = None,
) -> np.ufunc:  # fmt: skip
    """Loops as a function of NumPy.

    The arguments are those of `entry_of`.

    Raises:
        NoCompilerError: there is no llvmlite, or no code for this processor.
    """
    entry = entry_of(loops, target, keep=keep, control=control)
    return ufunc_of(loops.signature, entry.address, entry.kept, entry.data)


def entry_of(
    loops: Loops, target: TargetName | None = None, *, keep: bool = False,
    control: Control | None = None,
) -> Entry:  # fmt: skip
    """Loops as machine code.

    Args:
        loops: the loops to compile.
        target: the processor to compile for; by default the best target that this one can run.
        keep: whether the machine code is stored on disk, and loaded from there.
        control: the control by which the kernel is ended and counts its work.

    Raises:
        NoCompilerError: there is no llvmlite, or no code for this processor.
    """
    target = target or best_target()
    # shipped kernels need neither module, so these are imported here
    shown = import_module("eagerflow_kernels.native.loop_text").show(loops) if keep else ""
    if shown and control is not None:
        shown += "controlled"
    module = import_module("eagerflow_kernels.native.llvm.module")

    def render() -> str:
        text: str = module.render(loops, target, controlled=control is not None)
        return text

    code = MachineCode(_image_of(shown, render, target))
    data = pool().address if control is None else control.address
    return Entry(code.address(loops.name), data, (code, control))


def _image_of(source: str, render: Callable[[], str], target: TargetName) -> Image:
    """Machine code, cached on disk under its ``source`` unless that is empty.

    If the code is on disk, no compiler is loaded.
    """
    if source:
        disk = import_module("eagerflow_kernels.native.disk_cache")
        key = disk.key_of(source, target)
        data = disk.shared().load(key)
        if data is not None:
            return Image.unpacked(data)[0]
    compiler = import_module("eagerflow_kernels.native.llvm.compiler")
    image: Image = compiler.machine_code(render(), target)
    if source:
        disk.shared().store(key, image.packed())
    return image


def pool() -> ThreadPool:
    """The pool of threads that share large calls.

    Raises:
        NoCompilerError: as `native_ufunc`.
    """
    return pool_of(_new_pool)


def _new_pool() -> ThreadPool:
    target = best_target()
    package = shipped(target)
    if package is None:
        image = _image_of(render_pool(), render_pool, target)
        return ThreadPool(MachineCode(image), FIELDS, SIZE)
    return ThreadPool(package.code, FIELDS, SIZE)


@cache
def joint_call_code() -> MachineCode:
    """The machine code that makes joint calls (`native.joint_calls`).

    Raises:
        NoCompilerError: as `native_ufunc`.
    """
    package = shipped(best_target())
    if package is not None:
        return package.code
    return MachineCode(_image_of(render_joint_call(), render_joint_call, best_target()))


def native_ufunc(
    name: str, *kinds: Kind, target: TargetName | None = None, **attributes: Any
) -> np.ufunc:
    """The function of NumPy for a single op; it is made once.

    The arguments are the inputs of the op, then the attributes that are numbers.

    Raises:
        KeyError: the op is not native for these kinds.
        NoCompilerError: the kernel was not shipped with the package, and there is no llvmlite; or
            there is no code for this processor.
    """
    called = name_of(name, *kinds, **attributes)
    return _ufunc(called, target or best_target(), lambda: loops_of(name, *kinds, **attributes))


def _part_of_loss(name: str, kind: Kind) -> np.ufunc:
    return _ufunc(name_of(name, kind), best_target(), lambda: loss_loops(name, kind))


def _ufunc(called: str, target: TargetName, loops: Callable[[], Loops]) -> np.ufunc:
    """The function of NumPy of a name, shipped, or compiled from ``loops()``."""
    ufunc = _made.get((called, target))
    if ufunc is None:
        with MAKING:
            ufunc = _made.get((called, target))
            if ufunc is None:
                package = shipped(target)
                code = None if package is None else package.find(called)
                if code is None:
                    ufunc = compiled(loops(), target, keep=True)
                else:
                    ufunc = ufunc_of(*code, pool().address)
                _made[called, target] = ufunc
    return ufunc


#: the callable forms of losses, which are no kernels of regions
LOSSES: Final = losses_by(_part_of_loss)


@cache
def half_cast(name: str) -> np.ufunc:
    """A cast between float16 and float32, of `op_rules.HALF_CASTS`."""
    return _ufunc(f"{name}_f16", best_target(), lambda: half_cast_loops(name))


def _draw(name: str, kind: Kind) -> np.ufunc:
    return _ufunc(f"{name}_{kind}", best_target(), lambda: draw_loops(name, kind))


#: the callable forms of random draws, which are no kernels of regions either
DRAWS: Final = draws_by(_draw)


def _sums(kind: Kind) -> np.ufunc:
    return _ufunc(name_of(SUMS, kind), best_target(), lambda: sums_loops(kind))


def _sums_and_numbers(kind: Kind, of_numbers: Kind) -> np.ufunc:
    name = name_of(f"{SUMS_AND_NUMBERS}_{kind}", of_numbers)
    return _ufunc(name, best_target(), lambda: sums_and_numbers_loops(kind, of_numbers))


#: the callable forms of ops that add rows of the same number
SEGMENTS: Final = segments_by(_sums, _sums_and_numbers)


def is_native_kernel(name: str, kernel: object) -> bool:
    """Whether a kernel is the callable form of an op, for some dtype."""
    op = OPS.get(name)
    if op is None:
        return False
    dtypes = (*_CALLED, "float16")
    return any(kernel is native_kernel(name, (dtype,) * op.inputs) for dtype in dtypes)


@cache
def native_kernel(name: str, dtypes: tuple[str, ...]) -> Callable[..., Any] | None:
    """The callable form of an op, with the arguments of its portable kernel.

    Args:
        name: of the op.
        dtypes: the names of the dtypes of its inputs.

    Returns:
        None if the portable kernel is the callable form: the op is not native for these dtypes, or
        NumPy's function gives the same bits.

    Raises:
        NoCompilerError: there is no llvmlite, or no code for this processor.
    """
    if name in DRAWS:
        return DRAWS[name]
    if name == "cast" and dtypes in _HALF_CASTS:
        return cast_by(half_cast(_HALF_CASTS[dtypes]))
    if name in SEGMENTS:
        return SEGMENTS[name] if any(dtype in _CALLED for dtype in dtypes) else None
    kind = _CALLED.get(dtypes[0]) if dtypes else None
    if kind is None:
        return None
    if name in LOSSES:
        return LOSSES[name]
    op = OPS.get(name)
    if op is None or len(set(dtypes)) != 1 or name in PORTABLE or kind not in op.kinds:
        return None
    if name == "standardize":
        return standardize
    if op.takes or (op.numbers and not op.along_axis):
        return with_attributes(op, kind)
    ufunc = native_ufunc(name, *[kind] * op.inputs)
    if name in _AROUND:
        return _AROUND[name](ufunc)
    if not op.along_axis:
        return ufunc
    return along_axis(ufunc) if op.keeps_axis else along_axes(ufunc, op.needs_elements, op.numbers)


#: the cast that has a kernel for arrays of a dtype
_HALF_CASTS: Final = {("float16",): "widen", ("float32",): "narrow"}


def cast_by(ufunc: np.ufunc) -> Callable[..., Any]:
    """The op ``cast`` for arrays of one dtype, which ``ufunc`` converts to one other dtype."""
    made = np.dtype(ufunc.types[0][-1])

    def cast(x: Array, *, dtype: Any) -> Any:
        if dtype.dtype == made:
            return np.asarray(ufunc(x))
        return elementwise.cast(np, x, dtype=dtype)

    return cast


def with_attributes(op: NativeOp, kind: Kind) -> Callable[..., Any]:
    """An elementwise op that takes attributes: a function of NumPy for each of their values."""
    made: dict[tuple[Any, ...], np.ufunc] = {}  # to make the name takes longer than a small call
    takes = tuple(op.takes)

    def function(x: Array, **attributes: Any) -> Any:
        values = tuple([attributes[name] for name in takes])
        ufunc = made.get(values)
        if ufunc is None:
            chosen = dict(zip(takes, values, strict=True))
            ufunc = made[values] = native_ufunc(op.name, kind, **chosen)
        return ufunc(x, *[x.dtype.type(attributes[name]) for name in op.numbers])

    return function


def power(ufunc: np.ufunc) -> Callable[..., Any]:
    """The op ``pow``; squares, which are common, are products, which have the same bits."""
    square = native_ufunc("square", "f32")

    def function(x: Any, y: Any) -> Any:
        if np.ndim(y) == 0 and y == 2 and isinstance(x, (np.ndarray, np.generic)):
            return square(x)
        return ufunc(x, y)

    return function


def standardize(x: Array, *, axis: tuple[int, ...], eps: float, least: int) -> Any:
    """The values scaled to mean 0 and variance 1 along axes, and their mean and variance."""
    count = math.prod(x.shape[a] for a in axis)
    if count < least and x.size:
        raise ValueError(f"too few values for each mean and variance: {count}")
    ufunc = native_ufunc("standardize", _CALLED[x.dtype.name])
    rows = rows_of(x, axis)
    out, mean, var = ufunc(rows, x.dtype.type(eps))
    kept = [i for i in range(x.ndim) if i not in axis]
    order = [*kept, *sorted(axis)]
    back = [order.index(i) for i in range(x.ndim)]
    out = out.reshape([x.shape[i] for i in order]).transpose(back)
    shape = [1 if i in axis else n for i, n in enumerate(x.shape)]
    return np.ascontiguousarray(out), np.reshape(mean, shape), np.reshape(var, shape)


def along_axes(
    ufunc: np.ufunc, needs_elements: bool = False, numbers: Sequence[str] = ()
) -> Callable[..., Any]:
    """A reduction over any axes: ``f(x, *, axis, keepdims)`` with a tuple of axes.

    Args:
        ufunc: reduces the last axis.
        needs_elements: whether a reduction of no elements is an error.
        numbers: further attributes, which ``ufunc`` takes after the array.
    """

    def reduction(x: Array, *, axis: tuple[int, ...], keepdims: bool, **attributes: Any) -> Any:
        if needs_elements and x.size == 0 and any(x.shape[i] == 0 for i in axis):
            raise ValueError("zero-size array to a reduction which has no identity")
        if len(axis) == 1 and not numbers:
            out = ufunc(x, axis=axis[0])
        else:
            out = ufunc(rows_of(x, axis), *[x.dtype.type(attributes[name]) for name in numbers])
        if keepdims:  # NumPy's own `keepdims` gives axes of size 1 strides that no other op gives
            out = np.asarray(out).reshape([1 if i in axis else d for i, d in enumerate(x.shape)])
        return out

    return reduction


def rows_of(x: Array, axis: tuple[int, ...]) -> Array:
    """An array with axes merged into one last axis, in the order of their numbers; may copy."""
    if len(axis) == x.ndim:  # the usual case
        return x.reshape(-1)
    kept = [i for i in range(x.ndim) if i not in axis]
    length = math.prod(x.shape[i] for i in axis)
    shape = [x.shape[i] for i in kept]
    return x.transpose(*kept, *sorted(axis)).reshape(*shape, length)


def along_axis(ufunc: np.ufunc) -> Callable[..., Any]:
    """An op that keeps its axis: ``f(x, *, axis)``; the result has the memory order of ``x``."""

    def function(x: Array, *, axis: int) -> Any:
        return ufunc(x, axis=axis, out=np.empty_like(x))

    return function


def sum_to(ufunc: np.ufunc) -> Callable[..., Any]:
    """Sums over the axes along which an array of another shape is repeated."""
    total = along_axes(ufunc)

    def function(x: Array, *, shape: tuple[int, ...]) -> Any:
        axis = sum_to_axes(x, shape)
        return total(x, axis=axis, keepdims=False).reshape(shape) if axis else x.view()

    return function


#: wrappers of the functions of NumPy of some ops
_AROUND: Final = {"pow": power, "sum_to": sum_to}
