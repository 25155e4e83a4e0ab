"""Index expressions, ``x[...]``, parsed into the form that ops take.

A *key* is the static part, a hashable and printable tuple with an item for each part of the
expression::

    item ::= integer | None | ":" | "..." | (start, stop, step) | "array"

In a trace, integers may be symbolic sizes. Each ``"array"`` stands for the next index array, which
is an input of the op. Masks are converted to index arrays, so no other part has a size that depends
on data.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from eagerflow.core.op import bind, define, functions
from eagerflow.core.op_records.batch_rules import SIZES, aligned
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import as_tensor
from eagerflow.dims import may_equal, same
from eagerflow.errors import (
    EagerflowError,
    ShapeError,
    TensorIndexError,
    TensorValueError,
    TraceError,
)
from eagerflow.hardware import home_of
from eagerflow.ops.rules.extents import (
    UNKNOWN,
    WITH_WHERE,
    Slice,
    is_symbolic,
    slice_size,
    unknown_size,
)
from eagerflow.ops.rules.promotion import cast
from eagerflow.types import INT64, Shape, TensorSpec, TensorType, broadcast_shapes

Item = int | str | Slice | None
Key = tuple[Item, ...]

FULL: Final = ":"
ELLIPSIS: Final = "..."
ARRAY: Final = "array"
_WINDOW: Final = (
    "a window of k rows is x[p + ef.arange(k)], along axis 1 x[:, p + ef.arange(k)]; in the place "
    "of x[:n] choose by the mask ef.arange(x.shape[0]) < n: x[mask], or ef.where(mask, x, 0), "
    "which keeps the shape"
)
_KINDS: Final = "integers, slices, None, ..., masks and arrays of integers"


class Index(NamedTuple):
    """An index expression for one tensor.

    Attributes:
        key: the static part.
        arrays: the index arrays.
        shape: the shape of the tensor, with an axis of size 1 for each mask without axes.
        unique: whether no element can be named twice.
    """

    key: Key
    arrays: list[Tensor]
    shape: Shape
    unique: bool


def parse(x: TensorSpec, key: Any) -> Index:
    """The index expression ``key`` of a tensor of spec ``x``.

    Raises:
        TensorIndexError: an index is out of range, there are too many, or one is no valid index.
    """
    parts = key if isinstance(key, tuple) else (key,)
    items = [_item(part, x) for part in parts]
    used = sum(map(_axes_of, items))
    spare = len(x.shape) - used
    if spare < 0 or sum(item is Ellipsis for item in items) > 1:
        raise _miscounted(x, used)
    static: list[Item] = []
    arrays: list[Tensor] = []
    shape = list(x.shape)
    axis = 0  # position in `shape`
    for item in items:
        if isinstance(item, Tensor):
            if not item.shape and item.dtype.category == "bool":
                shape.insert(axis, 1)
            index_arrays = _index_arrays(item, x, shape, axis)
            arrays += index_arrays
            static += [ARRAY] * len(index_arrays)
            axis += len(index_arrays)
            continue
        if type(item) is int:
            _check_range(item, shape[axis], axis, x)
        static.append(ELLIPSIS if item is Ellipsis else item)
        axis += spare if item is Ellipsis else _axes_of(item)
    masks = [t for t in items if isinstance(t, Tensor) and t.dtype.category == "bool"]
    unique = not arrays or (len(masks) == 1 and len(arrays) == max(len(masks[0].shape), 1))
    return Index(tuple(static), arrays, tuple(shape), unique)


def _item(part: Any, x: TensorSpec) -> Any:
    """A part of an expression as an int, None, Ellipsis, ":", a tuple for a slice, or a tensor."""
    kind = type(part)
    if kind is int or is_symbolic(part) or part is None or part is Ellipsis:
        return part
    if kind is slice:
        return _slice(part)
    if hasattr(part, "__index__") and not isinstance(part, (bool, AbstractArray)):
        try:
            return operator.index(part)
        except TypeError:  # NumPy's arrays and bools have the method but refuse
            pass
    try:
        on = None if isinstance(part, AbstractArray) else home_of(x.device)
        tensor = as_tensor(part, None, on)
    except EagerflowError:
        raise TensorIndexError(
            f"a {kind.__name__} cannot be an index", given=repr(part), expected=_KINDS
        ) from None
    if isinstance(part, (list, tuple)) and same(tensor.size, 0):
        return cast(tensor, INT64)  # [] selects no elements
    if not (tensor.dtype.is_integer or tensor.dtype.category == "bool"):
        raise TensorIndexError(
            f"values of {tensor.dtype.short} cannot be indices",
            given=str(type_of(tensor)),
            expected=_KINDS,
        )
    return signed(tensor)


def _signed_type(indices: TensorType) -> TensorType:
    return indices.like(dtype=INT64)


_signed_indices = define(
    "signed_indices", infer=_signed_type, vjp=(None,), precision="exact", batch=aligned
)


def signed(indices: Tensor) -> Tensor:
    """Index arrays in the form that kernels take: uint64 as int64.

    Raises:
        TensorIndexError: int64 cannot hold an index, if the host can see it.
    """
    if indices._lane.dtype.name != "uint64":
        return indices
    return bind(_signed_indices, indices)


def _slice(part: slice) -> Item:
    start, stop, step = part.start, part.stop, part.step
    if start is None and stop is None and step is None:
        return FULL
    try:
        bounds = (_bound(start), _bound(stop), None if step is None else operator.index(step))
    except UNKNOWN as error:
        if type(error) is TraceError and _has_tensor(part):
            error.hint = _WINDOW
            error.reword("a slice between tensors whose values are known only when the graph runs")
        raise
    except (TypeError, EagerflowError):
        raise TensorIndexError(
            "the bounds of a slice must be integers",
            given=f"{start}:{stop}:{step}",
            hint=_WINDOW if _has_tensor(part) else None,
        ) from None
    if bounds[2] == 0:
        raise TensorValueError("the step of a slice cannot be 0")
    return bounds


def _has_tensor(part: slice) -> bool:
    """Whether an integer tensor is a bound of a slice."""
    bounds = (part.start, part.stop, part.step)
    return any(isinstance(b, Tensor) and b.dtype.kind in "iu" for b in bounds)


def _bound(i: Any) -> Any:
    return i if i is None or is_symbolic(i) else operator.index(i)


def _axes_of(item: Any) -> int:
    """The number of axes of the tensor that an item consumes."""
    if isinstance(item, Tensor):
        return len(item.shape) if item.dtype.category == "bool" else 1
    return 0 if item is None or item is Ellipsis else 1


def _miscounted(x: TensorSpec, used: int) -> TensorIndexError:
    if used <= len(x.shape):
        return TensorIndexError("an index can have only one ellipsis ('...')")
    return TensorIndexError(
        f"too many indices: {used} for a tensor with {len(x.shape)} axes", given=str(x)
    )


def _check_range(index: Item, size: int, axis: int, x: TensorSpec | None = None) -> None:
    if type(index) is int and type(size) is int and not -size <= index < size:
        raise TensorIndexError(
            f"index {index} is out of range for axis {axis} with size {size}",
            given=None if x is None else str(x),
        )


def _index_arrays(item: Tensor, x: TensorSpec, shape: Sequence[int], axis: int) -> list[Tensor]:
    """The index arrays of a tensor within an expression."""
    if item.dtype.category != "bool":
        return [item]
    if not item.shape:
        return list(functions["nonzero"](functions["reshape"](item, (1,))))
    axes = tuple(shape[axis : axis + len(item.shape)])
    for i, (size, whole) in enumerate(zip(item.shape, axes, strict=True)):
        if not _mask_fits(size, whole):
            raise TensorIndexError(
                f"the mask does not fit: axis {axis + i} has size {whole}, that of the mask {size}",
                given=f"x={x}, mask={type_of(item)}",
            )
    return list(bind(_mask_indices, item, shape=axes))


# --- masks ----------------------------------------------------------------------------------


def _mask_fits(size: int, whole: int) -> bool:
    return may_equal(size, whole) or may_equal(size, 0)


def _mask_type(mask: TensorType, *, shape: Shape) -> tuple[TensorType, ...]:
    if not all(map(_mask_fits, mask.shape, shape)):
        raise TensorIndexError(f"the mask does not fit where the shape is {shape}")
    count = unknown_size(
        "the number of elements a mask selects depends on the data", "the mask", WITH_WHERE
    )
    return tuple([mask.like(shape=(count,), dtype=INT64)] * mask.ndim)


_mask_indices = define(
    "mask_indices", infer=_mask_type, vjp=(None,), precision="exact", outputs=None, batch=SIZES
)


# --- type rules -----------------------------------------------------------------------------


def index_shape(shape: Shape, key: Key, indices: Sequence[TensorType]) -> Shape:
    """The shape of the selection of ``key`` from an array of ``shape``, by NumPy's rules.

    Index arrays, and integers beside them, broadcast together. Their axes come at the position of
    the first of them if they are adjacent, else in front.
    """
    _check_kinds(indices)
    spare = len(shape) - sum(item is not None and item != ELLIPSIS for item in key)
    if spare < 0:
        raise TensorIndexError(f"too many indices for a tensor with {len(shape)} axes")
    advanced = any(t.shape for t in indices)
    dims: list[int] = []
    positions: list[int] = []  # of the indices that broadcast together, in the key
    front = axis = 0
    for position, item in enumerate(key):
        if item is None:
            dims.append(1)
        elif item == ELLIPSIS:
            dims += shape[axis : axis + spare]
            axis += spare
        elif type(item) is int or is_symbolic(item) or item == ARRAY:
            _check_range(item, shape[axis], axis)
            if advanced and not positions:
                front = len(dims)
            positions.append(position)
            axis += 1
        else:
            dims.append(_slice_size(item, shape[axis]))
            axis += 1
    dims += shape[axis:]
    if not advanced:
        return tuple(dims)
    if positions[-1] - positions[0] >= len(positions):
        front = 0
    return (*dims[:front], *_broadcast([t.shape for t in indices]), *dims[front:])


def _check_kinds(indices: Sequence[TensorType]) -> None:
    for t in indices:
        if not t.dtype.is_integer:
            raise TensorIndexError(f"values of {t.dtype.short} cannot be indices")


def _slice_size(item: Any, size: int) -> Any:
    return size if item == FULL else slice_size(item, size)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    try:
        return broadcast_shapes(*shapes)
    except ShapeError as error:
        raise TensorIndexError("the index arrays do not broadcast", given=error.given) from None


# --- one axis -------------------------------------------------------------------------------


def along(x: AbstractArray, indices: Tensor, axis: int) -> list[Tensor]:
    """Index arrays that select, for each of ``indices``, the element along ``axis``."""
    ndim = len(x.shape)
    mesh: list[Tensor] = []
    for i, size in enumerate(x.shape):
        if i == axis:
            mesh.append(indices)
        else:
            steps = functions["arange"](size, device=home_of(indices.device))
            mesh.append(functions["reshape"](steps, (-1,) + (1,) * (ndim - i - 1)))
    return mesh
