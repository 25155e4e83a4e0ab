"""Partition of rows into parts and the inverse, for lookups in sharded tables."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import SIZES
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import home_of
from eagerflow.ops.indexing.getitem import index_update
from eagerflow.ops.indexing.take_and_scatter import take
from eagerflow.ops.indexing.where_and_nonzero import flatnonzero
from eagerflow.ops.rules.arguments import as_index
from eagerflow.ops.rules.extents import unknown_size
from eagerflow.ops.rules.promotion import operands
from eagerflow.ops.rules.sizes import matched
from eagerflow.types import DType, Shape, TensorType

__all__ = ["dynamic_partition", "dynamic_stitch"]


def _zeros_for_type(indices: TensorType, *, shape: Shape, dtype: DType) -> TensorType:
    why = "the number of rows depends on the largest index"
    count = unknown_size(why, "the indices", "give the number: size=...")
    return indices.like(shape=(count, *shape), dtype=dtype)


_zeros_for = define("zeros_for", infer=_zeros_for_type, vjp=(None,), precision="exact", batch=SIZES)


def _rows(name: str, x: Tensor, indices: Tensor) -> Tensor:
    """``x`` with the axes that it has in common with ``indices`` merged into one.

    Raises:
        DTypeError: the indices are no integers.
        ShapeError: there is not an index for each row.
    """
    if not indices.dtype.is_integer:
        raise DTypeError(f"{name}: expected integers", given=str(type_of(indices)))
    lead = len(indices.shape)
    given = f"{type_of(x)} with {type_of(indices)}"
    wrong = f"{name}: there must be one integer for each row"
    if len(x.shape) < lead:
        raise ShapeError(
            wrong, given=given, expected="integers whose shape begins that of the rows"
        )
    x = matched(x, x.shape[:lead], indices.shape, wrong, given)
    if lead == 1:
        return x
    return functions["reshape"](x, (indices.size, *x.shape[lead:]))


def dynamic_partition(
    x: TensorLike, partitions: TensorLike, num_partitions: int, /
) -> list[Tensor]:
    """Partition rows into parts; within a part, rows keep their order.

    Args:
        x: any dtype, ``[k, *rest]``.
        partitions: integers, ``[k]``: the part of each row; rows of no part are left out. With
            more axes they index rows along as many axes of ``x``.
        num_partitions: number of parts.

    Returns:
        A tensor ``[n, *rest]`` per part, where each n depends on the data.

    >>> ef.dynamic_partition(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([0, 1, 0]), 2)
    [Tensor([1., 3.], f32[2]@cpu:0), Tensor([2.], f32[1]@cpu:0)]
    """
    tensor, parts = operands(x, partitions)
    rows = _rows("dynamic_partition", tensor, parts)
    count = index(as_index("dynamic_partition", "num_partitions", num_partitions))
    return [take(rows, flatnonzero(parts == i), axis=0) for i in range(count)]


def dynamic_stitch(
    indices: Sequence[TensorLike], data: Sequence[TensorLike], /, *, size: int | None = None
) -> Tensor:
    """Merge the rows of several tensors, each put at its index: the inverse of `dynamic_partition`.

    Args:
        indices: integers, ``[k]`` or with more axes, a tensor per part. Of rows with the same
            index the last wins; rows without an index are zero.
        data: as many tensors of one dtype, each of the shape of its indices followed by ``rest``.
        size: number of rows of the result; by default one more than the largest index, which
            depends on the data.

    Raises:
        TensorIndexError: an index is out of range.
        ShapeError: ``indices`` and ``data`` differ in length, or are empty.

    >>> parts = [ef.tensor([0, 2]), ef.tensor([1])]
    >>> ef.dynamic_stitch(parts, [ef.tensor([1.0, 3.0]), ef.tensor([2.0])])
    Tensor([1., 2., 3.], f32[3]@cpu:0)
    """
    if len(indices) != len(data) or not data:
        raise ShapeError(
            f"dynamic_stitch: {len(indices)} indices for {len(data)} tensors",
            expected="as many of one as of the other, and at least one",
        )
    flat, rows = [], []
    tensors = operands(*indices, *data)
    for rows_of, part in zip(tensors[: len(data)], tensors[len(data) :], strict=True):
        block = _rows("dynamic_stitch", part, rows_of)
        shape = (rows_of.size, *part.shape[len(rows_of.shape) :])
        rows.append(functions["reshape"](block, shape))
        flat.append(functions["reshape"](rows_of, (rows_of.size,)))
    where = functions["concat"](flat)
    whole = functions["concat"](rows)
    rest = whole.shape[1:]
    if size is None:
        out = bind(_zeros_for, where, shape=rest, dtype=whole.dtype)
    else:
        out = functions["zeros"]((size, *rest), dtype=whole.dtype, device=home_of(whole.device))
    return index_update(out, where, whole)
