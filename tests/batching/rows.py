"""Comparison of `vmap` with a loop over the rows, for cases of the table of ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core import tree
from tests.ops.case import LAYOUTS, TOLERANCE, OpCase
from tests.ops.table import flatten, function_of, layout_of, made, sample_of

COUNT = 3


def arguments_of_rows(case: OpCase, dtype: str) -> list[list[Any]]:
    """The arguments of each row, as NumPy arrays: other values, the same sizes."""
    shape, strided = LAYOUTS[layout_of(case)]
    sample = sample_of(case, dtype, shape, strided)
    return [made(case, sample) for _ in range(COUNT)]


def paired(rows: Sequence[list[Any]]) -> tuple[list[list[Any]], Callable[[Sequence[Any]], Any]]:
    """The arrays of each row that differ in values only, and a function that puts arrays back."""
    leaves = [tree.flatten(row) for row in rows]
    first, treedef = leaves[0]
    places = [
        i
        for i, x in enumerate(first)
        if isinstance(x, np.ndarray)
        and all(one[i].shape == x.shape and one[i].dtype == x.dtype for one, _ in leaves)
    ]

    def whole(arrays: Sequence[Any]) -> Any:
        items = [ef.asarray(x) if isinstance(x, np.ndarray) else x for x in first]
        for i, x in zip(places, arrays, strict=True):
            items[i] = x
        return tree.unflatten(treedef, items)

    return [[one[i] for i in places] for one, _ in leaves], whole


def rows_of(case: OpCase, dtype: str) -> tuple[list[list[Any]], Callable[[Sequence[Any]], Any]]:
    """The arrays of each row, and a function that makes arguments of arrays."""
    return paired(arguments_of_rows(case, dtype))


def compared(
    case: OpCase, dtype: str, batched: Callable[[int], bool], *, exact: bool,
    through: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda f: f,
) -> None:  # fmt: skip
    """Compare `vmap` of a case with the loop.

    Args:
        case: the case.
        dtype: the dtype.
        batched: whether the array of an index has rows.
        exact: whether the bits must be equal.
        through: a transform of the mapped function.
    """
    arrays, whole = rows_of(case, dtype)
    function = function_of(case)

    def f(*xs: Any) -> Any:
        result = function(*whole(xs), **case.kwargs)
        return tuple(result) if isinstance(result, (list, tuple)) else result

    own = [batched(i) for i in range(len(arrays[0]))]
    rows = [
        [ef.asarray(row[i] if own[i] else arrays[0][i]) for i in range(len(own))] for row in arrays
    ]
    with np.errstate(all="ignore"):
        want = [flatten(f(*row)) for row in rows]
        given = [
            ef.stack([row[i] for row in rows]) if own[i] else rows[0][i] for i in range(len(own))
        ]
        got = flatten(through(ef.vmap(f, tuple([0 if o else None for o in own])))(*given))
    for i, array in enumerate(got):
        for j in range(COUNT):
            close(array[j], want[j][i], exact=exact)


def close(got: Any, want: Any, *, exact: bool) -> None:
    """Assert that arrays are equal, or close relative to the largest magnitude."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if exact or got.dtype.kind not in "fcV":
        np.testing.assert_array_equal(got, want)
        return
    tolerance = 4 * TOLERANCE[got.dtype.name]
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    finite = np.isfinite(want)
    scale = np.abs(want[finite]).max(initial=1e-30)
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=tolerance * scale)
    np.testing.assert_array_equal(got[~finite], want[~finite])
