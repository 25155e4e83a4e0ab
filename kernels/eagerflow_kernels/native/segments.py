"""The callable forms of ops that add rows of the same number, such as the sums of segments.

Rows are added in their order, as the portable kernels do, so the bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from eagerflow_kernels.cpu.indexing import scattered
from eagerflow_kernels.native.loop_form import Kind
from eagerflow_kernels.portable.segment import check_ids

Array = np.ndarray[Any, Any]

_KINDS: Final[dict[str, Kind]] = {"float32": "f32", "float64": "f64"}


def segments_by(function: Callable[[Kind], Any]) -> dict[str, Callable[..., Any]]:
    """The callable forms of sums of rows.

    Args:
        function: gives the function of NumPy that adds rows to a table (`op_rules.sums_loops`).
    """

    def sums(values: Array, ids: Array, count: int) -> Array:
        """The sums of the rows of each id from 0 to ``count - 1``."""
        shape = values.shape[1:]
        width = math.prod(shape)
        total = np.zeros((count, width), values.dtype)
        # with ids that lie one after the other, NumPy goes through the rows in their order
        given = values.reshape(len(values), width), np.ascontiguousarray(ids, np.int64)
        if not function(_KINDS[values.dtype.name])(*given, total.T).all():
            check_ids(np, values, ids, count)
        return total.reshape(count, *shape)

    def segment_sum(values: Array, segment_ids: Array, *, num_segments: int) -> Array:
        """The sum of the rows of each segment."""
        if len(values) != len(segment_ids):
            check_ids(np, values, segment_ids, num_segments)
        return sums(values, segment_ids, num_segments)

    return {"segment_sum": segment_sum, "index_scatter": partial(scattered, sums)}
