"""Programs as users write them, and what they expect of a trace: `PROGRAMS`."""

from tests.function.expectations import (
    aftermath,
    aliases,
    arguments,
    arrays,
    captured,
    changes,
    errors,
    escaping,
    exact_numbers,
    gradients,
    hidden,
    identity,
    instances,
    language,
    lengths,
    numbers,
    objects,
    remains,
    sizes,
    state,
)
from tests.function.expectations.program import PROGRAMS

__all__ = [
    "PROGRAMS", "aftermath", "aliases", "arguments", "arrays", "captured", "changes", "errors",
    "escaping", "exact_numbers", "gradients", "hidden", "identity", "instances", "language",
    "lengths", "numbers", "objects", "remains", "sizes", "state",
]  # fmt: skip
