"""Kernels of shape ops, which move elements and compute nothing."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.scattering import scatter
from eagerflow_kernels.table import Array, portable

portable("broadcast_to", "broadcast_to")
portable("repeat", "repeat")
portable("roll", "roll")


@portable("reshape")
def reshape(
    xp: Any, x: Array, *, shape: tuple[int, ...], copy: bool | None = None, closed: bool = False
) -> Array:
    """The same elements in C order; a view where strides allow it.

    If ``closed``, a size of -1 is refused.
    """
    if closed and min(shape, default=0) < 0:
        raise ValueError("a size cannot be negative")
    out = x.reshape(shape)
    if copy is False and x.size and not xp.may_share_memory(out, x):
        raise ValueError(f"a view of shape {shape} does not exist, a copy is needed")
    return out


@portable("permute_dims")
def permute_dims(xp: Any, x: Array, *, axes: tuple[int, ...]) -> Array:
    """A view with axes in another order."""
    return x.transpose(axes)


@portable("squeeze")
def squeeze(xp: Any, x: Array, *, axis: tuple[int, ...]) -> Array:
    """A view without axes of size 1."""
    return x.squeeze(axis)


@portable("expand_dims")
def expand_dims(xp: Any, x: Array, *, axis: tuple[int, ...]) -> Array:
    """A view with axes of size 1 added."""
    shape = list(x.shape)
    for position in sorted(axis):
        shape.insert(position, 1)
    return x.reshape(shape)  # a view whatever the strides


@portable("concat")
def concat(xp: Any, *arrays: Array, axis: int) -> Array:
    """Arrays one after the other along an axis."""
    return xp.concatenate(arrays, axis=axis)


@portable("stack")
def stack(xp: Any, *arrays: Array, axis: int) -> Array:
    """Arrays along a new axis."""
    position = (*(slice(None),) * axis, None)
    return xp.concatenate([x[position] for x in arrays], axis=axis)


@portable("split")
def split(xp: Any, x: Array, *, sizes: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """Views of consecutive parts, which together make up the array."""
    lead = (slice(None),) * axis
    parts, start, least = [], 0, 0
    for size in sizes:
        parts.append(x[(*lead, slice(start, start + size))])
        start += size
        least = size if size < least else least
    if start != x.shape[axis] or least < 0:
        raise ValueError(f"parts of sizes {sizes} do not make up {x.shape[axis]}")
    return tuple(parts)


@portable("unstack")
def unstack(xp: Any, x: Array, *, axis: int) -> tuple[Array, ...]:
    """Views without the axis, one per position on it."""
    if axis == 0:
        return tuple([x[i, ...] for i in range(len(x))])
    lead = (slice(None),) * axis
    return tuple(x[(*lead, i, ...)] for i in range(x.shape[axis]))


@portable("flip")
def flip(xp: Any, x: Array, *, axis: tuple[int, ...]) -> Array:
    """A view with axes reversed."""
    step = tuple(slice(None, None, -1 if i in axis else None) for i in range(x.ndim))
    return x[(*step, ...)]


@portable("repeat_each")
def repeat_each(xp: Any, x: Array, repeats: Array, *, axis: int) -> Array:
    """Each element repeated by its number; a single number is for all."""
    numbers = repeats.tolist()  # CuPy takes no array here
    if min(numbers, default=0) < 0:
        raise ValueError("a negative number")
    if len(numbers) == 1:
        return xp.repeat(x, numbers[0], axis=axis)
    if len(numbers) != x.shape[axis]:
        raise ValueError("there must be a number for each position on the axis")
    return xp.repeat(x, numbers, axis=axis)


@portable("pad")
def pad(xp: Any, x: Array, *, widths: tuple[tuple[int, int], ...], value: complex) -> Array:
    """The array inside a larger one that is filled with one value."""
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("a width cannot be negative")
    out, inside = framed(xp, x.shape, x.dtype, widths=widths, value=value)
    inside[...] = x
    return out


def framed(
    xp: Any, shape: tuple[int, ...], dtype: Any, *, widths: tuple[tuple[int, int], ...],
    value: complex,
) -> tuple[Array, Array]:  # fmt: skip
    """An array with one value around its inside, and its inside, which has no values yet."""
    sizes = tuple(n + before + after for n, (before, after) in zip(shape, widths, strict=True))
    out = xp.empty(sizes, dtype=dtype)
    inside: tuple[slice, ...] = ()
    for n, (before, after) in zip(shape, widths, strict=True):
        for part in (slice(before), slice(before + n, None)) if before or after else ():
            out[(*inside, part, ...)] = value  # each element is written once
        inside = (*inside, slice(before, before + n))
    return out, out[(*inside, ...)]


def _sources(xp: Any, size: int, before: int, after: int, mode: str) -> Array:
    """The source index of each element along an axis of a padded array."""
    if before < 0 or after < 0:
        raise ValueError("a width cannot be negative")
    if size == 0 and (before or after):
        raise ValueError("an empty axis has nothing to add")
    positions = xp.arange(-before, size + after)
    if mode == "edge" or size <= 1:
        return xp.clip(positions, 0, max(size - 1, 0))
    if mode == "wrap":
        return positions % size
    skip = 1 if mode == "reflect" else 0  # whether the outermost element is not repeated
    period = 2 * (size - skip)
    positions %= period
    return xp.where(positions < size, positions, period - positions - (1 - skip))


@portable("pad_with_own")
def pad_with_own(
    xp: Any, x: Array, *, axis: int, before: int, after: int, mode: str, back: bool
) -> Array:
    """The array padded along an axis with its own elements.

    ``back`` is the transpose: padding is added to the elements that it was taken from.
    """
    if not back:
        return x.take(_sources(xp, x.shape[axis], before, after, mode), axis)
    size = x.shape[axis] - before - after
    sources = _sources(xp, size, before, after, mode)
    lead = (slice(None),) * axis
    out = x[(*lead, slice(before, before + size))].copy()
    for part in (slice(before), slice(before + size, None)):
        scatter(xp, "add", out, (*lead, sources[part]), x[(*lead, part)])
    return out
