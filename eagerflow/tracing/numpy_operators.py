"""Operators and conversions of the stand-ins for arrays of NumPy in a trace."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eagerflow.core.abstract_symbols import AbstractTracedArray
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.errors import TraceError


def _binary(ufunc: Any) -> Any:
    def method(self: AbstractArrayOperators, other: Any) -> Any:
        return (
            NotImplemented if isinstance(other, AbstractArray) else self.apply(ufunc, self, other)
        )

    return method


def _reflected(ufunc: Any) -> Any:
    return lambda self, other: self.apply(ufunc, other, self)


def _unary(ufunc: Any) -> Any:
    return lambda self: self.apply(ufunc, self)


def _in_place(sign: str, written: Callable[..., Any], made: Callable[..., Any]) -> Any:
    """An in-place operator: a known array applies its own; else the stand-in gets new elements."""

    def method(self: AbstractArrayOperators, other: Any) -> Any:
        if self.is_scalar:
            return NotImplemented  # nothing is written: Python takes the operator without =
        if self.is_known:
            written(self.elements(sign), other)
            return self
        result = made(self, other)
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise self.refusal(sign, f"the result is {result.dtype}")
        self.write(sign, lambda _: result.tensor)
        return self

    return method


def _converted(what: str, function: Callable[..., Any]) -> Any:
    return lambda self, *args: function(self.elements(what), *args)


def _spelled(function: Callable[..., str]) -> Any:
    """A text of an array: if only the graph knows the elements, a placeholder."""

    def method(self: AbstractArrayOperators, *args: Any) -> Any:
        if self.is_known:
            return function(self.elements("a text"), *args)
        x, make = handle_of(self.tensor), self.maker
        return x._data.text(x, lambda now: function(make(now), *args))

    return method


class AbstractArrayOperators(AbstractTracedArray):
    """The operators, implemented by NumPy's functions, and conversions, by the elements.

    Attributes:
        tensor: the elements.
    """

    __slots__ = ()
    tensor: Tensor

    @property
    @abstractmethod
    def is_scalar(self) -> bool:
        """Whether it stands for a scalar, which is immutable."""

    @property
    @abstractmethod
    def is_known(self) -> bool:
        """Whether it has elements while tracing."""

    @abstractmethod
    def apply(self, ufunc: Any, *inputs: Any) -> Any:
        """The result of a function of NumPy."""

    @abstractmethod
    def elements(self, what: str) -> Any:
        """The array itself, for an operation, if it has elements while tracing."""

    @abstractmethod
    def write(self, what: str, change: Callable[[Tensor], Tensor]) -> None:
        """Give it other elements, if no other array can share its memory."""

    @abstractmethod
    def refusal(self, what: str, why: str = "") -> TraceError:
        """The error for an operation that cannot become part of a graph."""

    @abstractmethod
    def check_power(self, exponent: Any) -> None:
        """Refuse exponents for which no op computes as NumPy does."""

    @abstractmethod
    def __getitem__(self, key: Any) -> Any:
        """The elements at ``key``."""

    @abstractmethod
    def __getattr__(self, name: str) -> Any:
        """Another attribute of an array."""

    def __pow__(self, other: Any) -> Any:
        if not isinstance(other, AbstractArray):
            self.check_power(other)
        return _power(self, other)

    __add__, __radd__ = _binary(np.add), _reflected(np.add)
    __sub__, __rsub__ = _binary(np.subtract), _reflected(np.subtract)
    __mul__, __rmul__ = _binary(np.multiply), _reflected(np.multiply)
    __truediv__, __rtruediv__ = _binary(np.true_divide), _reflected(np.true_divide)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide), _reflected(np.floor_divide)
    __mod__, __rmod__ = _binary(np.remainder), _reflected(np.remainder)
    __matmul__, __rmatmul__ = _binary(np.matmul), _reflected(np.matmul)
    __and__, __rand__ = _binary(np.bitwise_and), _reflected(np.bitwise_and)
    __or__, __ror__ = _binary(np.bitwise_or), _reflected(np.bitwise_or)
    __xor__, __rxor__ = _binary(np.bitwise_xor), _reflected(np.bitwise_xor)
    __lshift__, __rlshift__ = _binary(np.left_shift), _reflected(np.left_shift)
    __rshift__, __rrshift__ = _binary(np.right_shift), _reflected(np.right_shift)
    __rpow__ = _reflected(np.power)
    __eq__ = _binary(np.equal)
    __ne__ = _binary(np.not_equal)
    __lt__ = _binary(np.less)
    __le__ = _binary(np.less_equal)
    __gt__ = _binary(np.greater)
    __ge__ = _binary(np.greater_equal)
    __iadd__ = _in_place("+=", operator.iadd, operator.add)
    __isub__ = _in_place("-=", operator.isub, operator.sub)
    __imul__ = _in_place("*=", operator.imul, operator.mul)
    __itruediv__ = _in_place("/=", operator.itruediv, operator.truediv)
    __ifloordiv__ = _in_place("//=", operator.ifloordiv, operator.floordiv)
    __imod__ = _in_place("%=", operator.imod, operator.mod)
    __ipow__ = _in_place("**=", operator.ipow, operator.pow)
    __imatmul__ = _in_place("@=", operator.imatmul, operator.matmul)
    __iand__ = _in_place("&=", operator.iand, operator.and_)
    __ior__ = _in_place("|=", operator.ior, operator.or_)
    __ixor__ = _in_place("^=", operator.ixor, operator.xor)
    __ilshift__ = _in_place("<<=", operator.ilshift, operator.lshift)
    __irshift__ = _in_place(">>=", operator.irshift, operator.rshift)
    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)
    __bool__ = _converted("bool()", bool)
    __int__ = _converted("int()", int)
    __float__ = _converted("float()", float)
    __complex__ = _converted("complex()", complex)
    __index__ = _converted("its use as an index", operator.index)
    __round__ = _converted("round()", round)
    __divmod__ = _converted("divmod()", divmod)
    __rdivmod__ = _converted("divmod()", lambda b, a: divmod(a, b))
    __reduce_ex__ = _converted("pickling", lambda x, *args: x.__reduce_ex__(*args))
    __str__ = _spelled(str)
    __repr__ = _spelled(repr)
    __format__ = _spelled(format)

    def __hash__(self) -> int:
        if not self.is_scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self.elements("hash()"))

    def __copy__(self) -> Any:
        return self if self.is_scalar else self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return operator.index(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())


_power = _binary(np.power)
