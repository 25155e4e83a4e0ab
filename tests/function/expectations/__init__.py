"""Programs as users write them, and what they expect of a trace: `PROGRAMS`."""

from tests.function.expectations import (
    aliases,
    arguments,
    arrays,
    captured,
    errors,
    escaping,
    exact_numbers,
    gradients,
    hidden,
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
    "PROGRAMS", "aliases", "arguments", "arrays", "captured", "errors", "escaping",
    "exact_numbers", "gradients", "hidden", "identity", "language", "lengths", "numbers",
    "objects", "sizes", "state",
]  # fmt: skip
