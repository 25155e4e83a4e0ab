"""Programs as users write them, and what they expect of a trace: `PROGRAMS`."""

from tests.function.expectations import (
    arguments,
    captured,
    changes,
    errors,
    gradients,
    identity,
    language,
    numbers,
    objects,
    remains,
    state,
)
from tests.function.expectations.program import PROGRAMS

__all__ = [
    "PROGRAMS", "arguments", "captured", "changes", "errors", "gradients", "identity", "language",
    "numbers", "objects", "remains", "state",
]  # fmt: skip
