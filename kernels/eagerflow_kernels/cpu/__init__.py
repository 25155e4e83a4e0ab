"""Kernels for the CPU that NumPy's functions do not give as fast."""

from eagerflow_kernels.cpu import (
    activations,
    einsum,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
    segment,
    shape,
    softmax,
    sort,
    special,
)
