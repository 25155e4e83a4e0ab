"""Symbolic values of a trace: data and numbers of which only the type is known.

The abstract classes are here so that tensors and conversions can recognise them;
`eagerflow.tracing.tracer` implements them and knows the graph values that they stand for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.types import Shape

if TYPE_CHECKING:
    from eagerflow.core.tensor import Tensor
    from eagerflow.hardware import Lane


class AbstractSymbol(ABC):
    """The data of a symbolic tensor, in place of an array.

    Attributes:
        shape: sizes; some may be an `eagerflow.Dim`.
    """

    __slots__ = ("__weakref__", "shape")

    shape: Shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @abstractmethod
    def is_constant(self, what: str) -> bool:
        """Whether the value follows from constants alone.

        Args:
            what: the operation that asks, for messages: ``"float()"``.

        Raises:
            LeakedTensorError: the trace has ended.
        """

    @abstractmethod
    def concrete(self, what: str) -> Any:
        """The array, if it follows from constants alone.

        Args:
            what: the operation that asks, for messages: ``"float()"``.

        Raises:
            TraceError: the value depends on inputs.
            LeakedTensorError: the trace has ended.
        """

    @abstractmethod
    def text(self, x: Tensor, spell: Callable[[Any], str]) -> str:
        """The text of a tensor that has this data.

        Args:
            x: the tensor.
            spell: makes the text of a tensor whose elements are known.
        """

    @abstractmethod
    def leaked(self, what: str) -> NoReturn:
        """Raise a `LeakedTensorError`: ``what`` uses the tensor outside of its trace."""


class AbstractNumber(AbstractAsked, ABC):
    """A Python number in a trace, with the arithmetic of its kind.

    Attributes:
        number: its value in the call that is traced. Code that reads it handles other values in
            the graph, or by `ask`.
    """

    __slots__ = ("__weakref__",)

    number: Any

    @property
    @abstractmethod
    def varies(self) -> bool:
        """Whether it differs between runs of the graph, so that Python cannot read it."""

    @abstractmethod
    def to_tensor(self, lane: Lane) -> Tensor:
        """The number as a tensor without axes, converted as a Python number is."""


class AbstractTracedArray(ABC):
    """An array of NumPy in a trace; functions of eagerflow take it as a tensor."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def __tensor__(self) -> Tensor:
        """The elements."""

    @property
    @abstractmethod
    def maker(self) -> Callable[[Tensor], Any]:
        """The function that makes the array from its tensor, after a run."""


def number_now(x: Any) -> Any:
    """The value of a number of a trace in the call that is traced; other objects are returned.

    The graph is run with other numbers, too: code that decides something by this value has to
    handle the others in the graph.

    >>> from eagerflow.extending import number_now
    >>> seen = []
    >>> @ef.trace
    ... def double(x):
    ...     seen.append(number_now(x))
    ...     return x * 2
    >>> double(3.0), seen, number_now(4.0)
    (6.0, [3.0], 4.0)
    """
    return x.number if issubclass(type(x), AbstractNumber) else x
