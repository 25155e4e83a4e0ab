"""Ops that pick elements by index or condition, and put elements at indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagerflow.core.batch_rules import SIZES, shifted
from eagerflow.core.convert import TensorLike, as_tensor, tensor_of
from eagerflow.core.cost_rules import picking
from eagerflow.core.facts import ELEMENTWISE, MOVING, OpFacts, of_family
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import bind, bind_several, define, functions
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.dims import same
from eagerflow.errors import AxisError, DTypeError, ShapeError, TensorIndexError
from eagerflow.hardware import home_of
from eagerflow.ops.indexing.batching import batched_take
from eagerflow.ops.indexing.getitem import index_add, index_update, rows, scatter
from eagerflow.ops.rules.arguments import as_index, axis_of
from eagerflow.ops.rules.extents import WITH_WHERE, unknown_size
from eagerflow.ops.rules.gradients import sum_to_like
from eagerflow.ops.rules.promotion import cast, operands, pair, promote, promoted_dtype
from eagerflow.ops.rules.subscripts import ARRAY, FULL, along, signed
from eagerflow.ops.rules.type_rules import check_same_dtype
from eagerflow.types import DTYPES, INT64, DTypeLike, Shape, TensorType, as_dtype, broadcast_shapes

__all__ = [
    "argwhere",
    "compress",
    "extract",
    "flatnonzero",
    "nonzero",
    "one_hot",
    "put_along_axis",
    "scatter_add",
    "scatter_update",
    "select",
    "take",
    "take_along_axis",
    "where",
]

_BOOL = DTYPES["bool"]

# --- conditions -----------------------------------------------------------------------------


@of_family(ELEMENTWISE)
def _where_type(condition: TensorType, x1: TensorType, x2: TensorType) -> TensorType:
    if condition.dtype is not _BOOL:
        raise DTypeError("the condition is not of dtype bool")
    check_same_dtype(x1, x2)
    return x1.like(shape=broadcast_shapes(condition.shape, x1.shape, x2.shape))


_where = define(
    "where",
    infer=_where_type,
    vjp=(
        None,
        lambda g, out, condition, x1, x2: sum_to_like(where(condition, g, 0), x1),
        lambda g, out, condition, x1, x2: sum_to_like(where(condition, 0, g), x2),
    ),
    saved="indices",
    precision="exact",
    takes_bytes=True,
)


def _truth(x: TensorLike) -> Tensor:
    """``x`` as a tensor of dtype bool: whether each element is not zero."""
    tensor = tensor_of(x)
    if tensor._lane.dtype is _BOOL:
        return tensor
    return tensor != 0


def where(condition: TensorLike, x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Elements of ``x1`` where the condition holds, of ``x2`` where it does not.

    Args:
        condition: bool; of other dtypes, whether elements are not zero. Broadcasts.
        x1: any dtype; broadcasts.
        x2: likewise; both promote to one dtype.

    >>> x = ef.tensor([1.0, -2.0, 3.0])
    >>> ef.where(x > 0, x, 0)
    Tensor([1., 0., 3.], f32[3]@cpu:0)
    """
    like = x1 if isinstance(x1, AbstractArray) else x2
    chosen = _truth(condition if type(condition) is Tensor else _beside(condition, like))
    a, b = _choices(chosen, x1, x2)
    return bind(_where, chosen, a, b)


def _beside(x: TensorLike, like: TensorLike) -> Tensor:
    """``x`` as a tensor; one of host data is on the device of ``like``, if that is a tensor."""
    return operands(x, like)[0] if isinstance(like, AbstractArray) else tensor_of(x)


def _choices(condition: Tensor, *choices: TensorLike) -> tuple[Tensor, ...]:
    """The choices as tensors of one dtype, beside the condition if none of them is one yet."""
    if any(isinstance(x, AbstractArray) for x in choices):
        return pair(*choices) if len(choices) == 2 else promote(*choices)
    dtype = promoted_dtype(choices)
    return tuple([as_tensor(x, dtype, home_of(condition.device)) for x in choices])


def select(
    condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0
) -> Tensor:
    """Elements of the first choice whose condition holds, or the default if none does.

    Args:
        condlist: conditions; they broadcast.
        choicelist: as many arrays; they broadcast and promote to one dtype.
        default: likewise.

    Raises:
        ShapeError: the lists differ in length.

    >>> x = ef.arange(5)
    >>> ef.select([x < 2, x > 3], [x, x * 10], -1)
    Tensor([ 0,  1, -1, -1, 40], i64[5]@cpu:0)
    """
    if len(condlist) != len(choicelist):
        raise ShapeError(
            f"select: {len(condlist)} conditions for {len(choicelist)} choices",
            expected="as many of one as of the other",
        )
    if not condlist:
        return tensor_of(default)
    conditions = operands(*condlist, *choicelist, default)[: len(condlist)]
    *choices, result = _choices(conditions[0], *choicelist, default)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


def _nonzero_type(x: TensorType) -> tuple[TensorType, ...]:
    count = unknown_size("how many elements are not zero depends on the data", "x", WITH_WHERE)
    return tuple([x.like(shape=(count,), dtype=DTYPES["int64"])] * x.ndim)


_nonzero = define(
    "nonzero", infer=_nonzero_type, vjp=(None,), precision="exact", outputs=None, batch=SIZES
)


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, in row-major order.

    Args:
        x: any dtype, with at least one axis.

    Returns:
        An int64 tensor per axis. How many indices there are depends on the data.

    Raises:
        ShapeError: ``x`` has no axes.

    >>> ef.nonzero(ef.tensor([[0, 3], [4, 0]]))
    (Tensor([0, 1], i64[2]@cpu:0), Tensor([1, 0], i64[2]@cpu:0))
    """
    tensor = tensor_of(x)
    if not tensor.shape:
        raise ShapeError(
            "nonzero: the tensor has no axes",
            given=str(type_of(tensor)),
            hint="reshape it to (1,) first",
        )
    return bind_several(_nonzero, tensor)


def argwhere(x: TensorLike, /) -> Tensor:
    """The indices of the elements that are not zero, a row for each.

    Args:
        x: any dtype.

    Returns:
        ``i64[n, x.ndim]``, where n depends on the data.

    >>> ef.argwhere(ef.tensor([[0, 3], [4, 0]]))
    Tensor([[0, 1],
            [1, 0]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    if not tensor.shape:
        count = flatnonzero(tensor).shape[0]
        result = functions["zeros"]((count, 0), dtype=INT64, device=tensor.device)
    else:
        result = functions["stack"](nonzero(tensor), axis=1)
    return result


def flatnonzero(x: TensorLike, /) -> Tensor:
    """The indices of the elements that are not zero, in ``x`` laid out along one axis.

    Args:
        x: any dtype.

    >>> ef.flatnonzero(ef.tensor([[0, 3], [4, 0]]))
    Tensor([1, 2], i64[2]@cpu:0)
    """
    return nonzero(_flat(tensor_of(x)))[0]


def _flat(x: Tensor) -> Tensor:
    return functions["reshape"](x, (-1,))


def compress(condition: TensorLike, x: TensorLike, /, axis: int | None = None) -> Tensor:
    """The slices of ``x`` along an axis where a condition holds.

    Args:
        condition: one value per slice; if there are fewer, the rest is left out.
        x: any dtype.
        axis: the axis; None takes ``x`` laid out along one axis.

    >>> ef.compress(ef.tensor([False, True]), ef.tensor([[1, 2], [3, 4]]), axis=0)
    Tensor([[3, 4]], i64[1,2]@cpu:0)
    """
    chosen, tensor = operands(condition, x)
    if axis is None:
        tensor, axis = _flat(tensor), 0
    return take(tensor, flatnonzero(chosen), axis=axis)


def extract(condition: TensorLike, x: TensorLike, /) -> Tensor:
    """The elements of ``x`` where a condition holds, along one axis.

    Args:
        condition: as many values as ``x`` has elements.
        x: any dtype.

    >>> x = ef.arange(6)
    >>> ef.extract(x % 3 == 0, x)
    Tensor([0, 3], i64[2]@cpu:0)
    """
    return compress(condition, x)


def one_hot(
    indices: TensorLike, num_classes: int, dtype: DTypeLike = None, *, axis: int = -1
) -> Tensor:
    """A new axis along which the element at each index is one and all others are zero.

    Args:
        indices: integers; one out of range gives zeros only.
        num_classes: the size of the new axis.
        dtype: of the result; float32 by default.
        axis: where the new axis stands in the result.

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


# --- along an axis --------------------------------------------------------------------------


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
    """``indices`` as kernels take them."""
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
        indices: integers; negative ones count from the end. Their axes take the place of ``axis``.
        axis: the axis; needed if ``x`` has more than one.

    Raises:
        TensorIndexError: an index out of range.

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


def take_along_axis(x: TensorLike, indices: TensorLike, /, axis: int = -1) -> Tensor:
    """Along an axis, the elements at the indices given for each line of it.

    Args:
        x: any dtype.
        indices: integers, with as many axes as ``x``; the other axes broadcast against those of
            ``x``. Negative indices count from the end.
        axis: the axis.

    Raises:
        TensorIndexError: an index out of range.

    >>> x = ef.tensor([[3, 1, 2], [6, 5, 4]])
    >>> ef.take_along_axis(x, ef.argsort(x, axis=1)[:, :2], axis=1)
    Tensor([[1, 2],
            [4, 5]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    axis = axis_of("take_along_axis", tensor, axis)
    positions = _positions("take_along_axis", indices, tensor)
    return bind(_take_along, tensor, positions, axis=axis)


def put_along_axis(
    x: TensorLike, indices: TensorLike, values: TensorLike, /, axis: int = -1
) -> Tensor:
    """A new tensor like ``x`` with values at the indices given for each line along an axis.

    It is to `take_along_axis` what assigning is to reading. Unlike NumPy's function it returns
    the result and leaves ``x`` as it is.

    Args:
        x: any dtype.
        indices: integers, with as many axes as ``x``; the other axes broadcast.
        values: broadcast to the shape of the indices; their dtype as for
            `index_update`.
        axis: the axis.

    >>> ef.put_along_axis(ef.zeros((2, 3)), ef.tensor([[2], [0]]), 1, axis=1)
    Tensor([[0., 0., 1.],
            [1., 0., 0.]], f32[2,3]@cpu:0)
    """
    tensor = tensor_of(x)
    axis = axis_of("put_along_axis", tensor, axis)
    positions = _positions("put_along_axis", indices, tensor)
    if len(positions.shape) != len(tensor.shape):
        raise ShapeError(
            "put_along_axis: x and the indices have different numbers of axes",
            given=f"x={type_of(tensor)}, indices={type_of(positions)}",
        )
    return index_update(tensor, tuple(along(tensor, positions, axis)), values)


def scatter_update(x: TensorLike, indices: TensorLike, updates: TensorLike, /) -> Tensor:
    """A new tensor like ``x`` with ``updates`` in the rows at ``indices``.

    Args:
        x: any dtype, with at least one axis.
        indices: integers, along the first axis of ``x``. For a row named twice the last update
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
