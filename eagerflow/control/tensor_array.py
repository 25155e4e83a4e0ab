"""`TensorArray`: a list of tensors of one type, as a value in loops and graphs."""

from __future__ import annotations

from typing import Any, SupportsInt, final

from eagerflow.core import tree
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.dims import Dim, Size, may_equal, same
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.hardware import as_device
from eagerflow.ops.rules.promotion import weak_fits
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.state.lists import (
    list_new,
    list_read,
    list_size,
    list_stack,
    list_unstack,
    list_write,
)
from eagerflow.types import LIST, TensorSpec, TensorType


@final
class TensorArray:
    """An immutable list of tensors of one type: `write` returns a new list.

    The old list is unchanged, and a write takes the same time whatever the length. It works
    eagerly and in traced functions, may be a loop-carried value, and derivatives flow through it.
    Elements that were not written are zero.

    Args:
        size: the number of elements, or the initial number if ``dynamic``.
        like: a tensor or a type, which determines dtype and shape of the elements.
        dynamic: whether a write beyond the end makes the list longer.

    Raises:
        TensorValueError: the size is negative.
        DTypeError: ``like`` is itself a list of tensors.

    >>> squares = ef.TensorArray(3, ef.tensor(0))
    >>> for i in range(3):
    ...     squares = squares.write(i, i * i)
    >>> squares.stack(), squares.read(2)
    (Tensor([0, 1, 4], i64[3]@cpu:0), Tensor(4, i64[]@cpu:0))
    """

    __slots__ = ("_count", "_kind", "_values", "dynamic")

    def __init__(
        self,
        size: SupportsInt,
        like: TensorLike | TensorType | TensorSpec,
        *,
        dynamic: bool = False,
    ) -> None:
        count: Any = size if type(size) is Dim else int(size)
        if type(count) is int and count < 0:
            raise TensorValueError("TensorArray: the size is negative", given=str(count))
        kind = like if isinstance(like, (TensorSpec, TensorType)) else tensor_of(like).type
        if kind.dtype is LIST:
            raise DTypeError("TensorArray: elements must be tensors", given=str(kind))
        device = as_device(kind.device if isinstance(kind, TensorSpec) else None)
        self._kind = TensorType(kind.dtype, kind.shape).on(device)
        self._count: Size | None = None if dynamic else count
        self.dynamic = bool(dynamic)
        self._values = list_new(device, count)

    def _with(self, values: Tensor) -> TensorArray:
        made = object.__new__(TensorArray)
        made._kind, made._count, made.dynamic = self._kind, self._count, self.dynamic
        made._values = values
        return made

    def write(self, index: TensorLike, value: TensorLike, /) -> TensorArray:
        """A new list with ``value`` at ``index``.

        Args:
            index: an integer, at least 0.
            value: a tensor of the dtype and shape of an element.

        Raises:
            TensorIndexError: the index is out of range, and the list is not ``dynamic``.
            DTypeError: ``value`` has another dtype.
            ShapeError: ``value`` has another shape.
        """
        x = self._element(value)
        position = self._index(index)
        return self._with(list_write(self._values, position, x, grow=self.dynamic))

    def read(self, index: TensorLike, /) -> Tensor:
        """The element at ``index``.

        Raises:
            TensorIndexError: the index is out of range.
        """
        return list_read(self._values, self._index(index), self._kind, strict=True)

    def stack(self) -> Tensor:
        """All elements along a new first axis, ``[size, *element]``."""
        return list_stack(self._values, self._kind, self._count)

    def unstack(self, value: TensorLike, /) -> TensorArray:
        """A new list of the slices of ``value`` along its first axis.

        Args:
            value: ``[size, *element]``.

        Raises:
            ShapeError: ``value`` has another shape; a list that is not dynamic keeps its size.
        """
        x = tensor_of(value)
        if not x.shape:
            raise ShapeError("TensorArray: there is no first axis", given=str(x.type))
        x = self._fitted(x, (x.shape[0] if self._count is None else self._count, *self._kind.shape))
        return self._with(list_unstack(x))

    def size(self) -> Tensor:
        """The number of elements, int64 without axes."""
        return list_size(self._values)

    def _index(self, index: TensorLike) -> Tensor:
        if isinstance(index, float) and not isinstance(index, AbstractArray):
            raise DTypeError("TensorArray: the index is not an integer", given=repr(index))
        device = None if isinstance(index, AbstractArray) else self._kind.device
        position = as_tensor(index, None, device)
        if not position.dtype.is_integer or position.shape:
            raise DTypeError(
                "TensorArray: the index is not an integer",
                given=str(position.type),
                expected="i64[]",
            )
        return position

    def _element(self, value: TensorLike) -> Tensor:
        kind = self._kind
        if not isinstance(value, AbstractArray) and weak_fits(value, kind.dtype):
            value = as_tensor(value, kind.dtype, kind.device)
        return self._fitted(tensor_of(value), kind.shape)

    def _fitted(self, x: Tensor, shape: Any) -> Tensor:
        given, expected = str(x.type), str(self._kind.like(shape=shape))
        if x.dtype is not self._kind.dtype:
            wrong = "TensorArray: the elements are of another dtype"
            raise DTypeError(wrong, given=given, expected=expected)
        wrong = "TensorArray: the elements have another shape"
        if len(x.shape) != len(shape) or not all(map(may_equal, x.shape, shape)):
            raise ShapeError(wrong, given=given, expected=expected)
        return matched(x, x.shape, shape, wrong, f"{given} for {expected}")

    def __repr__(self) -> str:
        size = "any number" if self._count is None else self._count
        return f"TensorArray({size} of {self._kind})"


@final
class _Kind:
    """The key by which structures with `TensorArray` are compared."""

    __slots__ = ("array",)

    def __init__(self, array: TensorArray) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Kind):
            return False
        a, b = self.array, other.array
        if a._kind.dtype is not b._kind.dtype or a._kind.device is not b._kind.device:
            return False
        first, second = [(-1 if x._count is None else x._count, *x._kind.shape) for x in (a, b)]
        return len(first) == len(second) and all(map(same, first, second))

    def __hash__(self) -> int:
        return hash((self.array._kind.dtype, self.array.dynamic))


def _take(array: TensorArray) -> tuple[tuple[Tensor], _Kind]:
    bare = array._with(None)  # type: ignore[arg-type]  # structures hold no tensors
    return (array._values,), _Kind(bare)


def _make(kind: _Kind, children: Any) -> TensorArray:
    (values,) = children
    return kind.array._with(values)


tree.register(TensorArray, _take, _make)
