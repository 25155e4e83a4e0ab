"""Sizes of slices of axes with symbolic sizes, against Python's own slices."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerflow.dims import Dim, evaluate, same
from eagerflow.errors import ShapeError
from eagerflow.ops.rules.extents import (
    check_not_negative,
    joined_shape,
    position_within,
    slice_size,
)
from eagerflow.types import may_be_same_shape

N, M = Dim("n"), Dim("m")
SIZES = range(8)


@pytest.mark.parametrize("step", [None, 1, 2, 3, -1, -2, -5])
def test_a_slice_with_known_bounds(step: int | None) -> None:
    bounds = [None, *range(-9, 10)]
    for start, stop in itertools.product(bounds, bounds):
        extent = slice_size((start, stop, step), N)
        for size in SIZES:
            want = len(range(size)[start:stop:step])
            assert evaluate(extent, {"n": size}) == want, (start, stop, step, size)


BOUNDS: list[Any] = [
    None, 0, 2, -1, -3, N, -N, N - 1, N - 3, N // 2, -(N // 2), 2 * N, M, -M, M - N, 1 - M,
]  # fmt: skip


@pytest.mark.parametrize("step", [None, 2, -1, -3])
def test_a_slice_with_symbolic_bounds(step: int | None) -> None:
    for start, stop in itertools.product(BOUNDS, BOUNDS):
        extent = slice_size((start, stop, step), N)
        for size, other in itertools.product(range(6), repeat=2):
            sizes = {"n": size, "m": other}
            first, last = (b if b is None else evaluate(b, sizes) for b in (start, stop))
            want = len(range(size)[first:last:step])
            assert evaluate(extent, sizes) == want, (start, stop, step, sizes)


@given(
    st.integers(0, 40),
    st.none() | st.integers(-50, 50),
    st.none() | st.integers(-50, 50),
    st.none() | st.integers(-7, 7).filter(bool),
)
def test_known_and_symbolic_sizes_agree(
    size: int, start: int | None, stop: int | None, step: int | None
) -> None:
    key = (start, stop, step)
    assert slice_size(key, size) == evaluate(slice_size(key, N), {"n": size})


def test_slices_that_are_as_long_have_one_expression() -> None:
    """Equal expressions of equal sizes: ``x[1:] - x[:-1]`` needs no broadcasting."""
    assert same(slice_size((1, None, None), N), slice_size((None, -1, None), N))
    assert str(slice_size((None, None, 2), N)) == "(n+1)//2"
    assert same(slice_size((None, None, -1), N), N)


@pytest.mark.parametrize("bound", [b for b in BOUNDS if b is not None])
def test_the_position_of_a_bound(bound: Any) -> None:
    position = position_within(bound, N)
    for size, other in itertools.product(range(6), repeat=2):
        sizes = {"n": size, "m": other}
        want = slice(evaluate(bound, sizes), None).indices(size)[0]
        assert evaluate(position, sizes) == want == position_within(evaluate(bound, sizes), size)


def test_what_is_known_of_shapes() -> None:
    assert may_be_same_shape((N, 3), (4, 3))
    assert not may_be_same_shape((N, 3), (N + 1, 3))
    assert not may_be_same_shape((N,), (N, 1))
    assert joined_shape([(N, 3), (4, M), (N, M)]) == (4, 3)
    check_not_negative(0, N - 5)
    with pytest.raises(ShapeError, match="cannot be negative"):
        check_not_negative(N, -1)
