"""`IndexedSlices`: the sparse gradient of gather."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.hardware import Device
from eagerflow.types import DType, Shape

__all__ = ["IndexedSlices"]


@final
class IndexedSlices:
    """Rows of an array of which all other rows are zero: the sparse gradient of a gather.

    A row may occur more than once; the array it stands for is then the sum.

    Attributes:
        values: ``T[k, *rest]``, the rows.
        indices: ``i64[k]``, the place of each along the first axis.
        shape: ``(n, *rest)``, the shape of the whole array.

    >>> s = ef.IndexedSlices(ef.tensor([[1.0], [2.0]]), ef.tensor([2, 0]), (3, 1))
    >>> s.to_dense()
    Tensor([[2.],
            [0.],
            [1.]], f32[3,1]@cpu:0)
    """

    __slots__ = ("indices", "shape", "values")

    def __init__(self, values: Tensor, indices: Tensor, shape: Shape) -> None:
        self.values = values
        self.indices = indices
        self.shape = shape

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def device(self) -> Device:
        """Where the values are."""
        return self.values.device

    def to_dense(self) -> Tensor:
        """The whole array, rows of the same index added up."""
        result: Tensor = functions["segment_sum"](self.values, self.indices, self.shape[0])
        return result

    def numpy(self) -> np.ndarray[Any, Any]:
        """The whole array as a NumPy array."""
        return self.to_dense().numpy()

    def __tensor__(self) -> Tensor:
        return self.to_dense()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.to_dense().__array__(dtype, copy)

    def __mul__(self, scale: Any) -> IndexedSlices:
        return IndexedSlices(self.values * scale, self.indices, self.shape)

    __rmul__ = __mul__

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.shape)

    def __truediv__(self, scale: Any) -> IndexedSlices:
        return IndexedSlices(self.values / scale, self.indices, self.shape)

    def __repr__(self) -> str:
        return (
            f"IndexedSlices(values={type_of(self.values)}, indices={type_of(self.indices)}, "
            f"shape={self.shape})"
        )
