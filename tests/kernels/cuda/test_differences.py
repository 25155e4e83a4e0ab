"""Known differences between CuPy and NumPy: a row for each, with the property common to both.

The devices here imitate CuPy where it differs from NumPy (`checked.py`): indices wrap around,
of several values for one element the first wins, decompositions give NaN. On a GPU the same rows
are run by CuPy (`test_gpu.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError
from tests.messages import says


def _gpu(x: Any, dtype: Any = None) -> Any:
    return ef.tensor(x, dtype=dtype, device="gpu:0")


def _update(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def _scatter_rows() -> Any:
    rows = ef.Variable([1.0, 2.0, 3.0], device="gpu:0")
    rows.scatter_update(_gpu([0, 0, 2]), _gpu([7.0, 8.0, 9.0]))
    return rows.value


#: expressions, and their results in NumPy
VALUES: dict[str, tuple[Callable[[], Any], Any]] = {
    "scatter with duplicates: the last wins": (
        lambda: _update(_gpu([0.0, 0.0, 0.0]), _gpu([1, 1, 2]), _gpu([5.0, 6.0, 7.0])),
        np.float32([0, 6, 7]),
    ),
    "scatter with duplicates on two axes": (
        lambda: _update(
            ef.zeros((2, 2), device="gpu:0"), (_gpu([1, 1]), _gpu([0, 0])), _gpu([5.0, 6.0])
        ),
        np.float32([[0, 0], [6, 0]]),
    ),
    "rows of a variable with duplicates": (_scatter_rows, np.float32([8, 2, 9])),
    "added duplicates add up": (
        lambda: ef.scatter_add(ef.zeros(3, device="gpu:0"), _gpu([1, 1]), _gpu([5.0, 6.0])),
        np.float32([0, 11, 0]),
    ),
    "sum of an empty array": (
        lambda: ef.zeros((0, 2), device="gpu:0").sum(axis=0), np.zeros(2, np.float32)
    ),
    "dtype of sums of bools": (lambda: _gpu([True, True]).sum(), np.int64(2)),
    "dtype of sums of narrow integers": (lambda: ef.sum(_gpu([200, 100], "uint8")), np.uint64(300)),
    "sort is stable": (
        lambda: ef.argsort(_gpu([1.0, 0.0, 1.0, 0.0]), stable=True), np.int64([1, 3, 0, 2])
    ),
    "sort puts NaN last": (lambda: ef.sort(_gpu([np.nan, 1.0, 0.0])), np.float32([0, 1, np.nan])),
    "a sum of float16 does not overflow on the way": (
        lambda: ef.full(4096, 1.0, dtype="float16", device="gpu:0").sum(), np.float16(4096)
    ),
    "negative indices count from the end": (
        lambda: ef.take(_gpu([1.0, 2.0, 3.0]), _gpu([-1])), np.float32([3])
    ),
    "integer division by zero": (
        lambda: _gpu([1, 2], "int32") // _gpu([0, 1], "int32"), np.int32([0, 2])
    ),
    "a result without axes is a tensor": (lambda: _gpu([1.0, 2.0]).max(), np.float32(2)),
    "products of empty matrices": (
        lambda: ef.ones((2, 0), device="gpu:0") @ ef.ones((0, 3), device="gpu:0"),
        np.zeros((2, 3), np.float32),
    ),
}  # fmt: skip

#: expressions that are refused, and the text of the error
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "take": (lambda: ef.take(_gpu([1.0, 2.0]), _gpu([2])), "index 2 is out of range"),
    "getitem": (lambda: _gpu([1.0, 2.0])[_gpu([-3])], "index -3 is out of range"),
    "getitem of the second axis": (
        lambda: ef.zeros((2, 3), device="gpu:0")[:, _gpu([3])], "index 3 is out of range for axis 1"
    ),
    "update": (lambda: _update(_gpu([1.0]), _gpu([1]), _gpu([5.0])), "index 1 is out of range"),
    "take_along_axis": (
        lambda: ef.take_along_axis(_gpu([1.0, 2.0]), _gpu([2]), axis=0), "index 2 is out of range"
    ),
    "cholesky of what is not positive definite": (
        lambda: ef.linalg.cholesky(-ef.eye(2, device="gpu:0")), "not positive definite"
    ),
    "the inverse of a singular matrix": (
        lambda: ef.linalg.inv(ef.zeros((2, 2), device="gpu:0")), "singular"
    ),
    "maximum of an empty array": (lambda: ef.max(ef.zeros(0, device="gpu:0")), "no elements"),
}  # fmt: skip


def check_value(name: str) -> None:
    compute, want = VALUES[name]
    got = compute().numpy()
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


def check_refused(name: str) -> None:
    compute, words = REFUSED[name]
    with pytest.raises(EagerflowError, check=says(words)):
        compute()


@pytest.mark.usefixtures("checked_gpu")
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    check_value(name)


@pytest.mark.usefixtures("checked_gpu")
@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    check_refused(name)
