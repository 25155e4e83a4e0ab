"""Symbolic sizes: sizes of which only the name is known, and exact arithmetic with them."""

from eagerflow.dims.dim import Dim, Size, number_of, resolving, unknown
from eagerflow.dims.sizes import (
    broadcast,
    evaluate,
    exact_quotient,
    maximum,
    may_equal,
    minimum,
    parse_dim,
    same,
    substitute,
    symbols,
)

__all__ = [
    "Dim",
    "Size",
    "broadcast",
    "evaluate",
    "exact_quotient",
    "maximum",
    "may_equal",
    "minimum",
    "number_of",
    "parse_dim",
    "resolving",
    "same",
    "substitute",
    "symbols",
    "unknown",
]
