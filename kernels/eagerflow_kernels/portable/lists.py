"""Kernels of lists of arrays; none changes the list that it gets."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.blanks import blank
from eagerflow_kernels.lists import LIST_DTYPE, ListData
from eagerflow_kernels.table import Array, portable


@portable("list_new")
def list_new(xp: Any, *, size: int = 0) -> ListData:
    """A list whose elements are all absent."""
    return ListData(size=size)


@portable("list_push")
def list_push(xp: Any, values: ListData, *xs: Array) -> ListData:
    """Append elements."""
    return values.pushed(xs)


@portable("list_pop")
def list_pop(
    xp: Any, values: ListData, *, shapes: tuple[Any, ...], dtypes: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The list without its last elements, and these elements."""
    if values.size < len(shapes):
        raise IndexError("pop from a list that is too short")
    rest, elements = values.popped(len(shapes))
    for i, x in enumerate(elements):
        if x is None:
            elements[i] = _absent(xp, shapes[i], dtypes[i])
    return (rest, *elements)


def _absent(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    return ListData() if dtype.dtype is LIST_DTYPE else blank(xp, shape, dtype.dtype)


def _checked(values: ListData, index: Array) -> int:
    position = int(index)
    if not 0 <= position < values.size:
        raise IndexError(f"index {position} is out of bounds for a list of size {values.size}")
    return position


@portable("list_read")
def list_read(
    xp: Any, values: ListData, index: Array, *, shape: tuple[int, ...], dtype: Any, strict: bool
) -> Array:
    """One element, zeros if it is absent; with ``strict`` the index must be in range."""
    element = values.get(_checked(values, index) if strict else int(index))
    return _absent(xp, shape, dtype) if element is None else element


@portable("list_write")
def list_write(xp: Any, values: ListData, index: Array, x: Array, *, grow: bool = True) -> ListData:
    """Replace one element; beyond the end only if the list may ``grow``."""
    position = int(index) if grow else _checked(values, index)
    if position < 0:
        raise IndexError(f"index {position} is negative")
    return values.changed((position,), (x,), max(values.size, position + 1))


@portable("list_erase")
def list_erase(xp: Any, values: ListData, index: Array) -> ListData:
    """Make one element absent."""
    return values.changed((int(index),), (None,), values.size)


@portable("list_cut")
def list_cut(xp: Any, values: ListData, size: Array) -> ListData:
    """The first ``size`` elements."""
    end = int(size)
    if values.size <= end:
        return values
    return values.popped(values.size - end)[0]


@portable("list_size")
def list_size(xp: Any, values: ListData) -> Array:
    """The number of elements, absent ones included."""
    return xp.asarray(values.size, dtype="int64")


@portable("list_add")
def list_add(xp: Any, x1: ListData, x2: ListData) -> ListData:
    """The sums of elements of the same index; the work depends on the list with fewer elements."""
    if len(x1) < len(x2):
        x1, x2 = x2, x1
    positions, sums = [], []
    for i, x in x2.items():
        other = x1.get(i)
        if other is not None:  # an element may be a list, of a loop in a loop
            x = list_add(xp, other, x) if type(x) is ListData else xp.asarray(xp.add(other, x))
        positions.append(i)
        sums.append(x)
    return x1.changed(positions, sums, max(x1.size, x2.size))


@portable("list_stack")
def list_stack(
    xp: Any, values: ListData, *, size: int | None, shape: tuple[int, ...], dtype: Any
) -> Array:
    """All elements along a new first axis; zeros for absent ones."""
    count = values.size if size is None else size
    items = dict(values.items())
    elements = [items.get(i) for i in range(count)]
    if not elements:
        return blank(xp, (0, *shape), dtype.dtype)
    if any(x is None for x in elements):
        zeros = blank(xp, shape, dtype.dtype)
        elements = [zeros if x is None else x for x in elements]
    return xp.stack(elements)


@portable("list_unstack")
def list_unstack(xp: Any, x: Array) -> ListData:
    """A list of the parts along the first axis."""
    return ListData({i: x[i, ...] for i in range(x.shape[0])}, x.shape[0])


@portable("list_concat")
def list_concat(
    xp: Any, values: ListData, like: ListData, *, shape: tuple[int, ...], dtype: Any
) -> Array:
    """All elements along their first axis; absent ones are zeros of the lengths in ``like``."""
    items, sizes = dict(values.items()), dict(like.items())
    parts = [blank(xp, (0, *shape), dtype.dtype)]
    for i in range(max(values.size, like.size)):
        if i in items:
            parts.append(items[i])
        elif i in sizes:
            parts.append(blank(xp, (sizes[i].shape[0], *shape), dtype.dtype))
    return xp.concat(parts)


@portable("list_split")
def list_split(xp: Any, x: Array, like: ListData) -> ListData:
    """Parts of ``x`` along the first axis, as long as the elements of ``like``."""
    parts, start = {}, 0
    for i, item in sorted(like.items(), key=lambda pair: pair[0]):
        parts[i] = x[start : start + item.shape[0], ...]
        start += item.shape[0]
    return ListData(parts, like.size)
