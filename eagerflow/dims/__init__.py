"""Symbolic sizes: sizes of which only the name is known, and exact arithmetic with them."""

from eagerflow.dims.dim import (
    Dim,
    Size,
    broadcast,
    evaluate,
    exact_quotient,
    maximum,
    minimum,
    parse_dim,
    resolving,
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
    "minimum",
    "parse_dim",
    "resolving",
    "same",
    "substitute",
    "symbols",
]
