"""Ops that change the shape or the order of axes, without moving elements.

Joining and splitting: `joining`; reversing and repeating: `flip_roll_repeat`; padding: `padding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow.core.interpreter import stack
from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import BatchSite, shifted, with_rows
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.op_records.op_facts import MOVING, VIEW, InlineSite, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import exact_quotient, maximum, may_equal, same
from eagerflow.errors import AxisError, ShapeError, strip
from eagerflow.ops.rules.arguments import as_shape, axes_of, axis_of, matrices_of
from eagerflow.ops.rules.extents import check_not_negative, is_symbolic
from eagerflow.ops.rules.gradients import sum_to_like
from eagerflow.ops.rules.type_rules import repeats_to
from eagerflow.types import Shape, TensorType, same_shape
from eagerflow.types import broadcast_shapes as joint_shape

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand_dims",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
]

# --- reshape --------------------------------------------------------------------------------


@of_family(MOVING)
def _reshape_type(
    x: TensorType, *, shape: Shape, copy: bool | None = None, closed: bool = False
) -> TensorType:
    if closed:
        check_not_negative(*shape)
    known, unknown = 1, 0
    for size in shape:
        if _is_open(size):
            unknown += 1
        else:
            known = known * size
    if unknown:
        if unknown > 1:
            raise ShapeError("only one size can be -1", expected="at most one -1")
        if same(known, 0) or not may_equal(x.size % known, 0):
            raise ShapeError(
                f"{x.size} elements do not fill the shape {shape}",
                expected=f"a number of elements that {known} divides",
            )
        rest: Any = exact_quotient(x.size, known)
        shape = tuple(rest if _is_open(size) else size for size in shape)
    elif not may_equal(known, x.size):
        raise ShapeError(
            f"{x.size} elements do not fill the shape {shape}", expected=f"{known} elements"
        )
    return x.like(shape=shape)


def _may_be_negative(size: int) -> bool:
    return is_symbolic(size) and not same(maximum(size, 0), size)


def _is_open(size: int) -> bool:
    """Whether a size is -1, to be computed from the others."""
    return type(size) is int and size == -1


def _batched_reshape(at: BatchSite) -> Tensor:
    shape = at.attrs["shape"]
    if any(map(_is_open, shape)):
        shape = _reshape_type(TensorType(at.inputs[0].dtype, at.shape(0)), shape=shape).shape
    result: Tensor = at.bind(at.inputs[0], **{**at.attrs, "shape": (at.rows, *shape)})
    return result


def _inline_reshape(at: InlineSite) -> tuple[str, str] | None:
    """The array's method, if all sizes are known, so that it cannot fail."""
    shape = at.attrs["shape"]
    plain = len(at.attrs) == 1 and all(type(s) is int for s in (*shape, *at.types[0].shape))
    return (f"{at.operands[0]}.reshape({shape!r})", "") if plain else None


_reshape = define(
    "reshape",
    infer=_reshape_type,
    vjp=(lambda g, out, x, **attrs: reshape(g, x.shape),),
    cost=FREE,
    order="joined",
    inline=_inline_reshape,
    fails_on=lambda attrs: "values" if attrs.get("copy") is False else "sizes",
    batch=_batched_reshape,
)


def reshape(x: TensorLike, /, shape: int | Shape, *, copy: bool | None = None) -> Tensor:
    """``x`` with another shape; elements keep their row-major order.

    Args:
        x: any dtype.
        shape: an int or a tuple of ints, one of which may be -1: it is computed from the others.
        copy: True always copies, False never, None only if strides require it.

    Raises:
        ShapeError: the shape has another number of elements.
        TensorValueError: ``copy=False`` is given, but a copy is needed.

    >>> ef.reshape(ef.arange(6), (2, -1))
    Tensor([[0, 1, 2],
            [3, 4, 5]], i64[2,3]@cpu:0)
    """
    sizes = as_shape("reshape", shape, unknown=True)
    tensor = x if type(x) is Tensor else tensor_of(x)
    if stack.installed and any(map(_may_be_negative, sizes)) and not any(map(_is_open, sizes)):
        # a symbolic size that is -1 at run time must not be taken for an open size
        tensor = functions["copy"](tensor) if copy else tensor
        return bind(_reshape, tensor, shape=sizes, copy=copy or None, closed=True)
    if copy is None:
        return bind(_reshape, tensor, shape=sizes)
    if copy:
        return bind(_reshape, functions["copy"](tensor), shape=sizes)
    return bind(_reshape, tensor, shape=sizes, copy=False)


def ravel(x: TensorLike, /) -> Tensor:
    """The elements as a vector, in row-major order.

    Args:
        x: any dtype.

    >>> ef.ravel(ef.tensor([[1, 2], [3, 4]]))
    Tensor([1, 2, 3, 4], i64[4]@cpu:0)
    """
    return reshape(x, (-1,))


# --- broadcasting ---------------------------------------------------------------------------


@of_family(VIEW)
def _broadcast_type(x: TensorType, *, shape: Shape) -> TensorType:
    if not repeats_to(x.shape, shape):
        raise ShapeError(
            f"the shape does not broadcast to {shape}",
            expected="sizes that are equal or 1, aligned at the last axis",
        )
    return x.like(shape=shape)


_broadcast_to = define(
    "broadcast_to",
    infer=_broadcast_type,
    vjp=(lambda g, out, x, *, shape: sum_to_like(g, x),),
    order="repeated",
    fails_on="sizes",
    batch=with_rows("shape"),
)


def broadcast_to(x: TensorLike, /, shape: int | Shape) -> Tensor:
    """``x`` broadcast to a shape, without a copy.

    Args:
        x: any dtype; each axis has the size in ``shape``, or 1.
        shape: shape of the result; may have more axes at the front.

    Raises:
        ShapeError: ``x`` does not broadcast to the shape.

    >>> ef.broadcast_to(ef.tensor([1, 2]), (2, 2))
    Tensor([[1, 2],
            [1, 2]], i64[2,2]@cpu:0)
    """
    tensor = x if type(x) is Tensor else tensor_of(x)
    return bind(_broadcast_to, tensor, shape=as_shape("broadcast_to", shape))


def broadcast_shapes(*shapes: int | Shape) -> Shape:
    """The common shape that shapes broadcast to.

    Args:
        shapes: ints or tuples of ints.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> ef.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return _joint("broadcast_shapes", [as_shape("broadcast_shapes", s) for s in shapes])


def _joint(name: str, shapes: Sequence[Shape]) -> Shape:
    try:
        return joint_shape((), *shapes)
    except ShapeError as error:
        error.reword(f"{name}: {error.wrong}")
        raise strip(error) from None


def broadcast_arrays(*arrays: TensorLike) -> tuple[Tensor, ...]:
    """Arrays broadcast to their common shape, without copies; each keeps its dtype.

    Args:
        arrays: any dtypes.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> [x.shape for x in ef.broadcast_arrays(ef.zeros((3, 1)), ef.zeros(4))]
    [(3, 4), (3, 4)]
    """
    tensors = [tensor_of(x) for x in arrays]
    shape = _joint("broadcast_arrays", [x.shape for x in tensors])
    return tuple(x if same_shape(x.shape, shape) else broadcast_to(x, shape) for x in tensors)


# --- axes -----------------------------------------------------------------------------------


@of_family(VIEW)
def _permute_type(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    if sorted(axes) != list(range(x.ndim)):
        raise AxisError(
            f"{axes} is not a permutation of the axes",
            expected=f"each of 0 to {x.ndim - 1} once",
            hint=f"two axes are swapped by x.swapaxes{axes}" if len(axes) == 2 else None,
        )
    return x.like(shape=tuple(x.shape[a] for a in axes))


def _permute_vjp(g: Tensor, out: Tensor, x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return permute_dims(g, tuple(inverse))


def _inline_permutation(at: InlineSite) -> tuple[str, str] | None:
    return f"{at.operands[0]}.transpose({at.attrs['axes']!r})", ""


def _batched_permutation(at: BatchSite) -> Tensor:
    axes = (0, *(axis + 1 for axis in at.attrs["axes"]))
    result: Tensor = at.bind(*at.inputs, axes=axes)
    return result


_permute_dims = define(
    "permute_dims",
    infer=_permute_type,
    vjp=(_permute_vjp,),
    order="permuted",
    inline=_inline_permutation,
    batch=_batched_permutation,
)


def permute_dims(x: TensorLike, /, axes: Sequence[int]) -> Tensor:
    """``x`` with its axes in another order.

    Args:
        x: any dtype.
        axes: each axis once, in the order wanted.

    Raises:
        AxisError: ``axes`` is not a permutation of the axes.

    >>> ef.permute_dims(ef.tensor([[1, 2], [3, 4]]), (1, 0))
    Tensor([[1, 3],
            [2, 4]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    order = axes_of("permute_dims", tensor, axes)
    return bind(_permute_dims, tensor, axes=order)


def swapaxes(x: TensorLike, axis1: int, axis2: int, /) -> Tensor:
    """``x`` with two axes exchanged.

    Args:
        x: any dtype.
        axis1: the first axis.
        axis2: the second axis.

    >>> ef.swapaxes(ef.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    tensor = tensor_of(x)
    a, b = axis_of("swapaxes", tensor, axis1), axis_of("swapaxes", tensor, axis2)
    order = list(range(tensor.ndim))
    order[a], order[b] = b, a
    return bind(_permute_dims, tensor, axes=tuple(order))


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """Each matrix of a stack transposed: the last two axes exchanged.

    Args:
        x: at least two axes, any dtype.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> ef.matrix_transpose(ef.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    tensor = matrices_of("matrix_transpose", x)
    n = tensor.ndim
    return bind(_permute_dims, tensor, axes=(*range(n - 2), n - 1, n - 2))


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int], /
) -> Tensor:
    """``x`` with some axes moved to other positions; the rest keep their order.

    Args:
        x: any dtype.
        source: the axes to move.
        destination: the position of each in the result.

    Raises:
        ShapeError: source and destination differ in number.

    >>> ef.moveaxis(ef.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    tensor = tensor_of(x)
    origin = axes_of("moveaxis", tensor, source)
    goal = axes_of("moveaxis", tensor, destination)
    if len(origin) != len(goal):
        raise ShapeError(
            "moveaxis: source and destination differ in number",
            given=f"source={source}, destination={destination}",
        )
    order = [axis for axis in range(tensor.ndim) if axis not in origin]
    for position, axis in sorted(zip(goal, origin, strict=True)):
        order.insert(position, axis)
    return bind(_permute_dims, tensor, axes=tuple(order))


@of_family(VIEW)
def _squeeze_type(x: TensorType, *, axis: tuple[int, ...]) -> TensorType:
    for a in axis:
        if not may_equal(x.shape[a], 1):
            raise ShapeError(f"axis {a} has size {x.shape[a]}", expected="size 1")
    return x.like(shape=tuple(d for i, d in enumerate(x.shape) if i not in axis))


_squeeze = define(
    "squeeze",
    infer=_squeeze_type,
    vjp=(lambda g, out, x, *, axis: expand_dims(g, axis),),
    fails_on="sizes",
    batch=shifted("axis"),
)


def squeeze(x: TensorLike, /, axis: int | Sequence[int] | None = None) -> Tensor:
    """``x`` without axes of size 1.

    Args:
        x: any dtype.
        axis: the axis or axes to drop; by default all of size 1.

    Raises:
        ShapeError: a given axis has another size.

    >>> ef.squeeze(ef.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    tensor = tensor_of(x)
    if axis is None:
        axes = tuple(i for i, d in enumerate(tensor.shape) if d == 1)
    else:
        axes = axes_of("squeeze", tensor, axis)
    return bind(_squeeze, tensor, axis=axes)


@of_family(VIEW)
def _expand_type(x: TensorType, *, axis: tuple[int, ...]) -> TensorType:
    rest = iter(x.shape)
    return x.like(shape=tuple(1 if i in axis else next(rest) for i in range(x.ndim + len(axis))))


def _inline_expansion(at: InlineSite) -> tuple[str, str] | None:
    axes = at.attrs["axis"]
    index = ["None" if i in axes else ":" for i in range(at.types[0].ndim + len(axes))]
    return f"{at.operands[0]}[{', '.join(index)},]", ""


_expand_dims = define(
    "expand_dims",
    infer=_expand_type,
    vjp=(lambda g, out, x, *, axis: squeeze(g, axis),),
    inline=_inline_expansion,
    batch=shifted("axis"),
)


def expand_dims(x: TensorLike, /, axis: int | Sequence[int] = 0) -> Tensor:
    """``x`` with axes of size 1 added.

    Args:
        x: any dtype.
        axis: positions of the new axes in the result.

    Raises:
        AxisError: an axis is out of range.

    >>> ef.expand_dims(ef.zeros((2, 3)), 1).shape
    (2, 1, 3)
    """
    tensor = tensor_of(x)
    extra = len(axis) if isinstance(axis, (list, tuple)) else 1
    axes = axes_of("expand_dims", tensor, axis, extra=extra)
    return bind(_expand_dims, tensor, axis=axes)


def _each(function: Any, arrays: tuple[TensorLike, ...]) -> Any:
    """The result for a single array; a tuple of results for several."""
    results = tuple(function(tensor_of(x)) for x in arrays)
    return results[0] if len(results) == 1 else results


def atleast_1d(*arrays: TensorLike) -> Any:
    """Arrays with at least one axis: scalars become vectors.

    Args:
        arrays: any dtypes.

    Returns:
        A tensor; a tuple of tensors for several arrays.

    >>> ef.atleast_1d(3)
    Tensor([3], i64[1]@cpu:0)
    """
    return _each(lambda x: x if x.shape else reshape(x, (1,)), arrays)


def atleast_2d(*arrays: TensorLike) -> Any:
    """Arrays with at least two axes, new ones at the front: vectors become rows.

    Args:
        arrays: any dtypes.

    Returns:
        A tensor; a tuple of tensors for several arrays.

    >>> ef.atleast_2d(ef.tensor([1, 2])).shape
    (1, 2)
    """
    return _each(lambda x: expand_dims(x, tuple(range(2 - x.ndim))) if x.ndim < 2 else x, arrays)


def atleast_3d(*arrays: TensorLike) -> Any:
    """Arrays with at least three axes, as in NumPy: vectors on the middle axis, matrices in front.

    Args:
        arrays: any dtypes.

    Returns:
        A tensor; a tuple of tensors for several arrays.

    >>> ef.atleast_3d(ef.tensor([1, 2])).shape
    (1, 2, 1)
    """
    missing = ((0, 1, 2), (0, 2), (2,))
    return _each(lambda x: expand_dims(x, missing[x.ndim]) if x.ndim < 3 else x, arrays)
