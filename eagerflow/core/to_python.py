"""Conversion of arrays for Python and other libraries: numbers, lists, NumPy, DLPack."""

from __future__ import annotations

import operator
import sys
from abc import abstractmethod
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerflow.core.byte_arrays import byte_count
from eagerflow.core.interpreter import is_followed
from eagerflow.core.op import functions
from eagerflow.core.tensor_methods import AbstractMethods
from eagerflow.errors import (
    DeviceError,
    DTypeError,
    GradientError,
    TensorValueError,
    UnhashableError,
    hide_frames,
)
from eagerflow.types import BYTES, TensorSpec, TensorType
from eagerflow.wrong_calls import check_unpacking

if TYPE_CHECKING:
    from eagerflow.core.tensor import Tensor


class AbstractConversions(AbstractMethods):
    """Conversions of tensors and variables, by `numpy` and by indexing."""

    __slots__ = ()

    @abstractmethod
    def __tensor__(self) -> Tensor:
        """The value, as a tensor."""

    @abstractmethod
    def __getitem__(self, key: Any) -> Tensor:
        """The elements at ``key``."""

    @property
    def ctypes(self) -> Any:
        """The address of the elements in host memory, as `numpy.ndarray.ctypes`, to read only.

        The elements are contiguous, in row-major order, as long as this object has this value.

        Raises:
            DeviceError: the elements are on another device.
            TensorValueError: the value of a variable is in another order.
        """
        x = self.__tensor__()
        if x.device.kind != "cpu":
            raise DeviceError(
                "ctypes: the elements are not in the memory of the host",
                given=str(x.type),
                hint="x.to('cpu').ctypes",
            )
        array = x.numpy()
        if not array.flags.c_contiguous:
            if x is not self:
                raise TensorValueError(
                    "ctypes: the elements do not lie in row-major order",
                    given=str(x.type),
                    hint="take a tensor: x.value",
                )
            x._data = array = np.ascontiguousarray(array)  # the same value
        return array.ctypes

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TensorValueError("len() of a tensor with no axes", given=str(self.type))
        size: Any = shape[0]
        # `len` accepts an int only; in converted code a call of `len` gives the size itself
        return size if type(size) is int else size.ask("len(), where x.shape[0] stays symbolic,")

    def __iter__(self) -> Iterator[Tensor]:
        try:
            check_unpacking(self, sys._getframe(1))
        except BaseException as error:
            hide_frames(error)
            raise
        if not self.shape:
            raise DTypeError("a tensor with no axes cannot be iterated", given=str(self.type))
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __hash__(self) -> int:
        raise UnhashableError(
            f"a {type(self).__name__} is not hashable",
            given=str(self.type),
            hint="its == compares elements; use id(x), or a position in a list, as the key",
        )

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        if self.dtype.is_complex:
            raise DTypeError("float() of a complex tensor", hint="take .real first")
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        self._check_index()
        return operator.index(self._scalar("index"))

    def _check_index(self) -> None:
        """Refuse a tensor that cannot be an index."""
        if not self.dtype.is_integer or self.shape:
            raise DTypeError(
                "only an integer tensor with no axes can be an index", given=str(self.type)
            )

    def __format__(self, spec: str) -> str:
        x = self.__tensor__()
        if x._lane.symbolic:
            text: str = x._data.text(x, lambda known: format(known, spec))
            return text
        if spec and not self.shape:
            return format(unmarked(x).item(), spec)
        try:
            return format(str(self), spec)
        except ValueError:
            raise TensorValueError(
                f"the format {spec!r} is for one number",
                given=str(self.type),
                hint="ef.round(x, 2) rounds all elements, x.mean() is one number",
            ) from None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self.__tensor__()
        _check_unfollowed(value)
        if value._lane.symbolic:
            value._data.concrete("numpy.asarray()")
        array = value.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise TensorValueError("another dtype needs a copy", given=str(self.type))
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return functions["__array_namespace__"](api_version)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The memory of this value, for ``from_dlpack`` of another library.

        It is flagged read-only. A library that ignores the flag, as PyTorch does, can write into
        it, which changes this value, its views and the variable that it was read from. A copy is
        safe: ``torch.from_dlpack(x, copy=True)`` or ``torch.tensor(x)``.

        Args:
            stream: the stream of the device, if it has streams.
            max_version: the version of DLPack that the consumer knows. A consumer that does not
                know the flag (before 1.0) gets a copy.
            dl_device: the device that the consumer wants the memory on.
            copy: True always copies, into memory that is the consumer's own; False never does;
                None only if needed.

        Raises:
            InterchangeError: the value cannot be exchanged (a BufferError too).
            GradientError: it would be taken out of a gradient that is being computed.

        >>> x = ef.tensor([1.0, 2.0])
        >>> np.from_dlpack(x).flags.writeable
        False
        >>> theirs = np.from_dlpack(x, copy=True)
        >>> theirs[0] = 9.0
        >>> x
        Tensor([1., 2.], f32[2]@cpu:0)
        """
        _check_unfollowed(self.__tensor__())
        return functions["__dlpack__"](self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[Any, int]:
        device: Any = functions["__dlpack_device__"]  # unlike most functions it returns no tensor
        pair: tuple[Any, int] = device(self)
        return pair

    def _scalar(self, what: str) -> Any:
        x = self.__tensor__()
        if x.dtype is BYTES:  # Python would read digits
            raise DTypeError(
                f"{what}() of bytes", given=str(self.type), hint="ef.io.parse_numbers reads numbers"
            )
        if x._lane.symbolic:
            return x._data.concrete(f"{what}()").item()
        if self.size != 1:
            raise TensorValueError(
                f"{what}() of a tensor with {self.size} elements",
                given=str(self.type),
                expected="exactly one element",
                hint="use .any() or .all()" if what == "bool" else None,
            )
        return self.item()

    @property
    def type(self) -> TensorSpec:
        """The type, with the device: ``f32[8,128]@cpu:0``."""
        return TensorSpec(TensorType(self.dtype, self.shape), self.device)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes; for dtype bytes, their total length."""
        if self.dtype is BYTES:
            return byte_count(self.__tensor__().numpy())
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def item(self) -> Any:
        """The only element, as a Python number, or ``bytes``.

        >>> ef.tensor([2.5]).item()
        2.5
        """
        x = self.__tensor__()
        if x._lane.symbolic:
            return x._data.concrete("item()").item()
        if self.size != 1:
            raise TensorValueError(
                f"item() of a tensor with {self.size} elements",
                given=str(self.type),
                hint="x.tolist() and x.numpy() are all of them, x.sum() and x.mean() one number",
            )
        return self.numpy().item()

    def tolist(self) -> Any:
        """The elements as nested Python lists.

        >>> ef.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        x = self.__tensor__()
        if x._lane.symbolic:
            return x._data.concrete("tolist()").tolist()
        return self.numpy().tolist()


def unmarked(x: Tensor) -> Tensor:
    """The value without marks of interpreters: displaying it takes nothing out of a gradient."""
    out = type(x)()
    out._data, out._lane, out._mark = x._data, x._lane, None
    return out


def _check_unfollowed(x: Tensor) -> None:
    """Refuse to give a value to another library while a gradient flows through it."""
    if x._mark is not None and is_followed(x):
        raise GradientError(
            "another library would take this tensor out of the gradient",
            given=str(x.type),
            hint="use eagerflow's function of that name, or ef.stop_gradient(x) or x.numpy()"
            " if nothing is to be differentiated here",
        )
