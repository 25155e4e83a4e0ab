"""Ops on arrays as sets of values. Each NaN is a distinct value."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import SIZES, BatchSite, each_row
from eagerflow.core.op_records.cost_formulas import searching, sorting
from eagerflow.core.op_records.op_facts import OpFacts, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.ops.indexing.getitem import scatter
from eagerflow.ops.rules.extents import unknown_size
from eagerflow.ops.rules.promotion import promote
from eagerflow.ops.rules.subscripts import ARRAY
from eagerflow.ops.rules.type_rules import elementwise
from eagerflow.types import DTYPES, INT64, TensorType

__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "isin",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAll(NamedTuple):
    """The result of `unique_all`.

    Attributes:
        values: the distinct values, sorted.
        indices: the index of the first occurrence of each value in the flattened array.
        inverse_indices: the index of the value of each element; ``values[inverse_indices]`` is the
            array.
        counts: the number of occurrences of each value.

    >>> ef.unique_all(ef.tensor([3, 1, 3])).inverse_indices
    Tensor([1, 0, 1], i64[3]@cpu:0)
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`.

    Attributes:
        values: the distinct values, sorted.
        counts: the number of occurrences of each value.

    >>> ef.unique_counts(ef.tensor([3, 1, 3])).counts
    Tensor([1, 2], i64[2]@cpu:0)
    """

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`.

    Attributes:
        values: the distinct values, sorted.
        inverse_indices: the index of the value of each element.

    >>> ef.unique_inverse(ef.tensor([3, 1, 3])).inverse_indices
    Tensor([1, 0, 1], i64[3]@cpu:0)
    """

    values: Tensor
    inverse_indices: Tensor


_BOOL = DTYPES["bool"]


_FACTS: Final[OpFacts] = {
    "saved": "inputs", "precision": "exact", "cost": sorting, "storage": "fresh"
}  # fmt: skip


@of_family(_FACTS)
def _values_type(x: TensorType) -> TensorType:
    why = "the number of distinct values depends on the data"
    count = unknown_size(why, "x", "call it in eager mode on a device that holds data")
    return x.like(shape=(count,))


@of_family(_FACTS)
def _counts_type(x: TensorType) -> tuple[TensorType, ...]:
    values = _values_type(x)
    return values, values.like(dtype=INT64)


@of_family(_FACTS)
def _all_type(x: TensorType) -> tuple[TensorType, ...]:
    values, counts = _counts_type(x)
    return values, counts, x.like(dtype=INT64), counts


def _values_vjp(g: Any, out: Any, x: Tensor) -> Tensor | None:
    """The rule of distinct values: each cotangent goes to the first occurrence of the value."""
    of_values = g[0] if isinstance(g, tuple) else g
    if of_values is None:
        return None
    size = x.size
    first = unique_all(x).indices
    flat = scatter(of_values, (first,), (ARRAY,), (size,))
    return functions["reshape"](flat, x.shape)


_unique_values = define("unique_values", infer=_values_type, vjp=(_values_vjp,), batch=SIZES)
_unique_counts = define(
    "unique_counts", infer=_counts_type, vjp=(_values_vjp,), outputs=2, batch=SIZES
)
_unique_all = define("unique_all", infer=_all_type, vjp=(_values_vjp,), outputs=4, batch=SIZES)


def unique_all(x: TensorLike, /) -> UniqueAll:
    """The distinct values, sorted, with their positions and numbers of occurrences.

    Args:
        x: any dtype.

    Returns:
        ``(values, indices, inverse_indices, counts)``; the number of values depends on the data.

    >>> ef.unique_all(ef.tensor([3, 1, 3])).inverse_indices
    Tensor([1, 0, 1], i64[3]@cpu:0)
    """
    return UniqueAll(*bind(_unique_all, tensor_of(x)))


def unique_counts(x: TensorLike, /) -> UniqueCounts:
    """The distinct values, sorted, with their numbers of occurrences.

    Args:
        x: any dtype.

    Returns:
        ``(values, counts)``; the number of values depends on the data.

    >>> values, counts = ef.unique_counts(ef.tensor([3, 1, 3]))
    >>> values, counts
    (Tensor([1, 3], i64[2]@cpu:0), Tensor([1, 2], i64[2]@cpu:0))
    """
    return UniqueCounts(*bind(_unique_counts, tensor_of(x)))


def unique_inverse(x: TensorLike, /) -> UniqueInverse:
    """The distinct values, sorted, with the index of the value of each element.

    Args:
        x: any dtype.

    Returns:
        ``(values, inverse_indices)``; the number of values depends on the data.

    >>> values, inverse = ef.unique_inverse(ef.tensor([30, 10, 30]))
    >>> values[inverse]
    Tensor([30, 10, 30], i64[3]@cpu:0)
    """
    parts = unique_all(x)
    return UniqueInverse(parts.values, parts.inverse_indices)


def unique_values(x: TensorLike, /) -> Tensor:
    """The distinct values, sorted.

    Args:
        x: any dtype.

    Returns:
        A vector; the number of values depends on the data.

    >>> ef.unique_values(ef.tensor([3, 1, 3]))
    Tensor([1, 3], i64[2]@cpu:0)
    """
    return bind(_unique_values, tensor_of(x))


def _batched_isin(at: BatchSite) -> Tensor:
    result: Tensor = each_row(at) if at.batched[1] else at.bind(*at.inputs)
    return result


_isin = define(
    "isin",
    infer=lambda x1, x2: elementwise(dtype=_BOOL)(x1, x2.like(shape=())),
    vjp=(None, None),
    cost=searching,
    batch=_batched_isin,
)


def isin(x1: TensorLike, x2: TensorLike, /, *, invert: bool = False) -> Tensor:
    """Whether each element occurs in another array.

    Args:
        x1: any dtype.
        x2: of any shape; both promote to one dtype. NaN equals nothing, so it never occurs.
        invert: whether to negate the result.

    Returns:
        bool, in the shape of ``x1``.

    >>> ef.isin(ef.tensor([1, 2, 3]), ef.tensor([3, 1]))
    Tensor([ True, False,  True], bool[3]@cpu:0)
    """
    member = bind(_isin, *promote(x1, x2))
    return functions["logical_not"](member) if invert else member
