"""Kernels for the CPU that NumPy's functions do not give as fast."""

from eagerflow_kernels.cpu import (
    einsum,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
    segment,
    shape,
    sort,
    special,
)

__all__ = [
    "einsum",
    "elementwise",
    "indexing",
    "linalg",
    "random",
    "reduction",
    "segment",
    "shape",
    "sort",
    "special",
]
