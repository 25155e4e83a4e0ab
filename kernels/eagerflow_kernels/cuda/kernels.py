"""Special kernels for GPUs, for ops whose portable kernels give other results with CuPy.

Each is for one known difference between CuPy and NumPy (`docs/decisions/0053-gpus.md` lists all):

- an index that is out of range is an error in NumPy, and wraps around in CuPy;
- of several values for one element the last wins in NumPy, and any in CuPy;
- a decomposition that fails raises in NumPy, and gives NaN in CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Final

from eagerflow_kernels.cuda import library
from eagerflow_kernels.portable import indexing, state
from eagerflow_kernels.table import Array, Kernel, portable_kernel, special

#: ops whose portable kernels expect an error of NumPy's linear algebra
FAILING: Final = (
    "adjugate", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "expm", "inv", "pinv", "solve",
    "svd", "svdvals", "triangular_solve",
)  # fmt: skip


def _check(indices: Array, size: int, axis: int) -> None:
    """Refuse indices that are out of range; waits for the indices."""
    if indices.dtype.kind not in "iu" or not indices.size:
        return
    least, most = int(indices.min()), int(indices.max())
    for index in (least, most):
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")


def _check_key(x: Array, indices: tuple[Array, ...], key: tuple[Any, ...]) -> None:
    """Refuse index arrays of a key that are out of range."""
    arrays = iter(indices)
    taken = sum(item is not None and item != "..." for item in key)
    axis = 0
    for item in key:
        if item == "...":
            axis += x.ndim - taken
            continue
        if item is None:
            continue
        if item == "array":
            _check(next(arrays), x.shape[axis], axis)
        axis += 1


@special("take", "gpu")
def take(x: Array, indices: Array, *, axis: int) -> Array:
    """The slices at indices along an axis."""
    _check(indices, x.shape[axis], axis)
    return indexing.take(library.cupy(), x, indices, axis=axis)


@special("take_along_axis", "gpu")
def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    """The elements at indices along an axis."""
    _check(indices, x.shape[axis], axis)
    return library.cupy().take_along_axis(x, indices, axis=axis)


@special("getitem", "gpu")
def getitem(x: Array, *indices: Array, key: tuple[Any, ...]) -> Array:
    """``x[key]``."""
    _check_key(x, indices, key)
    return indexing.getitem(library.cupy(), x, *indices, key=key)


@special("index_add", "gpu")
def index_add(x: Array, value: Array, *indices: Array, key: tuple[Any, ...]) -> Array:
    """A copy of ``x`` with ``value`` added at ``key``."""
    _check_key(x, indices, key)
    return indexing.index_add(library.cupy(), x, value, *indices, key=key)


@special("index_update", "gpu")
def index_update(
    x: Array, value: Array, *indices: Array, key: tuple[Any, ...], unique: bool
) -> Array:
    """A copy of ``x`` with ``value`` at ``key``; of values for the same element the last wins."""
    xp = library.cupy()
    _check_key(x, indices, key)
    if unique or not any(array.dtype.kind in "iu" for array in indices):
        return indexing.index_update(xp, x, value, *indices, key=key, unique=True)
    places = xp.arange(x.size).reshape(x.shape)[indexing.expression(key, indices)]
    values = xp.broadcast_to(value, places.shape).reshape(-1)
    winner = _winners(xp, places.reshape(-1), x.size)
    chosen = values[xp.maximum(winner, 0)] if values.size else xp.zeros(x.size, x.dtype)
    return xp.where(winner >= 0, chosen, x.reshape(-1)).astype(x.dtype).reshape(x.shape)


def _winners(xp: Any, places: Array, size: int) -> Array:
    """For each place the number of the last value for it, -1 for none."""
    winner = xp.full(size, -1, "int64")
    xp.maximum.at(winner, places, xp.arange(places.size))
    return winner


@special("variable_scatter_update", "gpu")
def variable_scatter_update(indices: Array, values: Array, *, resource: Any) -> Array:
    """Replace rows; of values for the same row the last wins."""
    xp = library.cupy()
    with resource.lock:
        out, rows = state.rows_of(xp, indices, resource)
        row = out.shape[1:]
        values = xp.broadcast_to(values, (*rows.shape, *row)).reshape(rows.size, *row)
        winner = _winners(xp, rows.reshape(-1), out.shape[0])
        if rows.size and prod(row):
            shape = (-1, *(1,) * len(row))
            chosen = values[xp.maximum(winner, 0)]
            out[...] = xp.where(winner.reshape(shape) >= 0, chosen, out)
        return resource.store(out)


def _raising(kernel: Kernel, *arrays: Array, **attrs: Any) -> Any:
    """Run a portable kernel with linear algebra that raises as NumPy's does."""
    with library.raising():
        return kernel(library.cupy(), *arrays, **attrs)


def _named(name: str) -> Callable[..., Any]:
    """A function of CuPy as a portable kernel."""

    def function(xp: Any, *arrays: Array, **attrs: Any) -> Any:
        target = xp
        for part in name.split("."):
            target = getattr(target, part)
        return target(*arrays, **attrs)

    return function


for _name in FAILING:
    _kernel = portable_kernel(_name)
    if _kernel is not None:
        _portable = _named(_kernel) if isinstance(_kernel, str) else _kernel
        special(_name, "gpu")(partial(_raising, _portable))
