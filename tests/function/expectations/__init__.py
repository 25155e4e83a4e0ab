"""Programs as users write them, and what they expect of a trace: `PROGRAMS`."""

from tests.function.expectations import (
    arguments,
    captured,
    errors,
    exact_numbers,
    gradients,
    identity,
    language,
    lengths,
    numbers,
    objects,
    sizes,
    state,
)
from tests.function.expectations.program import PROGRAMS

__all__ = [
    "PROGRAMS", "arguments", "captured", "errors", "exact_numbers", "gradients", "identity",
    "language", "lengths", "numbers", "objects", "sizes", "state",
]  # fmt: skip
