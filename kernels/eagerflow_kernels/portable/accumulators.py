"""Kernels of accumulators: sums of tensors, and of rows by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from eagerflow_kernels.portable.elements import check_shapes, own
from eagerflow_kernels.portable.waiting import Finish, count_of, register_answers, scalar, waits
from eagerflow_kernels.scattering import scatter
from eagerflow_kernels.table import Array, portable


def _wide(x: Array) -> Array:
    """An array in the dtype of sums: small floats are added in float32."""
    return x.astype("float32") if x.dtype.itemsize <= 2 else x


@portable("accumulator_add")
def accumulator_add(xp: Any, step: Array, *parts: Array, resource: Any) -> Array:
    """Add a value, unless it is of an earlier step; returns whether it was added."""
    if resource.sparse:
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        for kind, (indices, rows) in zip(resource.types, pairs, strict=True):
            _check_rows(kind, indices, rows)
        value = [_summed(xp, i, _wide(rows), None) for i, rows in pairs]
        added = resource.add(int(step), value, partial(_plus_rows, xp))
    else:
        check_shapes(resource.types, parts)
        value = [own(_wide(x)) for x in parts]
        added = resource.add(int(step), value, partial(_plus, xp))
    return scalar(xp, added)


def _plus(xp: Any, a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    return [xp.asarray(xp.add(x, y)) for x, y in zip(a, b, strict=True)]


def _check_rows(kind: Any, indices: Array, rows: Array) -> None:
    size = kind.shape[0]
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < size):
        wrong = int(indices[(indices < 0) | (indices >= size)][0])
        raise IndexError(f"index {wrong} is out of bounds for axis 0 with size {size}")
    if rows.shape != (*indices.shape, *kind.shape[1:]):
        raise ValueError("the rows have another shape")


def _summed(xp: Any, indices: Array, rows: Array, counts: Array | None) -> tuple[Array, ...]:
    """The sum of the rows of each index, in order of indices, with the number of values in it.

    Args:
        xp: the array namespace.
        indices: of the rows.
        rows: their values.
        counts: number of values summed in each row; None for one each.
    """
    unique, position = xp.unique(indices, return_inverse=True)
    position = position.reshape(-1)
    out = xp.zeros((len(unique), *rows.shape[1:]), dtype=rows.dtype)
    scatter(xp, "add", out, position, rows)
    if counts is None:
        return unique, out, xp.ones(len(unique), dtype="int64")
    total = xp.zeros(len(unique), dtype="int64")
    scatter(xp, "add", total, position, counts)
    return unique, out, total


def _plus_rows(xp: Any, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    both = zip(a, b, strict=True)
    return [
        _summed(xp, *[xp.concatenate([x, y]) for x, y in zip(one, two, strict=True)])
        for one, two in both
    ]


@waits("accumulator_take")
def accumulator_take(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """The mean, once there are enough values; a row's is over the values that have the row."""

    def finish(taken: Any) -> tuple[Array, ...]:
        total, number = taken
        if not resource.sparse:
            pairs = zip(total, resource.types, strict=True)
            return tuple([_mean(xp, x, number, kind) for x, kind in pairs])
        means: list[Array] = []
        for (indices, rows, counts), kind in zip(total, resource.types, strict=True):
            each = counts.reshape((-1,) + (1,) * (rows.ndim - 1))
            means += [indices.astype("int64"), _mean(xp, rows, each, kind)]
        return tuple(means)

    return resource.take(count_of(count, asked)), finish


def _mean(xp: Any, total: Array, count: Any, kind: Any) -> Array:
    each = xp.asarray(count, dtype=total.dtype)
    return xp.asarray(total / each).astype(kind.dtype.dtype, copy=False)


@portable("accumulator_set_step")
def accumulator_set_step(xp: Any, step: Array, *, resource: Any) -> tuple[Array, ...]:
    """Set the step of the accumulator."""
    resource.set_step(int(step))
    return ()


register_answers(
    {
        "accumulator_size": lambda accumulator: accumulator.size(),
    }
)
