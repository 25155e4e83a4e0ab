"""NumPy-style methods of tensors and variables: each calls the public function of its name."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerflow.core.op import functions
from eagerflow.errors import AxisError, TensorValueError
from eagerflow.source import warn

if TYPE_CHECKING:
    from eagerflow.core.tensor import Tensor
    from eagerflow.hardware import Device
    from eagerflow.types import DType, DTypeLike, Shape

Axis = int | tuple[int, ...] | None


def _without_out(name: str, out: None) -> Callable[..., Tensor]:
    """The public function of that name; ``out`` is refused."""
    if out is not None:
        raise TensorValueError(
            f"{name}: there is no out=", hint="tensors are values: take the result instead"
        )
    return functions[name]


class AbstractMethods(ABC):
    """NumPy-style methods; ``self`` is the first argument of the function."""

    __slots__ = ()

    @property
    @abstractmethod
    def dtype(self) -> DType:
        """The type of the elements."""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """The size of each axis."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """The device of the elements."""

    @abstractmethod
    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array."""

    # --- reductions ---

    # `out` exists because NumPy's functions pass it (`np.sum(x)` calls `x.sum(out=None)`)

    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        *,
        out: None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Sum over axes; see `eagerflow.sum`."""
        return _without_out("sum", out)(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        *,
        out: None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Product over axes; see `eagerflow.prod`."""
        return _without_out("prod", out)(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        *,
        out: None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Mean over axes; see `eagerflow.mean`."""
        return _without_out("mean", out)(self, axis, dtype, keepdims=keepdims)

    def var(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        out: None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Variance over axes; see `eagerflow.var`. ``ddof`` is NumPy's name of ``correction``."""
        compute = _without_out("var", out)
        return compute(self, axis, dtype, correction=correction, ddof=ddof, keepdims=keepdims)

    def std(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        out: None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Standard deviation over axes; see `eagerflow.std`, and `var` for ``ddof``."""
        compute = _without_out("std", out)
        return compute(self, axis, dtype, correction=correction, ddof=ddof, keepdims=keepdims)

    def max(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Largest element over axes; see `eagerflow.max`."""
        return _without_out("max", out)(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Smallest element over axes; see `eagerflow.min`."""
        return _without_out("min", out)(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Whether any element is true; see `eagerflow.any`."""
        return _without_out("any", out)(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Whether all elements are true; see `eagerflow.all`."""
        return _without_out("all", out)(self, axis=axis, keepdims=keepdims)

    def argmax(
        self, axis: int | None = None, *, out: None = None, keepdims: bool = False
    ) -> Tensor:
        """Index of the largest element; see `eagerflow.argmax`."""
        return _without_out("argmax", out)(self, axis=axis, keepdims=keepdims)

    def argmin(
        self, axis: int | None = None, *, out: None = None, keepdims: bool = False
    ) -> Tensor:
        """Index of the smallest element; see `eagerflow.argmin`."""
        return _without_out("argmin", out)(self, axis=axis, keepdims=keepdims)

    def cumsum(
        self, axis: int | None = None, dtype: DTypeLike = None, *, out: None = None
    ) -> Tensor:
        """Cumulative sum; see `eagerflow.cumulative_sum`."""
        x = self.ravel() if axis is None else self
        return _without_out("cumsum", out)(x, axis=axis or 0, dtype=dtype)

    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike = None, *, out: None = None
    ) -> Tensor:
        """Cumulative product; see `eagerflow.cumulative_prod`."""
        x = self.ravel() if axis is None else self
        return _without_out("cumprod", out)(x, axis=axis or 0, dtype=dtype)

    # --- shape ---

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape, given as a tuple or as several numbers."""
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return functions["reshape"](self, sizes)

    def ravel(self) -> Tensor:
        """The elements along one axis."""
        return functions["reshape"](self, (-1,))

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Tensor:
        """The elements with all axes from ``start_axis`` to ``end_axis`` joined into one.

        >>> ef.zeros((2, 3, 4)).flatten(1).shape
        (2, 12)
        """
        shape, ndim = self.shape, max(len(self.shape), 1)
        start, end = start_axis % ndim, end_axis % ndim
        if not (-ndim <= start_axis < ndim and -ndim <= end_axis < ndim and start <= end):
            raise AxisError(
                "flatten: the axes do not fit the input",
                given=f"x of shape {shape}, start_axis={start_axis}, end_axis={end_axis}",
                expected="axes of the input, the first not after the last",
            )
        size = math.prod(shape[start : end + 1])
        return functions["reshape"](self, (*shape[:start], size, *shape[end + 1 :]))

    def squeeze(self, axis: Axis = None) -> Tensor:
        """The elements without axes of size 1: without all such axes, or without ``axis``."""
        return functions["squeeze"](self, axis)

    def transpose(self, *axes: Any) -> Tensor:
        """The elements with axes permuted: reversed, or in the given order."""
        # for two axes the identity order is surely a mistake: PyTorch swaps them by (0, 1)
        if axes == (0, 1) and len(self.shape) == 2:
            warn(
                "x.transpose(0, 1) keeps the axes in their order; to swap the two, write x.T or "
                "x.swapaxes(0, 1)",
                UserWarning,
            )
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return functions["transpose"](self, order or None)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """The elements with two axes exchanged."""
        return functions["swapaxes"](self, axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Tensor:
        """Each element several times; see `eagerflow.repeat`."""
        return functions["repeat"](self, repeats, axis=axis)

    @property
    def T(self) -> Tensor:
        """The elements with the axes in reverse order."""
        return functions["transpose"](self)

    @property
    def mT(self) -> Tensor:
        """The elements with the last two axes exchanged."""
        return functions["matrix_transpose"](self)

    # --- elements ---

    @property
    def real(self) -> Tensor:
        """The real part."""
        return functions["real"](self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return functions["imag"](self)

    def conj(self) -> Tensor:
        """The complex conjugate."""
        return functions["conj"](self)

    def clip(self, min: Any = None, max: Any = None, *, out: None = None) -> Tensor:
        """The elements limited to a range; see `eagerflow.clip`."""
        return _without_out("clip", out)(self, min, max)

    def round(self, decimals: int = 0, *, out: None = None) -> Tensor:
        """Round to ``decimals`` digits after the point, ties to even; see `eagerflow.round`."""
        return _without_out("round", out)(self, decimals)

    def __round__(self, ndigits: int | None = None) -> Tensor:
        return self.round(ndigits or 0)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return functions["floor_divide"](self, other), functions["remainder"](self, other)

    def dot(self, other: Any) -> Tensor:
        """The matrix product; see `eagerflow.matmul`."""
        return functions["matmul"](self, other)

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """Elements at indices along an axis; see `eagerflow.take`."""
        return functions["take"](self.ravel() if axis is None else self, indices, axis=axis or 0)

    def sort(self, axis: int = -1, *, descending: bool = False) -> Tensor:
        """A sorted copy (unlike NumPy's method, which sorts in place)."""
        return functions["sort"](self, axis=axis, descending=descending)

    def argsort(self, axis: int = -1, *, descending: bool = False) -> Tensor:
        """The indices that sort the elements; see `eagerflow.argsort`."""
        return functions["argsort"](self, axis=axis, descending=descending)

    def nonzero(self) -> Any:
        """The indices of elements that are not zero, an array per axis."""
        return functions["nonzero"](self)

    def copy(self) -> Tensor:
        """A tensor of the same value in memory of its own."""
        return functions["asarray"](self, copy=True)

    # --- dtype and device ---

    def astype(self, dtype: DTypeLike, *, copy: bool = True, device: Any = None) -> Tensor:
        """The elements with another dtype; see `eagerflow.astype`."""
        return functions["astype"](self, dtype, copy=copy, device=device)

    def to(self, device: Any, *, sent_as: DTypeLike | None = None) -> Tensor:
        """The tensor on another device; itself if it is there already (`eagerflow.to_device`)."""
        return functions["to_device"](self, device, sent_as=sent_as)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The tensor on another device (the name in the array API standard)."""
        return functions["to_device"](self, device)


for _name, _method in vars(AbstractMethods).items():
    if hasattr(_method, "__qualname__"):  # the name in messages about arguments
        _method.__qualname__ = f"Tensor.{_name}"
