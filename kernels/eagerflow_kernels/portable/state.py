"""Kernels of ops that read and assign variables.

A resource has ``read()`` and a ``lock``, and for the holder of the lock ``writable()`` (its array,
if it may be written into) and ``store(array)``, which returns the value as ``read`` does: an array
that is never written into. Its elements lie by rows, so that results computed from it do, too.
"""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.portable.indexing import element_of
from eagerflow_kernels.scattering import scatter
from eagerflow_kernels.table import Array, portable


@portable("read")
def read(xp: Any, *, resource: Any) -> Array:
    """The value of a variable."""
    return resource.read()


@portable("snapshot")
def snapshot(xp: Any, *, resource: Any) -> tuple[Array, ...]:
    """The values of several variables at one instant."""
    return tuple(resource.read())


@portable("assign")
def assign(xp: Any, value: Array, *, resource: Any) -> Array:
    """Replace the value; an array that does not own its memory, or is not by rows, is copied.

    Its memory may belong to an array of another library, and be written into there.
    """
    _check_shape(value.shape, resource)
    own = getattr(value, "base", value) is None and value.flags.owndata
    with resource.lock:
        return resource.store(value if own and value.flags.c_contiguous else value.copy())


def _check_shape(shape: tuple[int, ...], resource: Any) -> None:
    if shape != resource.shape:
        raise ValueError("a variable keeps its shape")


def _combine(xp: Any, function: Any, value: Array, resource: Any) -> Array:
    with resource.lock:
        out = resource.writable()
        if out is None:
            out = xp.asarray(function(resource.read(), value), order="C")
            _check_shape(out.shape, resource)
        else:
            function(out, value, out=out)
        return resource.store(out)


@portable("assign_add")
def assign_add(xp: Any, value: Array, *, resource: Any) -> Array:
    """Add to the value."""
    return _combine(xp, xp.add, value, resource)


@portable("assign_sub")
def assign_sub(xp: Any, value: Array, *, resource: Any) -> Array:
    """Subtract from the value."""
    return _combine(xp, xp.subtract, value, resource)


def rows_of(xp: Any, indices: Array, resource: Any) -> tuple[Array, Array]:
    """The array to write rows into, and the numbers of the rows, counted from the front."""
    size = resource.shape[0]
    rows = indices
    if rows.dtype.kind == "i":
        rows = rows.astype("int64")  # a narrow dtype may not hold the size
        rows = xp.where(rows < 0, rows + size, rows)
    if rows.size and not (int(rows.min()) >= 0 and int(rows.max()) < size):
        wrong = int(indices[(rows < 0) | (rows >= size)].reshape(-1)[0])
        raise IndexError(f"index {wrong} is out of bounds for axis 0 with size {size}")
    out = resource.writable()
    return resource.read().copy() if out is None else out, rows


@portable("variable_scatter_update")
def variable_scatter_update(xp: Any, indices: Array, values: Array, *, resource: Any) -> Array:
    """Replace rows; of values for the same row the last wins."""
    with resource.lock:
        out, rows = rows_of(xp, indices, resource)
        out[rows] = element_of(values)
        return resource.store(out)


@portable("variable_scatter_add")
def variable_scatter_add(xp: Any, indices: Array, values: Array, *, resource: Any) -> Array:
    """Add to rows; values for the same row add up."""
    with resource.lock:
        out, rows = rows_of(xp, indices, resource)
        ordered = xp.sort(rows.reshape(-1))
        if bool((ordered[1:] != ordered[:-1]).all()):
            out[rows] += values  # ten times as fast, but right only if no row occurs twice
        else:
            scatter(xp, "add", out, rows, values)
        return resource.store(out)
