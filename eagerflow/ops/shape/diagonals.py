"""Diagonals of matrices: extraction, construction, sums."""

from __future__ import annotations

from typing import Any

from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import aligned
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import maximum, minimum
from eagerflow.errors import ShapeError
from eagerflow.ops.reduction import totals as reduction
from eagerflow.ops.rules.arguments import as_index, axis_of
from eagerflow.ops.shape.reshape_and_transpose import permute_dims, reshape
from eagerflow.types import DTypeLike, TensorType

__all__ = ["diag", "diagflat", "diagonal"]


@of_family(MOVING)
def _diagonal_type(x: TensorType, *, offset: int) -> TensorType:
    if x.ndim < 2:
        raise ShapeError("needs a matrix or a stack of matrices", expected="at least two axes")
    rows, columns = x.shape[-2:]
    if offset >= 0:
        columns -= offset
    else:
        rows += offset
    count: Any = maximum(minimum(rows, columns), 0)
    return x.like(shape=(*x.shape[:-2], count))


def _diagonal_vjp(g: Tensor, out: Tensor, x: Tensor, *, offset: int) -> Tensor:
    rows, columns = x.shape[-2:]
    return diag_embed(g, offset=offset, rows=rows, columns=columns)


_diagonal = define(
    "diagonal",
    infer=_diagonal_type,
    vjp=(_diagonal_vjp,),
    cost=FREE,
    storage="view",
    fails_on="nothing",
    batch=aligned,
)


def _embed_type(x: TensorType, *, offset: int, rows: int, columns: int) -> TensorType:
    return x.like(shape=(*x.shape[:-1], rows, columns))


_diag_embed = define(
    "diag_embed",
    infer=_embed_type,
    vjp=(lambda g, out, x, *, offset, **sizes: matrix_diagonal(g, offset=offset),),
    saved="none",
    precision="exact",
    batch=aligned,
)


def matrix_diagonal(x: TensorLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of a stack of matrices, as the last axis of the result.

    Args:
        x: at least two axes, any dtype.
        offset: distance above the main diagonal; below it if negative.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> ef.linalg.diagonal(ef.tensor([[1, 2], [3, 4]]), offset=1)
    Tensor([2], i64[1]@cpu:0)
    """
    return bind(_diagonal, tensor_of(x), offset=as_index("diagonal", "offset", offset))


def diag_embed(
    x: Tensor, *, offset: int = 0, rows: int | None = None, columns: int | None = None
) -> Tensor:
    """Matrices with the diagonal ``x`` and zeros elsewhere; square by default."""
    size = x.shape[-1] + abs(offset)
    return bind(
        _diag_embed,
        x,
        offset=offset,
        rows=size if rows is None else rows,
        columns=size if columns is None else columns,
    )


def diagonal(x: TensorLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals over two axes of an array, as the last axis of the result.

    `eagerflow.linalg.diagonal` is the same with the last two axes.

    Args:
        x: at least two axes, any dtype.
        offset: distance above the main diagonal; below it if negative.
        axis1: the axis of the rows.
        axis2: the axis of the columns.

    Raises:
        ShapeError: ``axis1`` and ``axis2`` are the same axis.

    >>> ef.diagonal(ef.tensor([[1, 2], [3, 4]]))
    Tensor([1, 4], i64[2]@cpu:0)
    """
    tensor = tensor_of(x)
    rows, columns = axis_of("diagonal", tensor, axis1), axis_of("diagonal", tensor, axis2)
    if rows == columns:
        raise ShapeError(
            "diagonal: axis1 and axis2 are the same axis",
            given=f"x={type_of(tensor)}, axis1={axis1}, axis2={axis2}",
        )
    rest = tuple(i for i in range(tensor.ndim) if i not in (rows, columns))
    order = (*rest, rows, columns)
    if order != tuple(range(tensor.ndim)):
        tensor = permute_dims(tensor, order)
    return matrix_diagonal(tensor, offset=offset)


def diag(x: TensorLike, /, k: int = 0) -> Tensor:
    """A matrix with a given diagonal, or the diagonal of a given matrix.

    Args:
        x: a vector or a matrix, any dtype.
        k: distance above the main diagonal; below it if negative.

    Raises:
        ShapeError: ``x`` is neither a vector nor a matrix.

    >>> ef.diag(ef.tensor([1, 2]))
    Tensor([[1, 0],
            [0, 2]], i64[2,2]@cpu:0)
    """
    tensor = tensor_of(x)
    if tensor.ndim == 1:
        return diag_embed(tensor, offset=as_index("diag", "k", k))
    if tensor.ndim == 2:
        return matrix_diagonal(tensor, offset=k)
    raise ShapeError(
        "diag: neither a vector nor a matrix", given=f"x={type_of(tensor)}", expected="1 or 2 axes"
    )


def diagflat(x: TensorLike, /, k: int = 0) -> Tensor:
    """A matrix with all elements of ``x`` as its diagonal.

    Args:
        x: any shape and dtype.
        k: distance above the main diagonal; below it if negative.

    >>> ef.diagflat(ef.tensor([[1, 2]]), 1)
    Tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]], i64[3,3]@cpu:0)
    """
    tensor = tensor_of(x)
    return diag(reshape(tensor, (tensor.size,)), k)


def trace(x: TensorLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Tensor:
    """The sums of the diagonals of a stack of matrices.

    Args:
        x: at least two axes, numeric.
        offset: distance above the main diagonal; below it if negative.
        dtype: dtype of the sums; by default that of ``x``, but int64 or uint64 for integers.

    >>> ef.linalg.trace(ef.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor(5., f32[]@cpu:0)
    """
    return reduction.sum(matrix_diagonal(x, offset=offset), axis=-1, dtype=dtype)
