"""Kernels of indexing ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow_kernels.blanks import blank
from eagerflow_kernels.scattering import scatter
from eagerflow_kernels.table import Array, portable

portable("where", "where")
portable("nonzero", "nonzero")
portable("take_along_axis", "take_along_axis")

_MANY = 5000
_WORDS = {":": slice(None), "...": Ellipsis}


def expression(key: tuple[Any, ...], indices: Sequence[Array]) -> tuple[Any, ...]:
    """The index expression of a key (`eagerflow.ops.rules.subscripts`) and its index arrays."""
    arrays = iter(indices)
    return tuple(
        next(arrays) if item == "array"
        else _WORDS[item] if type(item) is str
        else slice(*item) if type(item) is tuple
        else item
        for item in key
    )  # fmt: skip


@portable("mask_indices")
def mask_indices(xp: Any, mask: Array, *, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The indices at which a mask is true; its sizes are those of the axes that it covers, or 0."""
    if any(size not in (whole, 0) for size, whole in zip(mask.shape, shape, strict=True)):
        raise IndexError(f"the mask of shape {mask.shape} does not fit where it is {shape}")
    indices: tuple[Array, ...] = mask.nonzero()
    return indices


@portable("signed_indices")
def signed_indices(xp: Any, indices: Array) -> Array:
    """Indices of uint64 as int64."""
    return indices.astype("int64")


@portable("zeros_for")
def zeros_for(xp: Any, indices: Array, *, shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros with a row of ``shape`` for each index up to the largest."""
    count = max(int(indices.max()) + 1, 0) if indices.size else 0
    return blank(xp, (count, *shape), dtype.dtype)


@portable("take")
def take(xp: Any, x: Array, indices: Array, *, axis: int) -> Array:
    """The slices at indices along an axis."""
    return x.take(indices, axis)


@portable("getitem")
def getitem(xp: Any, x: Array, *indices: Array, key: tuple[Any, ...]) -> Array:
    """``x[key]``; a view if there are no index arrays."""
    return x[expression(key, indices)]


@portable("index_update")
def index_update(
    xp: Any, x: Array, value: Array, *indices: Array, key: tuple[Any, ...], unique: bool
) -> Array:
    """A copy of ``x`` with ``value`` at ``key``; of values for the same element the last wins."""
    if not unique:  # the order of writing follows strides
        value = _in_order(xp, value)
        indices = tuple(_in_order(xp, array) for array in indices)
    out = x.copy()
    out[expression(key, indices)] = element_of(value)
    return out


def element_of(value: Array) -> Any:
    """The value to assign for an array; for bytes without axes, the element itself.

    NumPy would store the array as the element.
    """
    return value[()] if value.dtype.kind == "O" and not value.ndim else value


def _in_order(xp: Any, array: Array) -> Array:
    return xp.ascontiguousarray(array) if array.ndim > 1 else array


@portable("index_add")
def index_add(xp: Any, x: Array, value: Array, *indices: Array, key: tuple[Any, ...]) -> Array:
    """A copy of ``x`` with ``value`` added at ``key``; values for the same element add up."""
    out = x.copy(order="C")
    _add(xp, out, value, expression(key, indices))
    return out


@portable("index_scatter")
def index_scatter(
    xp: Any, value: Array, *indices: Array, key: tuple[Any, ...], shape: tuple[int, ...]
) -> Array:
    """Zeros of ``shape`` with ``value`` added at ``key``: the transpose of `getitem`."""
    out = xp.zeros(shape, value.dtype)
    if indices:
        _add(xp, out, value, expression(key, indices))
    else:
        out[expression(key, ())] = value
    return out


def _add(xp: Any, out: Array, value: Array, where: tuple[Any, ...]) -> None:
    """Add to ``out``, which is contiguous; values for the same element add up."""
    if not any(hasattr(item, "shape") for item in where):
        out[where] += value
    elif value.size < _MANY or 8 * value.size < out.size:
        scatter(xp, "add", out, where, value)
    else:  # one axis is the fast case of add.at, worth finding the positions for
        positions = xp.arange(out.size).reshape(out.shape)[where]
        values = xp.broadcast_to(value, positions.shape)
        scatter(xp, "add", out.reshape(-1), positions.reshape(-1), values.reshape(-1))
