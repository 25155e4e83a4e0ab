"""Portable kernels: what each op means, written once against the array namespace ``xp``."""

from eagerflow_kernels.portable import (
    autodiff,
    callbacks,
    checks,
    creation,
    einsum,
    elementwise,
    fft,
    indexing,
    linalg,
    random,
    reduction,
    segment,
    shape,
    sort,
    special,
    state,
)

__all__ = [
    "autodiff",
    "callbacks",
    "checks",
    "creation",
    "einsum",
    "elementwise",
    "fft",
    "indexing",
    "linalg",
    "random",
    "reduction",
    "segment",
    "shape",
    "sort",
    "special",
    "state",
]
