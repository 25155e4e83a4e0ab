"""Batching rules of index expressions: the array, the indices, or both are batched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from eagerflow.core.op import bind, declare
from eagerflow.core.op_records.batch_rules import BatchSite
from eagerflow.core.tensor import Tensor
from eagerflow.ops.rules.extents import is_symbolic
from eagerflow.ops.rules.subscripts import ARRAY, ELLIPSIS, FULL, Key

_getitem = declare("getitem")


class _Batched(NamedTuple):
    """An index expression for many rows at once.

    Attributes:
        key: its static part.
        arrays: its index arrays.
        order: the axes of the selection of one row, after the axis of rows, in the order in which
            ``key`` selects them. The axis of rows itself is 0.
    """

    key: Key
    arrays: list[Tensor]
    order: tuple[int, ...]


def _selection(key: Key, ndim: int, advanced: int) -> tuple[int, int, bool]:
    """The positions of the axes of the index arrays in the selection of ``key``.

    Args:
        key: the static part, for one row.
        ndim: number of axes of one row of the array.
        advanced: number of axes that the index arrays broadcast to.

    Returns:
        The number of axes selected, the position of the first axis of the index arrays, and whether
        the index arrays are separated, so that their axes come first.
    """
    spare = ndim - sum(item is not None and item != ELLIPSIS for item in key)
    count = front = 0
    positions: list[int] = []
    for position, item in enumerate(key):
        if item is None:
            count += 1
        elif item == ELLIPSIS:
            count += spare
            spare = 0
        elif type(item) is int or is_symbolic(item) or item == ARRAY:
            if not positions:
                front = count
            positions.append(position)
        else:
            count += 1
    apart = bool(positions) and positions[-1] - positions[0] >= len(positions)
    return count + spare + advanced, 0 if apart else front, apart


def _batched(at: BatchSite, first: int, ndim: int) -> _Batched:
    """The index expression of ``at`` for an array with an axis of rows in front.

    Args:
        at: the op.
        first: the number of the first input that is an index array.
        ndim: number of axes of one row of the array.
    """
    key: Key = at.attrs["key"]
    numbers = range(first, len(at.inputs))
    advanced = max((len(at.shape(i)) for i in numbers), default=0)
    count, front, apart = _selection(key, ndim, advanced)
    if not any(at.batched[i] for i in numbers):
        order = list(range(count + 1))
        if apart and advanced:  # their axes come before the axis of rows
            order = [*range(1, advanced + 1), 0, *range(advanced + 1, count + 1)]
        return _Batched((FULL, *key), [at.inputs[i] for i in numbers], tuple(order))
    lines = at.call("arange", at.rows, device=at.inputs[first].device)
    lines = at.in_shape(lines, (at.rows, *(1,) * advanced))
    arrays = [lines, *[at.padded(i, advanced) for i in numbers]]
    own = range(front + 1, front + 1 + advanced)
    order = [0, *own, *(axis for axis in range(1, count + 1) if axis not in own)]
    if key[:1] == (ARRAY,) or not advanced:
        order = list(range(count + 1))
        if advanced and not apart:
            order = [0, *own, *(axis for axis in range(1, count + 1) if axis not in own)]
    return _Batched((ARRAY, *key), arrays, tuple(order))


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _permuted(at: BatchSite, x: Tensor, order: Sequence[int]) -> Tensor:
    if tuple(order) == tuple(range(len(order))):
        return x
    result: Tensor = at.call("permute_dims", x, tuple(order))
    return result


def _value(at: BatchSite, i: int, index: _Batched) -> Tensor:
    """Input ``i``, the value to put at ``index``."""
    if not at.batched[i] and index.order == tuple(range(len(index.order))):
        return at.inputs[i]
    value = at.in_shape(
        at.whole(i),
        (at.rows, *(1,) * (len(index.order) - 1 - len(at.shape(i))), *at.shape(i)),
    )
    return _permuted(at, value, index.order)


def batched_getitem(at: BatchSite) -> Tensor:
    """The rule of ``x[key]``."""
    index = _batched(at, 1, len(at.shape(0)))
    return _permuted(
        at, bind(_getitem, at.whole(0), *index.arrays, key=index.key), _inverse(index.order)
    )


def batched_update(at: BatchSite) -> Tensor:
    """The rule of ``x[key] = value`` and similar ops."""
    index = _batched(at, 2, len(at.shape(0)))
    attrs: dict[str, Any] = {**at.attrs, "key": index.key}
    result: Tensor = at.bind(at.whole(0), _value(at, 1, index), *index.arrays, **attrs)
    return result


def batched_scatter(at: BatchSite) -> Tensor:
    """The rule of the gradient of ``x[key]``."""
    shape = at.attrs["shape"]
    index = _batched(at, 1, len(shape))
    result: Tensor = at.bind(
        _value(at, 0, index), *index.arrays, key=index.key, shape=(at.rows, *shape)
    )
    return result


def batched_take(at: BatchSite) -> Tensor:
    """The rule of ``take``."""
    axis: int = at.attrs["axis"]
    if not at.batched[1]:
        taken: Tensor = at.bind(*at.inputs, axis=axis + 1)
        return taken
    if not at.batched[0]:
        moved: Tensor = at.call("moveaxis", at.bind(*at.inputs, axis=axis), axis, 0)
        return moved
    site = BatchSite(
        _getitem, at.inputs, at.batched, {"key": (FULL,) * axis + (ARRAY,)}, at.rows, bind,
        at.functions,
    )  # fmt: skip
    return batched_getitem(site)
