"""Symbolic sizes: sizes of which only the name is known, and exact arithmetic with them."""

from eagerflow.dims.dim import (
    Dim,
    Size,
    broadcast,
    evaluate,
    exact_quotient,
    maximum,
    may_equal,
    minimum,
    number_of,
    parse_dim,
    resolving,
    same,
    substitute,
    symbols,
    unknown,
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
