"""Elements of datasets: pytrees whose arrays and numbers are tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.types import TensorType

__all__ = ["as_element", "join", "stack", "type_of"]

_ARRAYS = (bool, int, float, complex, np.ndarray, np.generic)


def as_element(value: Any) -> Any:
    """``value`` with tensors for its arrays and numbers; other leaves, such as a path, stay."""
    if type(value) is ef.Tensor:
        return value
    leaves, treedef = tree.flatten(value)
    return tree.unflatten(treedef, [_as_leaf(leaf) for leaf in leaves])


def _as_leaf(leaf: Any) -> Any:
    if type(leaf) is ef.Tensor or isinstance(leaf, str | bytes):
        return leaf
    if hasattr(leaf, "__tensor__"):
        return ef.asarray(leaf)
    if isinstance(leaf, _ARRAYS) or hasattr(leaf, "__dlpack__") or hasattr(leaf, "__array__"):
        return ef.tensor(leaf)  # a copy: readers like to fill one buffer again and again
    return leaf


def type_of(array: Any) -> str:
    """The type of a tensor or a NumPy array, as text."""
    if isinstance(array, np.ndarray):
        return str(TensorType(ef.asarray(array[:0]).dtype, array.shape))
    return str(TensorType(array.dtype, array.shape, array.device))


def stack(elements: Sequence[Any]) -> Any:
    """One element, each of whose tensors has a row for each of ``elements``.

    Raises:
        ShapeError: two shapes differ.
        DTypeError: two dtypes differ, or a leaf is no tensor.
        TensorValueError: two structures differ.
    """
    return _combine(ef.stack, elements, 0)


def join(batches: Sequence[Any]) -> Any:
    """One batch with the rows of all ``batches``."""
    return batches[0] if len(batches) == 1 else _combine(ef.concat, batches, 1)


def _combine(function: Callable[[list[Any]], Any], parts: Sequence[Any], axes: int) -> Any:
    """``function`` of each leaf; sizes after the first ``axes`` must be equal."""
    first, treedef = tree.flatten(parts[0])
    columns = [first]
    for i, part in enumerate(parts[1:], start=1):
        leaves, other = tree.flatten(part)
        if other != treedef:
            raise TensorValueError(
                f"batch: elements 0 and {i} of it differ in structure",
                given=f"{tree.show(treedef)} and {tree.show(other)}",
            )
        columns.append(leaves)
    rows = list(zip(*columns, strict=True))
    for place, row in enumerate(rows):
        _check(row, axes, treedef, place)
    return tree.unflatten(treedef, [function(list(row)) for row in rows])


def _check(row: tuple[Any, ...], axes: int, treedef: tree.TreeDef, place: int) -> None:
    """Refuse what cannot be stacked; nothing is converted."""
    first = row[0]
    for i, x in enumerate(row):
        if type(x) is not ef.Tensor:
            raise DTypeError(
                f"batch: element {i} of it has no tensor{_at(treedef, place)}",
                given=f"a {type(x).__name__}",
                expected="a tensor, an array or a number",
                hint="map it to one, or to what can do without it, before batch",
            )
        if x.dtype is not first.dtype or x.shape[axes:] != first.shape[axes:]:
            same = x.dtype is first.dtype
            raise (ShapeError if same else DTypeError)(
                f"batch: elements 0 and {i} of it differ in {'shape' if same else 'dtype'}"
                + _at(treedef, place),
                given=f"{type_of(first)} and {type_of(x)}",
                expected="one shape and dtype in all elements",
                hint=_batch_hint(first, x) if same else None,
            )


def _batch_hint(first: ef.Tensor, x: ef.Tensor) -> str:
    """How elements get one shape."""
    if len(x.shape) == len(first.shape) and x.shape[1:] == first.shape[1:]:
        return (
            "pad them to one length before: .map(lambda x: ef.pad(x, ...)); or, if they are "
            "batches, batch(…, drop_last=True) leaves out the smaller last one"
        )
    return "bring them to one shape before: .map(...)"


def _at(treedef: tree.TreeDef, place: int) -> str:
    path = tree.paths(treedef)[place]
    return f" at {path}" if path else ""
