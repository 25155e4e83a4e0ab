"""A device kind of a third party, whose arrays are of a class of its own and wrap NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from eagerflow.hardware import KernelCall, MemoryStats


def unwrap(value: Any) -> Any:
    """The value with NumPy arrays in place of fake ones, also in lists and tuples."""
    if isinstance(value, FakeArray):
        return value.inner
    if type(value) in (list, tuple):
        return type(value)(map(unwrap, value))
    return value


def wrap(value: Any) -> Any:
    """The inverse of `unwrap`; NumPy's scalars become arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        return FakeArray(np.asarray(value))
    if isinstance(value, (list, tuple)):
        return tuple(map(wrap, value))
    return value


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function of NumPy on fake arrays."""
    kwargs = {k: unwrap(v) for k, v in kwargs.items()}
    return wrap(function(*map(unwrap, args), **kwargs))


class FakeArray:
    """An array of the fake accelerator, which NumPy does not take for one of its own."""

    __array_ufunc__ = None

    def __init__(self, inner: np.ndarray[Any, Any]) -> None:
        self.inner = inner

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inner.dtype

    @property
    def ndim(self) -> int:
        return self.inner.ndim

    @property
    def size(self) -> int:
        return self.inner.size

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("an array of the fake accelerator does not become NumPy's by itself")

    def __bool__(self) -> bool:
        return bool(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = getattr(self.inner, name)
        if callable(attribute):
            return lambda *args, **kwargs: call(attribute, *args, **kwargs)
        return wrap(attribute)


def _operator(name: str) -> Any:
    return lambda *args: call(getattr(np.ndarray, name), *args)


_OPERATORS = """
    add radd sub rsub mul rmul truediv rtruediv neg abs matmul pow lt le gt ge eq ne and or xor
    rshift lshift getitem setitem len int iadd isub imul irshift invert
"""
for _name in _OPERATORS.split():
    setattr(FakeArray, f"__{_name}__", _operator(f"__{_name}__"))


class FakeNamespace:
    """The array namespace for portable kernels: NumPy's functions on fake arrays."""

    def __getattr__(self, name: str) -> Any:
        member = getattr(np, name)
        if isinstance(member, type) or not callable(member):
            return member
        function = partial(call, member)
        if isinstance(member, np.ufunc):
            function.at = partial(call, member.at)
        return function


class FakeBackend:
    """Two devices that count copies to and from them."""

    kind = "fake"
    array_type = FakeArray
    holds_bytes = False
    holds_data = True

    def __init__(self) -> None:
        self.copied_in = self.copied_out = self.copied_across = 0
        self.released: list[int] = []

    def count(self) -> int:
        return 2

    def namespace(self, index: int) -> FakeNamespace:
        return FakeNamespace()

    def launcher(self, call: KernelCall, index: int) -> Callable[..., Any]:
        return call.kernel(self.namespace(index), FakeArray)

    def allocate(self, shape: tuple[int, ...], dtype: Any, index: int) -> FakeArray:
        return FakeArray(np.empty(shape, dtype))

    def copy_in(self, array: np.ndarray[Any, Any], index: int, *, borrowed: bool) -> FakeArray:
        self.copied_in += array.nbytes
        return FakeArray(array.copy())

    def copy_out(self, data: FakeArray, index: int) -> np.ndarray[Any, Any]:
        self.copied_out += data.inner.nbytes
        return data.inner.copy()

    def copy_to_peer(self, data: FakeArray, index: int, peer: int) -> FakeArray:
        self.copied_across += data.inner.nbytes
        return FakeArray(data.inner.copy())

    def ready(self, data: FakeArray) -> bool:
        return True

    def when_ready(self, data: FakeArray, done: Callable[[Exception | None], object]) -> None:
        done(None)

    def synchronize(self, index: int) -> None:
        """Returns at once: no work is ever under way."""

    def memory(self, index: int) -> MemoryStats:
        return MemoryStats(7, 8, None, 16)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        raise ValueError

    def held(self, index: int) -> list[Any]:
        return []

    def release(self, index: int) -> None:
        self.released.append(index)
