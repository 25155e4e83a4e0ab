"""Ops that reverse, shift and repeat elements."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Final

from eagerflow.core.op import Op, bind, define, functions
from eagerflow.core.op_records.batch_rules import ROWS, SIZES, BatchSite, shifted
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import may_equal
from eagerflow.errors import AxisError, DTypeError, ShapeError, TensorValueError, VmapError, strip
from eagerflow.hardware import home_of
from eagerflow.ops.creation.ranges import arange
from eagerflow.ops.rules.arguments import as_index, as_shape, axes_of, axis_of
from eagerflow.ops.rules.extents import is_symbolic, unknown_size, with_size
from eagerflow.ops.rules.promotion import operands
from eagerflow.ops.shape.reshape_and_transpose import (
    broadcast_to,
    moveaxis,
    ravel,
    reshape,
    swapaxes,
)
from eagerflow.types import TensorType

__all__ = ["flip", "repeat", "roll", "rot90", "tile"]

# --- reversing and shifting -----------------------------------------------------------------


@of_family(MOVING)
def _same_type(x: TensorType, **attrs: object) -> TensorType:
    return x


_flip = define(
    "flip",
    infer=_same_type,
    vjp=(lambda g, out, x, *, axis: flip(g, axis=axis),),
    cost=FREE,
    storage="view",
    fails_on="nothing",
    batch=shifted("axis"),
)


def flip(x: TensorLike, /, axis: int | Sequence[int] | None = None) -> Tensor:
    """The elements in reverse order along axes.

    Args:
        x: any dtype.
        axis: the axis or axes; all by default.

    Raises:
        AxisError: an axis is out of range.

    >>> ef.flip(ef.tensor([1, 2, 3]))
    Tensor([3, 2, 1], i64[3]@cpu:0)
    """
    tensor = tensor_of(x)
    return bind(_flip, tensor, axis=axes_of("flip", tensor, axis))


def _roll_vjp(
    g: Tensor, out: Tensor, x: Tensor, *, shift: tuple[int, ...], axis: tuple[int, ...]
) -> Tensor:
    return roll(g, tuple(-s for s in shift), axis=axis)


_roll = define(
    "roll",
    infer=_same_type,
    vjp=(_roll_vjp,),
    storage="fresh",
    fails_on="nothing",
    batch=shifted("axis"),
)


def roll(
    x: TensorLike, /, shift: TensorLike | Sequence[TensorLike],
    axis: int | Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """The elements shifted cyclically along axes.

    Args:
        x: any dtype.
        shift: number of positions, for all axes or for each axis. Integers, or integer tensors,
            which may be random draws, or differ between the rows of `vmap`.
        axis: the axis or axes; by default the array is flattened, shifted and reshaped back.

    Raises:
        ShapeError: shifts and axes differ in number.
        AxisError: an axis is out of range.
        DTypeError: a tensor of shifts has no integer dtype.

    >>> ef.roll(ef.tensor([1, 2, 3]), 1)
    Tensor([3, 1, 2], i64[3]@cpu:0)
    >>> ef.roll(ef.tensor([[1, 2], [3, 4]]), ef.tensor([1, 0]), axis=(0, 1))
    Tensor([[3, 4],
            [1, 2]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    if axis is None:
        return reshape(roll(ravel(tensor), shift, axis=0), tensor.shape)
    axes = axes_of("roll", tensor, axis)
    each = _shifts(tensor, shift, len(axes))
    if len(each) != len(axes):
        raise ShapeError(
            "roll: shifts and axes differ in number", given=f"shift={shift}, axis={axis}"
        )
    if not any(isinstance(s, Tensor) for s in each):
        return bind(_roll, tensor, shift=each, axis=axes)
    for one, along in zip(each, axes, strict=True):
        if isinstance(one, Tensor):
            size = tensor.shape[along]
            sources = (arange(size, device=home_of(tensor.device)) - one) % size
            tensor = functions["take"](tensor, sources, axis=along)
        else:
            tensor = bind(_roll, tensor, shift=(one,), axis=(along,))
    return tensor


def _shifts(x: Tensor, shift: Any, count: int) -> tuple[Any, ...]:
    """A shift for each axis: an integer, or a tensor with one integer."""
    if isinstance(shift, (list, tuple)):
        return tuple(s for each in shift for s in _shifts(x, each, 1))
    if not isinstance(shift, AbstractArray) and not getattr(shift, "ndim", 0):  # of NumPy
        return (as_index("roll", "shift", shift),) * count
    shifts = operands(x, shift)[1]
    if not shifts.dtype.is_integer:
        raise DTypeError("roll: the shifts must be integers", given=str(shifts.type))
    if shifts.ndim > 1:
        raise ShapeError("roll: the shifts have more than one axis", given=str(shifts.type))
    shifts = functions["astype"](shifts, "int64")
    return tuple(functions["unstack"](shifts)) if shifts.ndim else (shifts,) * count


def rot90(x: TensorLike, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """``x`` rotated by right angles in the plane of two axes.

    Args:
        x: at least two axes, any dtype.
        k: number of right angles, from the first towards the second axis.
        axes: the two axes.

    Raises:
        AxisError: ``axes`` are not two different axes.

    >>> ef.rot90(ef.tensor([[1, 2], [3, 4]]))
    Tensor([[2, 4],
            [1, 3]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    plane = axes_of("rot90", tensor, tuple(axes))
    if len(plane) != 2:
        raise AxisError("rot90: needs two axes", given=f"axes={tuple(axes)}")
    rotations = as_index("rot90", "k", k) % 4
    if rotations == 2:
        return flip(tensor, axis=plane)
    if rotations == 1:
        return swapaxes(flip(tensor, axis=plane[1]), *plane)
    return flip(swapaxes(tensor, *plane), axis=plane[1]) if rotations == 3 else tensor


# --- repeating ------------------------------------------------------------------------------


@of_family(MOVING)
def _repeat_type(x: TensorType, *, repeats: int, axis: int) -> TensorType:
    return x.like(shape=with_size(x.shape, axis, x.shape[axis] * repeats))


def _repeat_vjp(g: Tensor, out: Tensor, x: Tensor, *, repeats: int, axis: int) -> Tensor:
    apart = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
    return functions["sum"](reshape(g, apart), axis=axis + 1)


_repeat = define(
    "repeat",
    infer=_repeat_type,
    vjp=(_repeat_vjp,),
    storage="fresh",
    fails_on="sizes",
    batch=shifted("axis"),
)


def _repeat_each_type(x: TensorType, repeats: TensorType, *, axis: int) -> TensorType:
    if not repeats.dtype.is_integer:
        raise DTypeError("the numbers must be integers")
    size, count = x.shape[axis], repeats.shape[0]
    if repeats.ndim != 1 or not (may_equal(count, size) or may_equal(count, 1)):
        raise ShapeError("there must be a number for each position on the axis, or one for all")
    total = unknown_size("the size of the result depends on the data", "repeats")
    return x.like(shape=with_size(x.shape, axis, total))


def _repeat_each_vjp(g: Tensor, out: Tensor, x: Tensor, repeats: Tensor, *, axis: int) -> Tensor:
    size = x.shape[axis]
    sources = bind(_repeat_each, arange(size, device=g.device), repeats, axis=0)
    sums = functions["segment_sum"](moveaxis(g, axis, 0), sources, size)
    return moveaxis(sums, 0, axis)


def _batched_repeat(at: BatchSite) -> Tensor:
    if at.batched[1]:
        raise VmapError(f"repeat: {SIZES}", hint=ROWS)
    result: Tensor = at.bind(*at.inputs, axis=at.attrs["axis"] + 1)
    return result


_repeat_each: Final[Op] = define(
    "repeat_each",
    infer=_repeat_each_type,
    vjp=(_repeat_each_vjp, None),
    jvp=lambda t, out, x, repeats, *, axis: bind(_repeat_each, t[0], repeats, axis=axis),
    saved="inputs",
    host_inputs=(1,),
    precision="exact",
    takes_bytes=True,
    batch=_batched_repeat,
)


def repeat(x: TensorLike, /, repeats: TensorLike, axis: int | None = None) -> Tensor:
    """Repeat each element.

    Args:
        x: any dtype.
        repeats: number of repetitions: an int, or an integer array with a number for each position
            on the axis. With an array, the size of the result depends on its values.
        axis: the axis; by default the array is flattened first.

    Raises:
        ShapeError: ``repeats`` does not have a number for each position.
        TensorValueError: a number is negative.
        DTypeError: ``repeats`` has no integer dtype.

    >>> ef.repeat(ef.tensor([1, 2]), 2)
    Tensor([1, 1, 2, 2], i64[4]@cpu:0)
    >>> ef.repeat(ef.tensor([1, 2]), ef.tensor([1, 3]))
    Tensor([1, 2, 2, 2], i64[4]@cpu:0)
    """
    count = _one_number(repeats)
    tensor = operands(x, repeats)[0] if count is None else tensor_of(x)
    if axis is None:
        tensor, axis = ravel(tensor), 0
    axis = axis_of("repeat", tensor, axis)
    if count is not None:
        if type(count) is int and count < 0:
            raise TensorValueError("repeat: a negative number", given=f"repeats={count}")
        return bind(_repeat, tensor, repeats=count, axis=axis)
    tensor, numbers = operands(tensor, repeats)
    if not numbers.dtype.is_integer:
        raise DTypeError("repeat: the numbers must be integers", given=str(numbers.type))
    if numbers.ndim > 1:
        raise ShapeError("repeat: the numbers have more than one axis", given=str(numbers.type))
    try:
        return bind(_repeat_each, tensor, reshape(numbers, (-1,)), axis=axis)
    except (ShapeError, TensorValueError) as error:
        error.reword(f"repeat: {error.wrong.removeprefix('repeat_each: ')}")
        raise strip(error) from None


def _one_number(repeats: TensorLike) -> int | None:
    """``repeats`` if it is an integer, a size or a traced number; None for arrays."""
    if type(repeats) is int:
        return repeats
    if isinstance(repeats, bool):
        return None
    if is_symbolic(repeats) or isinstance(repeats, Integral):
        return as_index("repeat", "repeats", repeats)
    return None


def tile(x: TensorLike, repetitions: int | Sequence[int], /) -> Tensor:
    """Tile an array with copies of ``x``.

    Args:
        x: any dtype.
        repetitions: number of copies along each axis; fewer numbers apply to the last axes, more
            numbers add axes at the front.

    Raises:
        ShapeError: a number is negative.

    >>> ef.tile(ef.tensor([1, 2]), (2, 2))
    Tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]], i64[2,4]@cpu:0)
    """
    tensor = tensor_of(x)
    counts = as_shape("tile", repetitions)
    counts = (1,) * (tensor.ndim - len(counts)) + counts
    sizes = (1,) * (len(counts) - tensor.ndim) + tensor.shape
    apart: list[Any] = []
    repeated: list[Any] = []
    for count, size in zip(counts, sizes, strict=True):
        if type(count) is not int or count != 1:
            apart.append(1)
            repeated.append(count)
        apart.append(size)
        repeated.append(size)
    result = broadcast_to(reshape(tensor, tuple(apart)), tuple(repeated))
    return reshape(result, tuple(c * s for c, s in zip(counts, sizes, strict=True)))
