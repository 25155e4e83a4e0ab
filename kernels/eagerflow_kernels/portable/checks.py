"""Kernels of ops that depend on sizes only."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import Array, portable


@portable("check_sizes")
def check_sizes(
    xp: Any,
    x: Array,
    *,
    sizes: tuple[int, ...],
    expected: tuple[int, ...],
    least: bool,
    refusal: str,
) -> Array:
    """A view of the array, if sizes are as expected (with ``least``, not less)."""
    if any(a < b if least else a != b for a, b in zip(sizes, expected, strict=True)):
        raise ValueError(refusal)
    return x.view()


@portable("frequency_numbers")
def frequency_numbers(xp: Any, *, n: int, half: bool, dtype: Any) -> Array:
    """The numbers of waves in ``n`` points, in the order of the Fourier transform."""
    if n < 1:
        raise ValueError(f"there are no {n} points")
    numbers = xp.arange(n // 2 + 1 if half else n, dtype="float64")
    if not half:
        numbers[(n + 1) // 2 :] -= n
    return numbers.astype(dtype)
