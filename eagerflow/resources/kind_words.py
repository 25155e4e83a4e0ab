"""Kinds of resources, and their names in the words of users."""

from __future__ import annotations


def kind_name(kind: type) -> str:
    """A class in the words of users: ``variable`` for `VariableState`."""
    return kind.__name__.removesuffix("State").lower()


def class_of(resource: object) -> type:
    """The class of a resource; of a stand-in for one at a task, the class of that."""
    kind: type = getattr(resource, "stands_for", type(resource))
    return kind
