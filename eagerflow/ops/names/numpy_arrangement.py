"""NumPy's names for joining, cutting and reordering arrays, where the array API has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.ops.creation.dtypes import astype
from eagerflow.ops.elementwise.arithmetic import floor_divide, remainder
from eagerflow.ops.indexing.take_and_scatter import take
from eagerflow.ops.rules.arguments import as_index, axis_of, sequence_of
from eagerflow.ops.rules.promotion import host_check
from eagerflow.ops.shape.flip_roll_repeat import flip
from eagerflow.ops.shape.joining import concat, split
from eagerflow.ops.shape.reshape_and_transpose import broadcast_to, expand_dims, moveaxis, reshape

__all__ = [
    "append",
    "column_stack",
    "delete",
    "dsplit",
    "fliplr",
    "flipud",
    "hsplit",
    "insert",
    "unravel_index",
    "vsplit",
]

Sections = int | Sequence[int]


# --- joining and cutting --------------------------------------------------------------------


def append(x: TensorLike, values: TensorLike, /, axis: int | None = None) -> Tensor:
    """Append ``values`` to ``x``: `concat` of both.

    Args:
        x: any dtype.
        values: any dtype; both promote to one.
        axis: the axis; None joins the flattened arrays.

    Raises:
        ShapeError: the shapes do not fit.

    >>> ef.append(ef.tensor([1, 2]), [3])
    Tensor([1, 2, 3], i64[3]@cpu:0)
    """
    return concat([x, tensor_of(values)], axis=axis)


def column_stack(arrays: Sequence[TensorLike], /) -> Tensor:
    """Join vectors as columns of a matrix; matrices are joined along the second axis.

    Args:
        arrays: arrays of equal first sizes; they promote to one dtype.

    Raises:
        ShapeError: the shapes do not fit, or there is no array.

    >>> ef.column_stack([ef.tensor([1, 2]), ef.tensor([3, 4])])
    Tensor([[1, 3],
            [2, 4]], i64[2,2]@cpu:0)
    """
    columns = [tensor_of(x) for x in sequence_of("column_stack", arrays)]
    return concat([x if len(x.shape) > 1 else reshape(x, (-1, 1)) for x in columns], axis=1)


def hsplit(x: TensorLike, indices_or_sections: Sections, /) -> list[Tensor]:
    """Split ``x`` along the second axis; a vector along its only axis.

    Args:
        x: at least one axis.
        indices_or_sections: as for `split`.

    Raises:
        ShapeError: the sections do not divide the size.

    >>> ef.hsplit(ef.tensor([[1, 2], [3, 4]]), 2)[1]
    Tensor([[2],
            [4]], i64[2,1]@cpu:0)
    """
    return _cut("hsplit", x, indices_or_sections, 1, 1)


def vsplit(x: TensorLike, indices_or_sections: Sections, /) -> list[Tensor]:
    """Split ``x`` along the first axis.

    Args:
        x: at least two axes.
        indices_or_sections: as for `split`.

    Raises:
        ShapeError: the sections do not divide the size.

    >>> ef.vsplit(ef.tensor([[1, 2], [3, 4]]), 2)[1]
    Tensor([[3, 4]], i64[1,2]@cpu:0)
    """
    return _cut("vsplit", x, indices_or_sections, 0, 2)


def dsplit(x: TensorLike, indices_or_sections: Sections, /) -> list[Tensor]:
    """Split ``x`` along the third axis.

    Args:
        x: at least three axes.
        indices_or_sections: as for `split`.

    Raises:
        ShapeError: the sections do not divide the size.

    >>> [part.shape for part in ef.dsplit(ef.zeros((2, 2, 4)), [1])]
    [(2, 2, 1), (2, 2, 3)]
    """
    return _cut("dsplit", x, indices_or_sections, 2, 3)


def _cut(name: str, x: TensorLike, sections: Sections, axis: int, least: int) -> list[Tensor]:
    tensor = tensor_of(x)
    if len(tensor.shape) < least:
        raise ShapeError(
            f"{name}: there are too few axes", given=str(tensor.type), expected=f"{least} or more"
        )
    return split(tensor, sections, axis if len(tensor.shape) > 1 else 0)


def fliplr(x: TensorLike, /) -> Tensor:
    """The columns in reverse order.

    Args:
        x: at least two axes, any dtype.

    Raises:
        AxisError: there is no second axis.

    >>> ef.fliplr(ef.tensor([[1, 2], [3, 4]]))
    Tensor([[2, 1],
            [4, 3]], i64[2,2]@cpu:0)
    """
    return flip(x, axis=1)


def flipud(x: TensorLike, /) -> Tensor:
    """The rows in reverse order.

    Args:
        x: at least one axis, any dtype.

    Raises:
        AxisError: there is no axis.

    >>> ef.flipud(ef.tensor([[1, 2], [3, 4]]))
    Tensor([[3, 4],
            [1, 2]], i64[2,2]@cpu:0)
    """
    return flip(x, axis=0)


# --- elements -------------------------------------------------------------------------------


def delete(x: TensorLike, obj: TensorLike | slice, /, axis: int | None = None) -> Tensor:
    """``x`` without the elements at some indices.

    Args:
        x: any dtype.
        obj: an int, a slice, a sequence of ints, or a mask with a bool for each index. The shape
            depends on its values, so that a traced function cannot compute ``obj``.
        axis: the axis; None deletes from the flattened array.

    Raises:
        TensorIndexError: an index is out of range.

    >>> ef.delete(ef.tensor([1, 2, 3, 4]), [0, -1])
    Tensor([2, 3], i64[2]@cpu:0)
    """
    tensor, along = _line("delete", x, axis)
    size = int(tensor.shape[along])
    gone = set(_places("delete", obj, size, size))
    kept = [i for i in range(size) if i not in gone]
    return take(tensor, _index(kept, tensor), axis=along)


def insert(
    x: TensorLike, obj: TensorLike | slice, values: TensorLike, /, axis: int | None = None
) -> Tensor:
    """``x`` with values inserted before some indices.

    Args:
        x: any dtype, which the result has.
        obj: an int, a slice, a sequence or vector of ints, or a mask with a bool for each index:
            indices of ``x`` before the change.
        values: the values to insert. For one index, any number along ``axis`` (along the first
            axis for an int); for several indices as many as these, or 1.
        axis: the axis; None inserts into the flattened array.

    Raises:
        ShapeError: the values do not fit.
        TensorIndexError: an index is out of range.

    >>> ef.insert(ef.tensor([1, 2, 3]), 1, 9), ef.insert(ef.tensor([1, 2]), [0, 2], [8, 9])
    (Tensor([1, 9, 2, 3], i64[4]@cpu:0), Tensor([8, 1, 2, 9], i64[4]@cpu:0))
    """
    tensor, along = _line("insert", x, axis)
    size, ndim = int(tensor.shape[along]), len(tensor.shape)
    new = astype(as_tensor(values, device=tensor.device), tensor.dtype)
    while len(new.shape) < ndim:
        new = expand_dims(new, 0)
    places = _places("insert", obj, size, size + 1)
    if not isinstance(obj, (slice, list, tuple, range)) and getattr(obj, "shape", ()) == ():
        new = moveaxis(new, 0, along)
    if len(places) == 1:
        places = places * int(new.shape[along])
    shape = (*tensor.shape[:along], len(places), *tensor.shape[along + 1 :])
    whole = concat([tensor, broadcast_to(new, shape)], axis=along)
    before: list[list[int]] = [[] for _ in range(size + 1)]
    for number, place in enumerate(places):
        before[place].append(size + number)
    order = [i for place, added in enumerate(before) for i in (*added, place)][:-1]
    return take(whole, _index(order, tensor), axis=along)


def _line(name: str, x: TensorLike, axis: int | None) -> tuple[Tensor, int]:
    tensor = tensor_of(x)
    if axis is None:
        return reshape(tensor, (-1,)), 0
    return tensor, axis_of(name, tensor, axis)


def _index(places: Sequence[int], like: Tensor) -> Tensor:
    return astype(as_tensor(places, device=like.device), "int64")


def _places(name: str, obj: Any, size: int, end: int) -> list[int]:
    """Indices as ints from 0 to ``end - 1``; negative indices count from ``size``."""
    if isinstance(obj, slice):
        return list(range(*obj.indices(size)))
    given = obj.tolist() if hasattr(obj, "tolist") else obj
    items = list(given) if isinstance(given, (list, tuple, range)) else [given]
    if items and all(isinstance(i, bool) for i in items):
        if len(items) != size:
            raise ShapeError(
                f"{name}: the mask does not fit", given=f"{len(items)}", expected=f"{size}"
            )
        return [i for i, chosen in enumerate(items) if chosen]
    places = [as_index(name, "an index", i) for i in items]
    for i in places:
        if not -size <= i < end:
            raise TensorIndexError(
                f"{name}: an index is out of range", given=f"{i}", expected=f"{-size} to {end - 1}"
            )
    return [i + size if i < 0 else i for i in places]


def unravel_index(indices: TensorLike, shape: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """The indices along each axis of elements given by their row-major positions.

    Args:
        indices: integers from 0 to the number of elements, excluded.
        shape: shape of the array.

    Raises:
        DTypeError: the indices are no integers.
        TensorValueError: an index is out of range (not checked on accelerators).

    >>> ef.unravel_index(ef.tensor([1, 5]), (2, 3))
    (Tensor([0, 1], i64[2]@cpu:0), Tensor([1, 2], i64[2]@cpu:0))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    rest = tensor_of(indices)
    if not rest.dtype.is_integer:
        raise DTypeError("unravel_index: indices are integers", given=str(rest.type))
    count = math.prod(sizes)
    if not host_check(lambda i: (i >= 0) & (i < count), rest):
        raise TensorValueError(
            "unravel_index: an index is out of range", expected=f"0 to {count - 1}"
        )
    places = []
    for size in reversed(sizes):
        places.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return tuple(reversed(places))
