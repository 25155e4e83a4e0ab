"""Segment kernels for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.portable import segment as portable
from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]
_WORTH = 20_000  # elements from which a sparse product pays for being set up


@special("segment_sum", "cpu")
def segment_sum(values: Array, segment_ids: Array, *, num_segments: int) -> Any:
    """A product with the sparse matrix that has a one for each row; it adds in the same order."""
    if values.size < _WORTH:
        return portable.segment_sum(np, values, segment_ids, num_segments=num_segments)
    from scipy.sparse import csc_array  # noqa: PLC0415 - `import eagerflow` must not load SciPy

    portable.check_ids(np, values, segment_ids, num_segments)
    count = len(values)
    ones = np.ones(count, values.dtype)
    membership = csc_array((ones, segment_ids, np.arange(count + 1)), shape=(num_segments, count))
    total = membership @ values.reshape((count, -1))
    return total.reshape((num_segments, *values.shape[1:]))
