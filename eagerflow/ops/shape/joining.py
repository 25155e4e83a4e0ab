"""Joining of arrays along an axis, and splitting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import index
from typing import Any

from eagerflow.core.op import bind, bind_several, define, joint
from eagerflow.core.op_records.batch_rules import shifted
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.op_records.op_facts import MOVING, InlineSite, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import Dim, exact_quotient, may_equal
from eagerflow.errors import ShapeError
from eagerflow.ops.creation.arrays import zeros_like
from eagerflow.ops.rules.arguments import as_index, axis_of, sequence_of
from eagerflow.ops.rules.extents import (
    is_symbolic,
    joined_shape,
    position_within,
    with_size,
)
from eagerflow.ops.rules.promotion import promote
from eagerflow.ops.shape.reshape_and_transpose import atleast_1d, atleast_2d, reshape
from eagerflow.types import Shape, TensorType, may_be_same_shape

__all__ = [
    "array_split",
    "concat",
    "hstack",
    "split",
    "stack",
    "unstack",
    "vstack",
]


def _together(name: str, arrays: Any) -> tuple[Tensor, ...]:
    """The arrays as tensors of one dtype; returns at once if they are."""
    sequence: Sequence[Any] = sequence_of(name, arrays)
    first = sequence[0]
    if type(first) is Tensor:
        lane = first._lane
        for x in sequence:
            if type(x) is not Tensor or x._lane is not lane:
                break
        else:
            return tuple(sequence)
    return promote(*sequence)


# --- concat and split -----------------------------------------------------------------------


def _joined(types: tuple[TensorType, ...], axis: int | None) -> Shape:
    """The common shape of the types, except along ``axis``."""
    shapes = [t.shape if axis is None else with_size(t.shape, axis, 0) for t in types]
    if not all(may_be_same_shape(shapes[0], shape) for shape in shapes[1:]):
        expected = "one shape" if axis is None else f"one shape but for axis {axis}"
        raise ShapeError("the shapes differ", expected=expected)
    return joined_shape(shapes)


@of_family(MOVING)
def _concat_type(*types: TensorType, axis: int) -> TensorType:
    first = types[0]
    if first.ndim == 0:
        raise ShapeError("an array with no axes cannot be joined", expected="at least one axis")
    shape = _joined(types, axis)
    total = first.shape[axis]
    for other in types[1:]:
        total = total + other.shape[axis]
    return first.like(shape=with_size(shape, axis, total))


def _concat_vjp(g: Tensor, out: Tensor, *inputs: Tensor, axis: int) -> tuple[Tensor, ...]:
    return bind_several(_split, g, sizes=tuple(x.shape[axis] for x in inputs), axis=axis)


_concat = define(
    "concat",
    infer=_concat_type,
    vjp=joint(_concat_vjp),
    storage="fresh",
    order="joined",
    fails_on="sizes",
    batch=shifted("axis"),
)


def concat(arrays: Sequence[TensorLike], /, axis: int | None = 0) -> Tensor:
    """Join arrays along an existing axis.

    Args:
        arrays: arrays of equal shapes except along this axis; they promote to one dtype.
        axis: the axis; None joins the flattened arrays.

    Raises:
        ShapeError: the shapes do not fit, or there is no array.

    >>> ef.concat([ef.tensor([1, 2]), ef.tensor([3])])
    Tensor([1, 2, 3], i64[3]@cpu:0)
    """
    tensors = _together("concat", arrays)
    if axis is None:
        tensors = tuple(reshape(x, (-1,)) for x in tensors)
        axis = 0
    axis = (
        axis_of("concat", tensors[0], axis) if tensors[0].ndim else as_index("concat", "axis", axis)
    )
    return bind(_concat, *tensors, axis=axis)


@of_family(MOVING)
def _split_type(x: TensorType, *, sizes: Shape, axis: int) -> tuple[TensorType, ...]:
    if any(type(size) is int and size < 0 for size in sizes):
        raise ShapeError("the indices must not decrease")
    if not may_equal(sum(sizes), x.shape[axis]):
        raise ShapeError(
            f"{len(sizes)} sections do not divide axis {axis} evenly",
            hint="ef.array_split makes parts of unequal sizes",
        )
    return tuple(x.like(shape=with_size(x.shape, axis, size)) for size in sizes)


def _given(gs: tuple[Tensor | None, ...] | Tensor, outs: Any) -> list[Tensor]:
    """The cotangents, with zeros where none has arrived."""
    if not isinstance(gs, tuple):  # tapes pass the cotangent of a single output without a tuple
        return [gs]
    device = next(g.device for g in gs if g is not None)
    return [
        zeros_like(out, device=device) if g is None else g for g, out in zip(gs, outs, strict=True)
    ]


def _cuts(name: str, x: Tensor, where: Any, axis: int, *, even: bool) -> Shape:
    """The sizes of the parts of an axis, from a number of sections or from indices to cut at."""
    size = x.shape[axis]
    alone = isinstance(where, (int, Dim)) or not getattr(where, "ndim", False)
    if isinstance(where, (list, tuple, range)) or not alone:
        positions = [as_index(name, "index", i) for i in where]
        ends = [0, *(position_within(i, size) for i in positions), size]
        sizes = tuple(b - a for a, b in pairwise(ends))
        if any(type(s) is int and s < 0 for s in sizes):
            raise ShapeError(f"{name}: the indices must not decrease", given=f"indices={positions}")
        return sizes
    count = index(as_index(name, "sections", where))
    if count < 1:
        raise ShapeError(f"{name}: needs at least one section", given=f"sections={count}")
    if even and not may_equal(size % count, 0):
        raise ShapeError(
            f"{name}: {count} sections do not divide axis {axis} evenly",
            given=str(x.type),
            hint="ef.array_split makes parts of unequal sizes",
        )
    if not is_symbolic(size):
        small, more = divmod(size, count)
        return (small + 1,) * more + (small,) * (count - more)
    if even:
        part: Any = exact_quotient(size, count)
        return (part,) * count
    return tuple((size + (count - 1 - i)) // count for i in range(count))


def _inline_split(at: InlineSite) -> tuple[str, str] | None:
    """Slices, if all sizes are known, so that they fit: a call takes five times as long."""
    sizes, axis = at.attrs["sizes"], at.attrs["axis"]
    if not at.outputs or not all(type(n) is int for n in (*sizes, at.types[0].shape[axis])):
        return None
    ends = accumulate(sizes)
    slices = [f"{end - size}:{end}" for end, size in zip(ends, sizes, strict=True)]
    return ", ".join([f"{at.operands[0]}[{':, ' * axis}{part}]" for part in slices]), ""


_split = define(
    "split",
    infer=_split_type,
    vjp=(lambda gs, outs, x, *, sizes, axis: concat(_given(gs, outs), axis=axis),),
    cost=FREE,
    storage="view",
    parts=True,
    outputs=None,
    inline=_inline_split,
    batch=shifted("axis"),
)


def split(
    x: TensorLike, indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> list[Tensor]:
    """Split ``x`` into parts along an axis.

    Args:
        x: at least one axis, any dtype.
        indices_or_sections: the number of parts, of equal size; or the positions to cut at.
        axis: the axis.

    Raises:
        ShapeError: the number of parts does not divide the size.

    >>> ef.split(ef.arange(6), [1, 3])
    [Tensor([0], i64[1]@cpu:0), Tensor([1, 2], i64[2]@cpu:0), Tensor([3, 4, 5], i64[3]@cpu:0)]
    """
    tensor = tensor_of(x)
    axis = axis_of("split", tensor, axis)
    sizes = _cuts("split", tensor, indices_or_sections, axis, even=True)
    return list(bind(_split, tensor, sizes=sizes, axis=axis))


def array_split(
    x: TensorLike, indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> list[Tensor]:
    """Split ``x`` into parts along an axis, the first of which may be larger by one.

    Args:
        x: at least one axis, any dtype.
        indices_or_sections: the number of parts; or the positions to cut at.
        axis: the axis.

    >>> [part.shape for part in ef.array_split(ef.arange(5), 2)]
    [(3,), (2,)]
    """
    tensor = tensor_of(x)
    axis = axis_of("array_split", tensor, axis)
    sizes = _cuts("array_split", tensor, indices_or_sections, axis, even=False)
    return list(bind(_split, tensor, sizes=sizes, axis=axis))


# --- stack and unstack ----------------------------------------------------------------------


@of_family(MOVING)
def _stack_type(*types: TensorType, axis: int) -> TensorType:
    shape = _joined(types, None)
    return types[0].like(shape=(*shape[:axis], len(types), *shape[axis:]))


_stack = define(
    "stack",
    infer=_stack_type,
    vjp=joint(lambda g, out, *inputs, axis: unstack(g, axis=axis)),
    storage="fresh",
    fails_on="sizes",
    batch=shifted("axis"),
)


def stack(arrays: Sequence[TensorLike], /, axis: int = 0) -> Tensor:
    """Join arrays along a new axis.

    Args:
        arrays: arrays of one shape; they promote to one dtype.
        axis: position of the new axis in the result.

    Raises:
        ShapeError: the shapes differ, or there is no array.

    >>> ef.stack([ef.tensor([1, 2]), ef.tensor([3, 4])], axis=1)
    Tensor([[1, 3],
            [2, 4]], i64[2,2]@cpu:0)
    """
    tensors = _together("stack", arrays)
    return bind(_stack, *tensors, axis=axis_of("stack", tensors[0], axis, extra=1))


@of_family(MOVING)
def _unstack_type(x: TensorType, *, axis: int) -> tuple[TensorType, ...]:
    one = x.like(shape=(*x.shape[:axis], *x.shape[axis + 1 :]))
    return (one,) * index(x.shape[axis])  # the number of outputs is part of the graph


def _inline(at: InlineSite) -> tuple[str, str] | None:
    if at.attrs["axis"] != 0 or not at.outputs:
        return None
    return ", ".join([f"{at.operands[0]}[{i}, ...]" for i in range(at.outputs)]), ""


_unstack = define(
    "unstack",
    infer=_unstack_type,
    vjp=(lambda gs, outs, x, *, axis: stack(_given(gs, outs), axis=axis),),
    cost=FREE,
    storage="view",
    outputs=None,
    array_scalars=True,
    inline=_inline,
    batch=shifted("axis"),
)


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of ``x`` along an axis: the inverse of `stack`.

    Args:
        x: at least one axis, any dtype.
        axis: the axis.

    >>> ef.unstack(ef.tensor([[1, 2], [3, 4]]))[1]
    Tensor([3, 4], i64[2]@cpu:0)
    """
    tensor = tensor_of(x)
    return bind_several(_unstack, tensor, axis=axis_of("unstack", tensor, axis))


def hstack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Join arrays side by side: along the second axis, vectors along their only axis.

    Args:
        arrays: arrays of equal shapes except along this axis; they promote to one dtype.

    >>> ef.hstack([ef.tensor([1, 2]), ef.tensor([3])])
    Tensor([1, 2, 3], i64[3]@cpu:0)
    """
    tensors = [atleast_1d(x) for x in sequence_of("hstack", arrays)]
    return concat(tensors, axis=0 if tensors[0].ndim == 1 else 1)


def vstack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Join arrays one above the other: along the first axis, vectors as rows.

    Args:
        arrays: arrays of equal shapes except along this axis; they promote to one dtype.

    >>> ef.vstack([ef.tensor([1, 2]), ef.tensor([3, 4])])
    Tensor([[1, 2],
            [3, 4]], i64[2,2]@cpu:0)
    """
    return concat([atleast_2d(x) for x in sequence_of("vstack", arrays)], axis=0)
