"""Gathering by indices along an axis, one-hot vectors, and updates of rows at indices."""

from __future__ import annotations

from typing import Final

from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import shifted
from eagerflow.core.op_records.cost_formulas import picking
from eagerflow.core.op_records.op_facts import MOVING, OpFacts
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.dims import same
from eagerflow.errors import AxisError, DTypeError, ShapeError, TensorIndexError
from eagerflow.hardware import home_of
from eagerflow.ops.indexing.getitem import index_add, index_update, rows, scatter
from eagerflow.ops.indexing.index_batch_rules import batched_take
from eagerflow.ops.rules.arguments import as_index, axis_of
from eagerflow.ops.rules.promotion import cast
from eagerflow.ops.rules.subscripts import ARRAY, FULL, along, signed
from eagerflow.types import INT64, DTypeLike, Shape, TensorType, as_dtype, broadcast_shapes

__all__ = [
    "one_hot",
    "scatter_add",
    "scatter_update",
    "take",
    "take_along_axis",
    "update_along_axis",
]


def one_hot(
    indices: TensorLike, num_classes: int, dtype: DTypeLike = None, *, axis: int = -1
) -> Tensor:
    """One-hot vectors: a new axis along which the element at each index is 1, all others 0.

    Args:
        indices: integers; an index out of range yields zeros only.
        num_classes: the size of the new axis.
        dtype: dtype of the result; float32 by default.
        axis: position of the new axis in the result.

    >>> ef.one_hot(ef.tensor([1, 0]), 3)
    Tensor([[0., 1., 0.],
            [1., 0., 0.]], f32[2,3]@cpu:0)
    """
    tensor = integers("one_hot", indices)
    size = as_index("one_hot", "num_classes", num_classes)
    axis = axis_of("one_hot", tensor, axis, extra=1)
    kind = tensor.dtype if tensor.dtype.name == "uint64" else INT64
    classes = functions["arange"](size, dtype=kind, device=home_of(tensor.device))
    classes = functions["reshape"](classes, (-1,) + (1,) * (len(tensor.shape) - axis))
    hot = functions["expand_dims"](tensor, axis=axis) == classes
    return cast(hot, as_dtype("float32" if dtype is None else dtype))


def integers(
    name: str, indices: TensorLike, like: AbstractArray | None = None, what: str = "indices"
) -> Tensor:
    """``indices`` as a tensor of an integer dtype."""
    on = None if like is None or isinstance(indices, AbstractArray) else home_of(like.device)
    tensor = indices if type(indices) is Tensor else as_tensor(indices, None, on)
    if isinstance(indices, (list, tuple)) and same(tensor.size, 0):
        tensor = cast(tensor, INT64)
    if not tensor._lane.dtype.is_integer:
        raise DTypeError(f"{name}: the {what} must be integers", given=f"{what}={type_of(tensor)}")
    return tensor


def _positions(name: str, indices: TensorLike, like: Tensor) -> Tensor:
    """``indices`` in the form that kernels take."""
    return signed(integers(name, indices, like))


def _take_type(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    return x.like(shape=x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


def _take_vjp(
    g: Tensor, out: Tensor, x: Tensor, indices: Tensor, *, axis: int
) -> Tensor | IndexedSlices:
    if axis:
        return scatter(g, (indices,), (FULL,) * axis + (ARRAY,), x.shape)
    return rows(g, indices, x.shape)


_PICKING: Final[OpFacts] = {
    **MOVING, "saved": "indices", "cost": picking, "storage": "fresh", "raises": (TensorIndexError,)
}  # fmt: skip
_TAKING: Final[OpFacts] = {**_PICKING, "batch": batched_take}
_ALONG: Final[OpFacts] = {**_PICKING, "batch": shifted("axis")}
_take = define(
    "take",
    infer=_take_type,
    vjp=(_take_vjp, None),
    jvp=lambda t, out, x, indices, *, axis: take(t[0], indices, axis=axis),
    **_TAKING,
)


def take(x: TensorLike, indices: TensorLike, /, axis: int | None = None) -> Tensor:
    """The elements (or slices) at indices along an axis.

    Args:
        x: any dtype, with at least one axis.
        indices: integers; negative indices count from the end. Their axes replace ``axis``.
        axis: the axis; may be None if ``x`` has only one.

    Raises:
        TensorIndexError: an index is out of range.
        AxisError: the axis is missing, or out of range.

    >>> ef.take(ef.tensor([[1, 2], [3, 4], [5, 6]]), ef.tensor([2, 0]), axis=0)
    Tensor([[5, 6],
            [1, 2]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    if axis is None:
        if len(tensor.shape) != 1:
            raise AxisError(
                "take: axis is missing", given=f"x={type_of(tensor)}",
                expected="an axis, unless x has exactly one",
            )  # fmt: skip
        axis = 0
    axis = axis_of("take", tensor, axis)
    return bind(_take, tensor, _positions("take", indices, tensor), axis=axis)


def _take_along_type(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    if x.ndim != indices.ndim:
        raise ShapeError("x and the indices have different numbers of axes")
    rest = broadcast_shapes(_without(x.shape, axis), _without(indices.shape, axis))
    return x.like(shape=(*rest[:axis], indices.shape[axis], *rest[axis:]))


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _take_along_vjp(g: Tensor, out: Tensor, x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    return scatter(g, along(x, indices, axis), (ARRAY,) * len(x.shape), x.shape)


_take_along = define(
    "take_along_axis",
    infer=_take_along_type,
    vjp=(_take_along_vjp, None),
    jvp=lambda t, out, x, indices, *, axis: take_along_axis(t[0], indices, axis=axis),
    **_ALONG,
)


def take_along_axis(x: TensorLike, /, indices: TensorLike, axis: int = -1) -> Tensor:
    """The elements at indices along an axis, with separate indices for each line.

    Args:
        x: any dtype.
        indices: integers, with as many axes as ``x``; the other axes broadcast against those of
            ``x``. Negative indices count from the end.
        axis: the axis.

    Raises:
        TensorIndexError: an index is out of range.

    >>> x = ef.tensor([[3, 1, 2], [6, 5, 4]])
    >>> ef.take_along_axis(x, ef.argsort(x, axis=1)[:, :2], axis=1)
    Tensor([[1, 2],
            [4, 5]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    axis = axis_of("take_along_axis", tensor, axis)
    positions = _positions("take_along_axis", indices, tensor)
    return bind(_take_along, tensor, positions, axis=axis)


def update_along_axis(
    x: TensorLike, /, indices: TensorLike, values: TensorLike, axis: int = -1
) -> Tensor:
    """A new tensor like ``x`` with values at indices along an axis, separate for each line.

    The write that corresponds to `take_along_axis`. NumPy's ``put_along_axis`` writes into ``x``,
    and libraries rely on that, so this function has another name.

    Args:
        x: any dtype.
        indices: integers, with as many axes as ``x``; the other axes broadcast.
        values: broadcast to the shape of the indices; their dtype as for
            `index_update`.
        axis: the axis.

    Raises:
        TensorIndexError: an index is out of range.
        ShapeError: ``x`` and the indices differ in their number of axes.

    >>> ef.update_along_axis(ef.zeros((2, 3)), ef.tensor([[2], [0]]), 1, axis=1)
    Tensor([[0., 0., 1.],
            [1., 0., 0.]], f32[2,3]@cpu:0)
    """
    tensor = tensor_of(x)
    axis = axis_of("update_along_axis", tensor, axis)
    positions = _positions("update_along_axis", indices, tensor)
    if len(positions.shape) != len(tensor.shape):
        raise ShapeError(
            "update_along_axis: x and the indices have different numbers of axes",
            given=f"x={type_of(tensor)}, indices={type_of(positions)}",
        )
    return index_update(tensor, tuple(along(tensor, positions, axis)), values)


def scatter_update(x: TensorLike, indices: TensorLike, updates: TensorLike, /) -> Tensor:
    """A new tensor like ``x`` with ``updates`` in the rows at ``indices``.

    Args:
        x: any dtype, with at least one axis.
        indices: integers, along the first axis of ``x``. If a row is named twice, the last update
            wins.
        updates: broadcast to the shape of ``x[indices]``; their dtype as for `index_update`.

    >>> ef.scatter_update(ef.zeros((3, 2)), ef.tensor([2]), ef.tensor([[1.0, 2.0]]))
    Tensor([[0., 0.],
            [0., 0.],
            [1., 2.]], f32[3,2]@cpu:0)
    """
    tensor = tensor_of(x)
    return index_update(tensor, _positions("scatter_update", indices, tensor), updates)


def scatter_add(x: TensorLike, indices: TensorLike, updates: TensorLike, /) -> Tensor:
    """A new tensor like ``x`` with ``updates`` added to the rows at ``indices``.

    Args:
        x: any dtype, with at least one axis.
        indices: integers, along the first axis of ``x``. Updates of the same row add up.
        updates: broadcast to the shape of ``x[indices]``; their dtype as for `index_update`.

    >>> ef.scatter_add(ef.ones(3), ef.tensor([2, 2]), ef.tensor([1.0, 2.0]))
    Tensor([1., 1., 4.], f32[3]@cpu:0)
    """
    tensor = tensor_of(x)
    return index_add(tensor, _positions("scatter_add", indices, tensor), updates)
