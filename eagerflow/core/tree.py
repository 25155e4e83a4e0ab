"""Pytrees: nested containers with tensors as leaves (built on optree)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

import optree

__all__ = ["TreeDef", "flatten", "leaves", "map", "paths", "show", "unflatten"]

TreeDef = optree.PyTreeSpec
NAMESPACE = "eagerflow"


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of ``tree`` and what is needed to build it again; None is a leaf-less node."""
    return optree.tree_flatten(tree, namespace=NAMESPACE)


def unflatten(treedef: TreeDef, values: Iterable[Any]) -> Any:
    """A tree of the structure ``treedef`` with new leaves."""
    return optree.tree_unflatten(treedef, values)


def leaves(tree: Any) -> list[Any]:
    """The leaves of ``tree``."""
    return optree.tree_leaves(tree, namespace=NAMESPACE)


def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """A tree of the same structure with ``function`` applied to the leaves."""
    return optree.tree_map(function, tree, *rest, namespace=NAMESPACE)


def paths(treedef: TreeDef) -> list[str]:
    """A readable path for each leaf, such as ``[0]['w']``."""
    return [accessor.codify("") for accessor in treedef.accessors()]


@final
class _Star:
    """A leaf as structures print it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


def show(treedef: TreeDef) -> str:
    """A structure for a reader, such as ``({'w': *, 'b': *}, *)``."""
    return repr(unflatten(treedef, [_Star()] * treedef.num_leaves))
