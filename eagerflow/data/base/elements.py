"""Elements of datasets: pytrees whose arrays and numbers are tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.extending import tree
from eagerflow.types import TensorType

_NUMBERS = (bool, int, float, complex)
_ARRAYS = (*_NUMBERS, np.ndarray, np.generic)
_TEXTS = (str, bytes)
_LISTS = "lists are containers of tensors here; map each to a tensor before: .map(ef.tensor)"
_TENSORS = frozenset((ef.Tensor,))
#: types that are leaves
_LEAVES = frozenset((*_NUMBERS, *_TEXTS, np.ndarray, ef.Tensor))


def as_element(value: Any) -> Any:
    """``value`` with tensors for its arrays and numbers; other leaves, such as a path, stay."""
    if type(value) is ef.Tensor:
        return value
    if type(value) is tuple and _LEAVES.issuperset(map(type, value)):
        return tuple([_as_leaf(leaf) for leaf in value])  # most elements; pytrees take longer
    leaves, treedef = tree.flatten(value)
    return tree.unflatten(treedef, [_as_leaf(leaf) for leaf in leaves])


def _as_leaf(leaf: Any) -> Any:
    if type(leaf) is ef.Tensor or isinstance(leaf, _TEXTS):
        return leaf
    if type(leaf) in _NUMBERS:
        return ef.tensor(leaf)
    if hasattr(leaf, "__tensor__"):
        return ef.asarray(leaf)
    if isinstance(leaf, _ARRAYS) or hasattr(leaf, "__dlpack__") or hasattr(leaf, "__array__"):
        return ef.tensor(leaf)  # a copy: many readers reuse one buffer
    return leaf


def with_bytes(element: Any) -> Any:
    """``element`` with tensors also for bytes."""
    if type(element) is ef.Tensor:
        return element
    leaves, treedef = tree.flatten(element)
    return tree.unflatten(treedef, [ef.tensor(x) if isinstance(x, bytes) else x for x in leaves])


def type_of(array: Any) -> str:
    """The type of a tensor or a NumPy array, as text."""
    if isinstance(array, np.ndarray):
        return str(TensorType(ef.asarray(array[:0]).dtype, array.shape))
    return str(array.type)


def nbytes(element: Any) -> int:
    """The size of the tensors of ``element`` in bytes."""
    tensors = [x for x in tree.leaves(element) if type(x) is ef.Tensor]
    return sum(x.nbytes for x in tensors)


def stack(elements: Sequence[Any]) -> Any:
    """One element, each of whose tensors has a row for each of ``elements``.

    Raises:
        ShapeError: two shapes differ.
        DTypeError: two dtypes differ, or a leaf is no tensor.
        TensorValueError: two structures differ.
    """
    return _combine(ef.stack, elements, 0)


@final
@dataclass(frozen=True)
class Fill:
    """The padding of elements of several sizes, which are then stacked.

    Attributes:
        value: a number, or bytes.
        method: of `Dataset`, for messages.
    """

    value: Any
    method: str

    def __post_init__(self) -> None:
        if not isinstance(self.value, int | float | complex | bytes | np.generic):
            raise TensorValueError(
                f"{self.method}: value cannot fill arrays",
                given=f"a {type(self.value).__name__}: {self.value!r}",
                expected="a number, or bytes",
            )

    def __str__(self) -> str:
        return "" if self.value == 0 else f", value={self.value}"

    def pad(self, elements: Sequence[Any]) -> Any:
        """As `stack`, with each element padded to the largest size along each axis."""
        return _combine(self._padded, elements, None, self.method)

    def _padded(self, row: list[Any]) -> Any:
        shapes = [x.shape for x in row]
        if len(set(shapes)) == 1:
            return ef.stack(row)
        shape = [max(sizes) for sizes in zip(*shapes, strict=True)]
        made = np.full((len(row), *shape), self._value_for(row[0]), row[0].numpy().dtype)
        for index, x in enumerate(row):
            inside: Any = (index, *map(slice, x.shape))
            made[inside] = x.numpy()
        return ef.asarray(made, device=row[0].device)

    def _value_for(self, like: ef.Tensor) -> Any:
        """The value in the dtype of ``like``, if that has it; for bytes by default empty."""
        dtype = like.numpy().dtype
        if dtype.kind == "O":
            return self.value if isinstance(self.value, bytes) else b""
        kind = np.asarray(self.value).dtype.kind
        fits = kind != "S" and (kind != "c" or dtype.kind == "c")
        try:
            made = np.array(self.value, dtype) if fits else None
            fits = fits and (dtype.kind not in "biu" or made == self.value)
        except (ValueError, OverflowError):  # a NaN, or too large a number, as an integer
            fits = False
        if not fits:
            raise TensorValueError(
                f"{self.method}: {like.dtype} cannot hold the fill value",
                given=f"value={self.value!r}",
                expected=f"a value of {like.dtype}",
            )
        return made


def join(batches: Sequence[Any]) -> Any:
    """One batch with the rows of all ``batches``."""
    return batches[0] if len(batches) == 1 else _combine(ef.concat, batches, 1)


def _combine(
    function: Callable[[list[Any]], Any], parts: Sequence[Any], axes: int | None,
    method: str = "batch",
) -> Any:  # fmt: skip
    """``function`` of the leaves at each place; their sizes after the first ``axes`` are equal.

    Without ``axes`` only the numbers of axes are.
    """
    first, treedef = tree.flatten(parts[0])
    columns = [first]
    alike = len(first) if _is_row(parts[0]) else None
    for i, part in enumerate(parts[1:], start=1):
        if _is_row(part) and len(part) == alike:
            columns.append(part)
            continue
        leaves, other = tree.flatten(part)
        if other != treedef:
            raise TensorValueError(
                f"{method}: elements 0 and {i} of it differ in structure",
                given=f"{tree.show(treedef)} and {tree.show(other)}",
                hint=_LISTS if "[" in tree.show(treedef) else None,
            )
        columns.append(leaves)
    rows = list(zip(*columns, strict=True))
    for index, row in enumerate(rows):
        _check(row, axes, treedef, index, method)
    return tree.unflatten(treedef, [function(list(row)) for row in rows])


def _is_row(value: Any) -> bool:
    """Whether ``value`` is a tuple of tensors, as most elements are; pytrees take longer."""
    return type(value) is tuple and _TENSORS.issuperset(map(type, value))


def _check(
    row: tuple[Any, ...], axes: int | None, treedef: tree.TreeDef, index: int, method: str
) -> None:
    """Refuse leaves that cannot be stacked as they are."""
    first = row[0]
    for i, x in enumerate(row):
        if type(x) is not ef.Tensor:
            raise DTypeError(
                f"{method}: element {i} of it has no tensor{_at(treedef, index)}",
                given=f"a {type(x).__name__}",
                expected="a tensor, an array or a number",
                hint="map it to a tensor, or drop it, before batch",
            )
        fits = x.ndim == first.ndim if axes is None else x.shape[axes:] == first.shape[axes:]
        if x.dtype is not first.dtype or not fits:
            same = x.dtype is first.dtype
            raise (ShapeError if same else DTypeError)(
                f"{method}: elements 0 and {i} of it differ in {'shape' if same else 'dtype'}"
                + _at(treedef, index),
                given=f"{type_of(first)} and {type_of(x)}",
                expected=f"one {'number of axes' if axes is None else 'shape'} and dtype in all",
                hint=_hint(first, x, i == len(row) - 1) if same and axes is not None else None,
            )


def _hint(first: ef.Tensor, other: ef.Tensor, last: bool) -> str:
    """The advice for elements of several shapes; the last may be a smaller batch."""
    if first.ndim != other.ndim:
        return "bring them to one shape before: .map(...)"
    pads = "padded_batch pads them to one shape"
    if last and first.shape[1:] == other.shape[1:] and first.shape[0] > other.shape[0]:
        return f"{pads}; if they are batches, batch(…, drop_last=True) leaves out the smaller one"
    return pads


def _at(treedef: tree.TreeDef, index: int) -> str:
    path = tree.paths(treedef)[index]
    return f" at {path}" if path else ""
