"""Kinds of values of branches and iterations among which a graph can choose."""

from __future__ import annotations

from typing import Any

from eagerflow.autograph.tracking.blocks import tracer_here
from eagerflow.core import tree
from eagerflow.core.placeholders import has_placeholder
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import symbols
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.ops.creation.arrays import zeros
from eagerflow.tracing.numpy_arrays import TracedArray


def are_alike(a: Any, b: Any) -> bool:
    """Whether a graph can choose between two values: of one structure, with equal constants."""
    a_leaves, a_tree = tree.flatten(a, whole=True)
    b_leaves, b_tree = tree.flatten(b, whole=True)
    return a_tree == b_tree and all(map(_are_alike, a_leaves, b_leaves))


def _are_alike(x: Any, y: Any) -> bool:
    if TracedArray in (type(x), type(y)):  # else it would be a tensor in one case
        return x.__class__ is y.__class__
    if _is_value(x) or _is_value(y):
        return _is_value(x) and _is_value(y)
    return type(x) is type(y) and (x is y or bool(x == y))


def _is_value(x: Any) -> bool:
    return isinstance(x, (AbstractArray, bool, int, float, complex)) or hasattr(x, "__array__")


def kind_text(x: Any) -> str:
    """A description of a value, for messages."""
    if type(x) is TracedArray:
        return f"an array of NumPy of {x.dtype}"
    if type(x) is Tensor:
        return str(x.type)
    if isinstance(x, (tuple, list, dict)):
        return tree.show(tree.flatten(x)[1])
    if isinstance(x, str):
        return "a text that shows a value" if has_placeholder(x) else f"the text {x!r}"
    return "None" if x is None else f"a {type(x).__name__}"


def zeros_as(x: Any) -> Any:
    """Zeros in the structure of ``x``, in place of a value that is still unknown."""
    return tree.map(_zero, x, whole=True)


def _zero(x: Any) -> Any:
    if issubclass(type(x), AbstractAsked):  # it may belong to a trace that has ended
        return x.kind(0)
    if isinstance(x, AbstractArray) or hasattr(x, "__array__"):
        kind = tensor_of(x).type
        known = tracer_here().sizes.names
        shape = [d if symbols((d,)) <= known else 0 for d in kind.shape]
        return zeros(tuple(shape), dtype=kind.dtype, device=kind.device)
    return x.__class__(0) if isinstance(x, (int, float, complex)) else x
