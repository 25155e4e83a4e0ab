"""The entries to add to a live tree for values that only its checkpoint has, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eagerflow.checkpoint.nodes import TreeNode, leaves
from eagerflow.checkpoint.shards import Stored

_SHOWN: Final = 3  # entries of one dict
_LEAVES: Final = 4  # in a container that is written out
#: a state that is loaded into any other generator changes no draw
_OTHER_GENERATOR: Final = "(or the generator that you draw from)"
_ITERATOR: Final = "DatasetIterator"  # which users make by ``iter``


def additions(like: TreeNode, saved: TreeNode, stored: Mapping[str, Stored]) -> str:
    """The entries that dicts of ``like`` lack: ``"epoch": 0``; empty if they lack none.

    Args:
        like: the live tree.
        saved: the tree of the checkpoint.
        stored: the tensors of the checkpoint, by name.
    """
    if (like.kind, saved.kind) != ("dict", "dict"):
        return ""
    here = dict(like.children)
    parts = []
    for key, child in saved.children:
        if key not in here:
            parts.append(f"{_text(key)}: {_like(child, stored)}")
            continue
        inner = additions(here[key], child, stored)
        parts += [f"{_text(key)}: {{..., {inner}}}"] if inner else []
    more = len(parts) - _SHOWN
    return ", ".join([*parts[:_SHOWN], *[f"and {more} more"] * (more > 0)])


def _text(key: object) -> str:
    return f'"{key}"' if isinstance(key, str) and '"' not in key else repr(key)


def _like(node: TreeNode, stored: Mapping[str, Stored]) -> str:
    """An expression for a value like a saved one."""
    if node.kind == "plain":
        return _text("") if isinstance(node.value, str) else repr(_null(node.value))
    if node.kind == "generator":
        return f"ef.random.default_generator() {_OTHER_GENERATOR}"
    if node.kind in ("tensor", "variable"):
        one = stored[node.value]
        dtype = "" if one.dtype.name == "float32" else f", dtype=ef.{one.dtype.name}"
        zeros = f"ef.zeros({one.shape}{dtype})"
        return zeros if node.kind == "tensor" else f"ef.Variable({zeros})"
    if node.kind == "state":
        if node.value == _ITERATOR:
            return "iter(dataset)"
        return f"the {node.value}" if node.value else "an object with that state"
    if len(leaves(node)) > _LEAVES or node.kind not in ("list", "tuple", "dict"):
        return "..."
    parts = [_like(child, stored) for _, child in node.children]
    if node.kind == "list":
        return f"[{', '.join(parts)}]"
    if node.kind == "tuple":
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    keys = [_text(key) for key, _ in node.children]
    return f"{{{', '.join(f'{k}: {p}' for k, p in zip(keys, parts, strict=True))}}}"


def _null(value: object) -> object:
    """The zero of the type of a plain value; None is its own."""
    return None if value is None else type(value)()
