"""Names of the kinds of resources, in the words of users."""

from __future__ import annotations


def kind_name(kind: type) -> str:
    """A class in the words of users: ``variable`` for `VariableState`."""
    return kind.__name__.removesuffix("State").lower()
