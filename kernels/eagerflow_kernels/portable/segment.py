"""Kernels of segment ops."""

from __future__ import annotations

import math
from typing import Any

from eagerflow_kernels.scattering import scatter
from eagerflow_kernels.table import Array, portable


def check_ids(xp: Any, values: Array, ids: Array, num_segments: int) -> None:
    """Refuse ids that are out of range, or whose number differs from that of values."""
    if len(values) != len(ids):
        raise ValueError(f"{len(ids)} ids for {len(values)} values")
    if ids.size:
        for bad in (int(ids.min()), int(ids.max())):
            if not 0 <= bad < num_segments:
                raise IndexError(f"id {bad} is out of range for {num_segments} segments")


@portable("count_segments")
def count_segments(xp: Any, ids: Array, *, least: int, natural: bool) -> tuple[Array, Array]:
    """The ids, and all numbers from 0 up to the largest of them, not fewer than ``least``."""
    if natural and ids.size and int(ids.min()) < 0:
        raise ValueError("there are negative elements")
    count = int(ids.max()) + 1 if ids.size else 0
    return ids.view(), xp.arange(max(count, least, 0), dtype=ids.dtype)


def flat_positions(xp: Any, ids: Array, width: int) -> Array:
    """The flat positions of the elements of rows of ``width`` in the output."""
    return (ids[:, None] * width + xp.arange(width)).reshape(-1)


@portable("segment_sum")
def segment_sum(xp: Any, values: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Add the rows of each segment, in their order."""
    return _combined(xp, "add", 0, values, segment_ids, num_segments)


@portable("segment_sums")
def segment_sums(
    xp: Any, first: Array, second: Array, segment_ids: Array, *, num_segments: int
) -> tuple[Array, Array]:
    """`segment_sum` of two arrays by the same ids."""
    one = segment_sum(xp, first, segment_ids, num_segments=num_segments)
    return one, segment_sum(xp, second, segment_ids, num_segments=num_segments)


def _combined(
    xp: Any, name: str, start: Any, values: Array, segment_ids: Array, num_segments: int
) -> Array:
    """The rows of each segment combined, beginning with ``start``."""
    check_ids(xp, values, segment_ids, num_segments)
    out = xp.full((num_segments, *values.shape[1:]), start, values.dtype)
    positions = flat_positions(xp, segment_ids, math.prod(values.shape[1:]))
    scatter(xp, name, out.reshape(-1), positions, values.reshape(-1))
    return out


def _limits(xp: Any, dtype: Any) -> tuple[Any, Any]:
    """The least and the largest value of a dtype."""
    if dtype.kind == "f":
        return -xp.inf, xp.inf
    info = xp.iinfo(dtype)
    return info.min, info.max


@portable("segment_max")
def segment_max(xp: Any, values: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """The largest of the rows of each segment, element by element."""
    worst, _ = _limits(xp, values.dtype)
    return _combined(xp, "maximum", worst, values, segment_ids, num_segments)


@portable("segment_min")
def segment_min(xp: Any, values: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """The smallest of the rows of each segment, element by element."""
    _, worst = _limits(xp, values.dtype)
    return _combined(xp, "minimum", worst, values, segment_ids, num_segments)
