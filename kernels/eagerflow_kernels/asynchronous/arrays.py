"""Arrays in the memory of an asynchronous device, and their functions and operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import numpy as np

from eagerflow_kernels.asynchronous.streams import Work, works_of

if TYPE_CHECKING:
    from eagerflow_kernels.asynchronous.backend import AsyncBackend
    from eagerflow_kernels.asynchronous.memory import MemoryBlock

_OPERATORS: Final = """
    add radd sub rsub mul rmul truediv rtruediv neg abs matmul pow lt le gt ge eq ne and or xor
    rshift lshift iadd isub imul invert
"""


@final
class DeviceArray:
    """An array whose elements only its device can read, once they have been computed.

    NumPy does not accept it as an array. Conversions to Python (``bool(x)``, ``x.item()``) wait for
    the elements; dtype and shape are known at once.

    Attributes:
        backend: of its device.
        index: of its device.
        dtype: of the elements.
        shape: the size of each axis.
        work: the work that computes the elements.
        block: the memory block that it shares with its views; None until its owner is known.
    """

    __slots__ = ("__weakref__", "_elements", "backend", "block", "dtype", "index", "shape", "work")

    __array_ufunc__ = None
    #: it may be a view, in any order: that is not known before the elements are computed
    base = None

    def __init__(
        self, backend: AsyncBackend, index: int, dtype: np.dtype[Any], shape: tuple[int, ...],
        block: MemoryBlock | None,
    ) -> None:  # fmt: skip
        self.backend, self.index, self.dtype, self.shape = backend, index, dtype, shape
        self.block = block
        self.work: Work = _NO_WORK
        self._elements: np.ndarray[Any, Any] | None = None

    def elements(self) -> np.ndarray[Any, Any]:
        """The elements, for work of the device after the work that computes them."""
        assert self._elements is not None
        return self._elements

    def deliver(self, value: Any) -> None:
        """Set the elements; called by the work that computes them.

        Raises:
            TypeError: their dtype or shape differs from the one given when the work was issued.
        """
        value = np.asarray(value)
        if value.dtype != self.dtype or value.shape != self.shape:
            raise TypeError(f"{value.dtype}{value.shape} came for {self.dtype}{self.shape}")
        self._elements = value

    # --- known at once ---

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
        """The bytes that the elements take."""
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> Flags:
        """The flags of an array whose order in memory is unknown."""
        return _FLAGS

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.backend.kind}:{self.index})"

    # --- work that is issued ---

    def __getitem__(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if all(type(part) in _PLAIN for part in parts):
            # an array of one element stands for it: the same rules, and an error now
            shape = np.broadcast_to(np.empty((), self.dtype), self.shape)[key].shape
            return self.backend.issue(
                lambda x: x[key], (self,), self.dtype, shape, self.index, view=True
            )
        return call(np.ndarray.__getitem__, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        call(np.ndarray.__setitem__, self, key, value)

    def copy(self, order: str = "C") -> Any:
        """The same values in memory of their own."""
        return self._issue(lambda x: x.copy(order), self.dtype)

    def astype(self, dtype: Any, *, copy: bool = True) -> Any:
        """The values in another dtype."""
        target = np.dtype(dtype)
        if target == self.dtype and not copy:
            return self
        return self._issue(lambda x: x.astype(target), target)

    def _issue(self, function: Callable[..., Any], dtype: np.dtype[Any]) -> Any:
        return self.backend.issue(function, (self,), dtype, self.shape, self.index)

    def view(self) -> Any:
        """Another array with the same memory."""
        return self[...]

    # --- operations that wait ---

    def _read(self) -> np.ndarray[Any, Any]:
        return self.backend.copy_out(self, self.index)

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self._read().item()

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self._read().tolist()

    def __bool__(self) -> bool:
        return bool(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __index__(self) -> int:
        return self._read().__index__()

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"the host cannot read the memory of {self.backend.kind}:{self.index}; copy_out does"
        )

    def __getattr__(self, name: str) -> Any:
        """A method of NumPy's arrays, which the device runs while the caller waits."""
        method = None if name.startswith("_") else getattr(np.ndarray, name, None)
        if method is None:
            raise AttributeError(name)
        if not callable(method):  # such as `T`
            return call(lambda x: getattr(x, name), self)
        return partial(call, method, self)


@final
class Flags:
    """Flags of an array of unknown layout: it may be a view, in any order."""

    c_contiguous = f_contiguous = owndata = writeable = False


_FLAGS: Final = Flags()
_PLAIN: Final = frozenset({int, slice, type(None), type(...)})
#: the work of arrays whose elements are given
_NO_WORK: Final = Work(())


def _operator(name: str) -> Callable[..., Any]:
    def operate(*args: Any) -> Any:
        return call(getattr(np.ndarray, name), *args)

    return operate


for _name in _OPERATORS.split():
    setattr(DeviceArray, f"__{_name}__", _operator(f"__{_name}__"))


def arrays_in(value: Any) -> Iterator[DeviceArray]:
    """The arrays of devices in a value, also in lists, tuples and dicts."""
    if type(value) is DeviceArray:
        yield value
    elif type(value) in (list, tuple):
        for part in value:
            yield from arrays_in(part)
    elif type(value) is dict:
        yield from arrays_in(list(value.values()))


def with_elements(value: Any) -> Any:
    """A value with NumPy's arrays in place of arrays of devices, for work of a device."""
    if type(value) is DeviceArray:
        return value.elements()
    if type(value) in (list, tuple):
        return type(value)(map(with_elements, value))
    if type(value) is dict:
        return {key: with_elements(part) for key, part in value.items()}
    return value


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function of NumPy, computed by the device of its arguments, and awaited.

    Dtypes and shapes of results, and the arrays written into, are not known before.
    """
    first = next(arrays_in((args, kwargs)))
    made: list[Any] = []

    def compute() -> None:
        made.append(function(*with_elements(args), **with_elements(kwargs)))

    work = Work([compute], works_of(arrays_in((args, kwargs))))
    first.backend.stream(first.index).issue(work)
    work.wait()
    return first.backend.owned(made[0], first.index, tuple(arrays_in((args, kwargs))))


@final
class Namespace:
    """NumPy's functions, for arrays of one device.

    Args:
        backend: of the device.
        index: of the device.
    """

    def __init__(self, backend: AsyncBackend, index: int) -> None:
        self._backend, self._index = backend, index

    def asarray(self, value: Any, dtype: Any = None, *, order: Any = None) -> Any:
        """An array of the device."""
        if type(value) is not DeviceArray:
            made = np.asarray(value, dtype, order=order)
            return self._backend.copy_in(made, self._index, borrowed=made is value)
        if dtype is not None and np.dtype(dtype) != value.dtype:
            value = value.astype(dtype)
        return value.copy() if order == "C" else value

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if isinstance(function, np.ufunc):
            return Elementwise(self._backend, self._index, function)
        if isinstance(function, type) or not callable(function):
            return function
        return partial(self._call, function)

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if any(True for _ in arrays_in((args, kwargs))):
            return call(function, *args, **kwargs)
        return self._backend.owned(function(*args, **kwargs), self._index, ())


@final
class Elementwise:
    """A ufunc, whose result has a dtype and shape that are known before it is computed."""

    def __init__(self, backend: AsyncBackend, index: int, ufunc: np.ufunc) -> None:
        self._backend, self._index, self._ufunc = backend, index, ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ufunc = self._ufunc
        if kwargs or ufunc.nout != 1 or ufunc.signature is not None:
            return call(ufunc, *args, **kwargs)
        kinds = [type(x) if type(x) in (int, float, complex) else _dtype(x) for x in args]
        dtype = ufunc.resolve_dtypes((*kinds, None))[-1]
        shape = np.broadcast_shapes(*[getattr(x, "shape", ()) for x in args])
        return self._backend.issue(ufunc, args, dtype, shape, self._index)

    def at(self, array: Any, *args: Any) -> None:
        """Change elements, one after the other."""
        call(self._ufunc.at, array, *args)


def _dtype(x: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return dtype


def results(value: Any) -> Sequence[Any]:
    """The results of a kernel, as a sequence."""
    return value if type(value) is tuple else (value,)
