"""Index kernels for the CPU, where looking at values makes nobody wait."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerflow_kernels.table import special

__all__: list[str] = []

Array = np.ndarray[Any, Any]


@special("signed_indices", "cpu")
def signed_indices(indices: Array) -> Array:
    """Indices of uint64 as int64, if that holds them."""
    if indices.size and indices.max() >= 2**63:
        raise IndexError(f"index {indices.max()} is out of range")
    return indices.astype(np.int64)
