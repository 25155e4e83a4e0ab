"""Segment kernels for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.portable import segment as portable
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]
WORTH = 20_000  # elements from which a sparse product pays for being set up


@special("segment_sum", "cpu")
def segment_sum(values: Array, segment_ids: Array, *, num_segments: int) -> Any:
    """A product with the sparse membership matrix; it adds in the order of the portable kernel."""
    if values.size < WORTH:
        return portable.segment_sum(np, values, segment_ids, num_segments=num_segments)
    portable.check_ids(np, values, segment_ids, num_segments)
    return summed_rows(values, segment_ids, num_segments)


@special("segment_sums", "cpu")
def segment_sums(
    first: Array, second: Array, segment_ids: Array, *, num_segments: int
) -> tuple[Any, Any]:
    """`segment_sum` of two arrays by the same ids."""
    one = segment_sum(first, segment_ids, num_segments=num_segments)
    return one, segment_sum(second, segment_ids, num_segments=num_segments)


def summed_rows(values: Array, ids: Array, count: int) -> Array:
    """The sums of the rows of each id from 0 to ``count - 1``, added in the order of the rows."""
    from scipy.sparse import csc_array  # noqa: PLC0415 - `import eagerflow` must not load SciPy

    rows = len(values)
    ones = np.ones(rows, values.dtype)
    membership = csc_array((ones, ids, np.arange(rows + 1)), shape=(count, rows))
    total: Array = membership @ values.reshape((rows, -1))
    return total.reshape((count, *values.shape[1:]))
