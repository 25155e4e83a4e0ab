"""Programs as users write them, and what they expect of a trace: `PROGRAMS`."""

from tests.function.expectations import (
    arguments,
    arrays,
    captured,
    errors,
    gradients,
    identity,
    language,
    numbers,
    objects,
    state,
)
from tests.function.expectations.program import PROGRAMS

__all__ = [
    "PROGRAMS", "arguments", "arrays", "captured", "errors", "gradients", "identity", "language",
    "numbers", "objects", "state",
]  # fmt: skip
