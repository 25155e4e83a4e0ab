"""Selection by a condition: `where` and `select`, and indices of nonzero elements."""

from __future__ import annotations

from collections.abc import Sequence

from eagerflow.core.op import bind, bind_several, define, functions
from eagerflow.core.op_records.batch_rules import SIZES
from eagerflow.core.op_records.op_facts import ELEMENTWISE, of_family
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import home_of
from eagerflow.ops.indexing.take_and_scatter import take
from eagerflow.ops.rules.extents import WITH_WHERE, unknown_size
from eagerflow.ops.rules.gradients import sum_to_like
from eagerflow.ops.rules.promotion import operands, pair, promote, promoted_dtype
from eagerflow.ops.rules.type_rules import check_same_dtype
from eagerflow.types import DTYPES, INT64, TensorType, broadcast_shapes

__all__ = ["argwhere", "compress", "extract", "flatnonzero", "nonzero", "select", "where"]

_BOOL = DTYPES["bool"]


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
        condition: bool; in other dtypes nonzero means true. Broadcasts.
        x1: any dtype; broadcasts.
        x2: likewise; both promote to one dtype.

    >>> x = ef.tensor([1.0, -2.0, 3.0])
    >>> ef.where(x > 0, x, 0)
    Tensor([1., 0., 3.], f32[3]@cpu:0)
    """
    if type(condition) is Tensor:
        chosen = _truth(condition)
    else:
        chosen = _truth(_beside(condition, x1 if isinstance(x1, AbstractArray) else x2))
    some = type(x1) is Tensor or type(x2) is Tensor  # the usual case
    a, b = pair(x1, x2) if some else _choices(chosen, x1, x2)
    return bind(_where, chosen, a, b)


def _beside(x: TensorLike, like: TensorLike) -> Tensor:
    """``x`` as a tensor; host data goes to the device of ``like``, if that is a tensor."""
    return operands(x, like)[0] if isinstance(like, AbstractArray) else tensor_of(x)


def _choices(condition: Tensor, *choices: TensorLike) -> tuple[Tensor, ...]:
    """The choices as tensors of one dtype, on the condition's device if none is a tensor yet."""
    if any(isinstance(x, AbstractArray) for x in choices):
        return pair(*choices) if len(choices) == 2 else promote(*choices)
    dtype = promoted_dtype(choices)
    return tuple([as_tensor(x, dtype, home_of(condition.device)) for x in choices])


def select(
    condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0
) -> Tensor:
    """Elements of the first choice whose condition holds, or the default if none does.

    Args:
        condlist: conditions, bool; they broadcast.
        choicelist: as many arrays; they broadcast and promote to one dtype.
        default: the value where no condition holds; broadcasts and promotes likewise.

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
    count = unknown_size("the number of nonzero elements depends on the data", "x", WITH_WHERE)
    return tuple([x.like(shape=(count,), dtype=DTYPES["int64"])] * x.ndim)


_nonzero = define(
    "nonzero", infer=_nonzero_type, vjp=(None,), precision="exact", outputs=None, batch=SIZES
)


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The indices of nonzero elements, in row-major order.

    Args:
        x: any dtype, with at least one axis.

    Returns:
        An int64 vector per axis. The number of indices depends on the data.

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
    """The indices of nonzero elements, a row for each.

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
    """The indices of nonzero elements in the flattened ``x``.

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
        condition: a value per slice; if there are fewer, the remaining slices are left out.
        x: any dtype.
        axis: the axis; None selects from the flattened ``x``.

    >>> ef.compress(ef.tensor([False, True]), ef.tensor([[1, 2], [3, 4]]), axis=0)
    Tensor([[3, 4]], i64[1,2]@cpu:0)
    """
    chosen, tensor = operands(condition, x)
    if axis is None:
        tensor, axis = _flat(tensor), 0
    return take(tensor, flatnonzero(chosen), axis=axis)


def extract(condition: TensorLike, x: TensorLike, /) -> Tensor:
    """The elements of ``x`` where a condition holds, as a vector.

    Args:
        condition: as many values as ``x`` has elements.
        x: any dtype.

    >>> x = ef.arange(6)
    >>> ef.extract(x % 3 == 0, x)
    Tensor([0, 3], i64[2]@cpu:0)
    """
    return compress(condition, x)
