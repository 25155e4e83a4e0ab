"""Programs as users write them, and what they expect of a trace: `PROGRAMS`."""

from tests.function.expectations import (
    aliases,
    arguments,
    captured,
    errors,
    escaping,
    gradients,
    hidden,
    identity,
    language,
    numbers,
    objects,
    state,
)
from tests.function.expectations.program import PROGRAMS

__all__ = [
    "PROGRAMS", "aliases", "arguments", "captured", "errors", "escaping", "gradients", "hidden",
    "identity", "language", "numbers", "objects", "state",
]  # fmt: skip
