"""CPU kernels that sum rows picked by an index, against kernels that add one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eagerflow_kernels import table
from eagerflow_kernels.cpu import indexing as cpu
from eagerflow_kernels.cpu.segment import WORTH
from eagerflow_kernels.portable import indexing as portable


def _many(dtype: str, rows: int, shape: tuple[int, ...], rest: tuple[int, ...]) -> tuple[Any, Any]:
    """Values with zeros of both signs and large differences, and the rows to add them to."""
    rng = np.random.default_rng(0)
    value = rng.normal(size=shape + rest) * 10.0 ** rng.integers(-8, 8, shape + rest)
    value[rng.random(value.shape) < 0.1] = -0.0
    return value.astype(dtype), rng.integers(-rows, rows, shape)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2000,), (40, 50)])
@pytest.mark.parametrize("rest", [(16,), (4, 5)])
def test_rows_are_added_in_their_order(dtype: str, shape: Any, rest: Any) -> None:
    value, ids = _many(dtype, 70, shape, rest)
    assert value.size >= WORTH
    whole = (70, *rest)
    for key in (("array",), ("array", *[":"] * len(rest))):
        for given in (value, np.asfortranarray(value)):
            sums = cpu.index_scatter(given, ids, key=key, shape=whole)
            expected = portable.index_scatter(np, given, ids, key=key, shape=whole)
            assert sums.dtype == expected.dtype
            assert sums.shape == expected.shape
            assert sums.tobytes() == expected.tobytes()
            assert sums.flags.c_contiguous


def test_other_keys_are_those_of_the_portable_kernel() -> None:
    rng = np.random.default_rng(0)
    value = rng.normal(size=(150, 200)).astype("f4")
    ids = rng.integers(0, 9, 200)
    sums = cpu.index_scatter(value, ids, key=(":", "array"), shape=(150, 9))
    expected = portable.index_scatter(np, value, ids, key=(":", "array"), shape=(150, 9))
    assert np.array_equal(sums, expected)
    single = np.float32(2.5)
    broad = cpu.index_scatter(np.asarray(single), ids, key=("array",), shape=(9,))
    assert broad.sum() == 500
    assert cpu.index_scatter(value, key=(":",), shape=value.shape).tobytes() == value.tobytes()


@pytest.mark.parametrize("bad", [70, -71])
def test_an_index_that_is_out_of_range_is_the_same_error(bad: int) -> None:
    value, ids = _many("float32", 70, (2000,), (16,))
    ids[1234] = bad
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
        cpu.index_scatter(value, ids, key=("array",), shape=(70, 16))


def test_it_is_the_kernel_of_the_cpu() -> None:
    assert table.find("index_scatter", "cpu", ("float32", "int64"), np) is cpu.index_scatter
