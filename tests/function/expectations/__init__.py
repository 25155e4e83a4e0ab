"""Programs as users write them, with the behaviour expected of a trace: `PROGRAMS`."""

from tests.function.expectations import (
    aftermath,
    aliases,
    arguments,
    arrays,
    captured,
    changes,
    classes,
    decisions,
    errors,
    escaping,
    exact_numbers,
    gradients,
    hidden,
    identity,
    indices,
    instances,
    keys,
    language,
    left,
    lengths,
    library_classes,
    namespaces,
    numbers,
    numbers_in_libraries,
    objects,
    patched,
    remains,
    sizes,
    state,
    subclasses,
    texts,
)
from tests.function.expectations.program import PROGRAMS

__all__ = [
    "PROGRAMS", "aftermath", "aliases", "arguments", "arrays", "captured", "changes", "classes",
    "decisions", "errors", "escaping", "exact_numbers", "gradients", "hidden", "identity",
    "indices", "instances", "keys", "language", "left", "lengths", "library_classes", "namespaces",
    "numbers", "numbers_in_libraries", "objects", "patched", "remains", "sizes", "state",
    "subclasses", "texts",
]  # fmt: skip
