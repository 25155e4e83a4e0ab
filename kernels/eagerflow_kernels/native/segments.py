"""The callable forms of ops that add rows of the same number, such as the sums of segments.

Rows are added in their order, as the portable kernels do, so the bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from eagerflow_kernels.cpu import segment as by_numpy
from eagerflow_kernels.cpu.indexing import scattered
from eagerflow_kernels.native.loop_form import Kind
from eagerflow_kernels.portable.segment import check_ids

Array = np.ndarray[Any, Any]

_KINDS: Final[dict[str, Kind]] = {"float32": "f32", "float64": "f64"}
#: the kinds of the numbers that are added besides rows of a float of the same or any kind
_NUMBERS: Final[dict[str, Kind]] = {**_KINDS, "int64": "i64"}


#: bytes that processors read from memory at once
_CACHE_LINE: Final = 64
#: rows for each row of a table from which on its place in memory matters more than one more copy
_MANY: Final = 16


def segments_by(
    function: Callable[[Kind], Any], with_numbers: Callable[[Kind, Kind], Any]
) -> dict[str, Callable[..., Any]]:
    """The callable forms of sums of rows.

    Args:
        function: gives the function of NumPy that adds rows to a table (`op_rules.sums_loops`).
        with_numbers: gives the function that adds a number of each row to another table besides
            (`op_rules.sums_and_numbers_loops`).
    """

    def sums(values: Array, ids: Array, count: int) -> Array:
        """The sums of the rows of each id from 0 to ``count - 1``."""
        total, rows, places = _as_rows(values, ids, count)
        if not function(_KINDS[values.dtype.name])(rows, places, total.T).all():
            check_ids(np, values, ids, count)
        return _whole(total).reshape(count, *values.shape[1:])

    def segment_sum(values: Array, segment_ids: Array, *, num_segments: int) -> Array:
        """The sum of the rows of each segment."""
        if len(values) != len(segment_ids):
            check_ids(np, values, segment_ids, num_segments)
        return sums(values, segment_ids, num_segments)

    def segment_sums(
        first: Array, second: Array, segment_ids: Array, *, num_segments: int
    ) -> tuple[Array, Array]:
        """The sums of the rows of two arrays by the same ids; in one pass, if one has numbers."""
        if not len(first) == len(second) == len(segment_ids):
            by_numpy.segment_sums(first, second, segment_ids, num_segments=num_segments)
        if _go_together(first, second):
            return both(first, second, segment_ids, num_segments)
        if _go_together(second, first):
            return both(second, first, segment_ids, num_segments)[::-1]
        one, other = (
            (segment_sum if x.dtype.name in _KINDS else by_numpy.segment_sum)(
                x, segment_ids, num_segments=num_segments
            )
            for x in (first, second)
        )
        return one, other

    def both(values: Array, numbers: Array, ids: Array, count: int) -> tuple[Array, Array]:
        total, rows, places = _as_rows(values, ids, count)
        of_numbers = np.zeros(count, numbers.dtype)
        add = with_numbers(_KINDS[values.dtype.name], _NUMBERS[numbers.dtype.name])
        if not add(rows, numbers, places, total.T, of_numbers).all():
            check_ids(np, values, ids, count)
        return _whole(total).reshape(count, *values.shape[1:]), of_numbers

    return {
        "segment_sum": segment_sum,
        "segment_sums": segment_sums,
        "index_scatter": partial(scattered, sums),
    }


def _as_rows(values: Array, ids: Array, count: int) -> tuple[Array, Array, Array]:
    """A table of zeros for sums, the rows that are added to it, and their places in it.

    With places that lie one after the other, NumPy goes through the rows in their order.
    """
    width = math.prod(values.shape[1:])
    rows = values.reshape(len(values), width)
    return _table(count, width, values), rows, np.ascontiguousarray(ids, np.int64)


def _table(count: int, width: int, values: Array) -> Array:
    """A table of zeros; if many rows are added to it, where the fewest rows cross cache lines.

    A row that crosses one is read a few cycles later after it was written, and the next row of the
    same place waits for that.
    """
    if len(values) < _MANY * count:
        return np.zeros((count, width), values.dtype)
    size = count * width * values.itemsize
    memory = np.zeros(size + _CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + size].view(values.dtype).reshape(count, width)


def _whole(table: Array) -> Array:
    """A table with memory of its own."""
    return table if table.base is None else table.copy()


def _go_together(values: Array, numbers: Array) -> bool:
    """Whether one pass adds up rows of ``values`` and elements of ``numbers``."""
    of_values, of_numbers = values.dtype.name, numbers.dtype.name
    fits = of_values in _KINDS and of_numbers in (of_values, "int64")
    return fits and numbers.ndim == 1
