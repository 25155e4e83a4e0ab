"""`IndexedSlices`: the sparse gradient of gather."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np

from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import Dim, same
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import Device
from eagerflow.types import (
    DType,
    DTypeLike,
    Shape,
    TensorSpec,
    TensorType,
    may_be_same_shape,
    same_shape,
)


@final
class IndexedSlices:
    """Rows of an array of which all other rows are zero: the sparse gradient of a gather.

    Rows of the same index add up in the array that they stand for. Indexed slices can be scaled,
    negated, and added to each other, which gives rows again; added to a tensor they give a tensor.
    Where a tensor is expected they stand for the whole array.

    Args:
        values: ``T[k, *rest]``, the rows.
        indices: integers ``[k]``, the position of each along the first axis, not negative.
        shape: ``(n, *rest)``, the shape of the whole array.

    Raises:
        ShapeError: the three do not fit together.
        DTypeError: the indices are no integers.

    Attributes:
        values: the rows.
        indices: the position of each.
        shape: the shape of the whole array.

    >>> s = ef.IndexedSlices(ef.tensor([[1.0], [2.0]]), ef.tensor([2, 0]), (3, 1))
    >>> (s * 10).to_dense()
    Tensor([[20.],
            [ 0.],
            [10.]], f32[3,1]@cpu:0)
    """

    __slots__ = ("indices", "shape", "values")
    __array_priority__ = 1000

    def __init__(self, values: TensorLike, indices: TensorLike, shape: Shape) -> None:
        self.values = tensor_of(values)
        self.indices = tensor_of(indices)
        self.shape = tuple(shape)
        if not self.indices.dtype.is_integer:
            raise DTypeError(
                "IndexedSlices: the indices must be integers", given=str(self.indices.type)
            )
        whole = (*self.indices.shape, *self.shape[1:])
        if not self.shape or not may_be_same_shape(self.values.shape, whole):
            raise ShapeError(
                "IndexedSlices: values, indices and shape do not fit together",
                given=f"values={self.values.type}, indices={self.indices.type}, shape={shape}",
                expected="values [k, *rest], indices [k], shape (n, *rest)",
            )

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def device(self) -> Device:
        """The device of the values."""
        return self.values.device

    @property
    def ndim(self) -> int:
        """The number of axes of the whole array."""
        return len(self.shape)

    @property
    def type(self) -> TensorSpec:
        """The type of the whole array, with the device."""
        return TensorSpec(TensorType(self.dtype, self.shape), self.device)

    def to_dense(self) -> Tensor:
        """The whole array, with rows of the same index added up."""
        return functions["segment_sum"](self.values, self.indices, self.shape[0])

    def coalesce(self) -> IndexedSlices:
        """The same array with each index at most once, as functions not linear in rows need it.

        >>> s = ef.IndexedSlices(ef.tensor([1.0, 2.0, 4.0]), ef.tensor([2, 0, 2]), (3,))
        >>> s.coalesce().values, s.coalesce().indices
        (Tensor([2., 5.], f32[2]@cpu:0), Tensor([0, 2], i64[2]@cpu:0))
        """
        rows, inverse = functions["unique_inverse"](self.indices)
        values = functions["segment_sum"](self.values, inverse, rows.shape[0])
        return IndexedSlices(values, rows, self.shape)

    def astype(self, dtype: DTypeLike) -> IndexedSlices:
        """The same slices with values of another dtype."""
        return IndexedSlices(self.values.astype(dtype), self.indices, self.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The whole array as a read-only NumPy array."""
        return self.to_dense().numpy()

    def __getitem__(self, key: Any) -> Tensor:
        """A part of the whole array."""
        return self.to_dense()[key]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.to_dense())

    def __tensor__(self) -> Tensor:
        return self.to_dense()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.to_dense().__array__(dtype, copy)

    # --- arithmetic ---

    def _rows_of(self, factor: TensorLike) -> TensorLike:
        """The rows of a factor of the whole array at the indices."""
        if isinstance(factor, (int, float, complex, Dim)):
            return factor
        x = tensor_of(factor)
        if x.ndim > self.ndim:
            raise ShapeError(
                "IndexedSlices: a factor has more axes than the array",
                given=f"{self.type} and {x.type}",
            )
        if x.ndim < self.ndim or same(x.shape[0], 1):
            return x
        if not same(x.shape[0], self.shape[0]):  # may be 1 when the graph runs
            x = functions["broadcast_to"](x, (self.shape[0], *x.shape[1:]))
        return functions["take"](x, self.indices, axis=0)

    def __mul__(self, factor: TensorLike) -> IndexedSlices:
        return IndexedSlices(self.values * self._rows_of(factor), self.indices, self.shape)

    __rmul__ = __mul__

    def __truediv__(self, divisor: TensorLike) -> IndexedSlices:
        return IndexedSlices(self.values / self._rows_of(divisor), self.indices, self.shape)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.shape)

    def __add__(self, other: TensorLike | IndexedSlices) -> Any:
        if not isinstance(other, IndexedSlices):
            return functions["add"](self.to_dense(), other)
        # unknown shapes are taken for different: no later check would notice
        if not same_shape(other.shape, self.shape) and other.shape != self.shape:
            raise ShapeError(
                "IndexedSlices: the slices to be added are of different arrays",
                given=f"{self.type} and {other.type}",
            )
        values = functions["concat"]([self.values, other.values], axis=0)
        indices = functions["concat"]([self.indices, other.indices], axis=0)
        return IndexedSlices(values, indices, self.shape)

    __radd__ = __add__

    def __sub__(self, other: TensorLike | IndexedSlices) -> Any:
        minus = -other if isinstance(other, IndexedSlices) else functions["negative"](other)
        return self + minus

    def __rsub__(self, other: TensorLike) -> Any:
        return -self + other

    def __repr__(self) -> str:
        return (
            f"IndexedSlices(values={type_of(self.values)}, indices={type_of(self.indices)}, "
            f"shape={self.shape})"
        )
