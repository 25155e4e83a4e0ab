"""What stands for a value in a trace: data and numbers of which only the type is known.

The classes are here so that tensors and conversions can tell them; `eagerflow.tracing.tracer` makes
them and knows what they stand for.
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
    """The data of a symbolic tensor: it is in the place of an array.

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
        """Whether it follows from constants alone.

        Args:
            what: the operation that asks, for messages: ``"float()"``.

        Raises:
            LeakedTensorError: the trace has ended.
        """

    @abstractmethod
    def concrete(self, what: str) -> Any:
        """The array, where it follows from constants alone.

        Args:
            what: the operation that asks, for messages: ``"float()"``.

        Raises:
            TraceError: it does not.
            LeakedTensorError: the trace has ended.
        """

    @abstractmethod
    def text(self, x: Tensor, spell: Callable[[Any], str]) -> str:
        """The text of a tensor that has this data.

        Args:
            x: the tensor.
            spell: makes the text, given one whose elements are known.
        """

    @abstractmethod
    def leaked(self, what: str) -> NoReturn:
        """Raise, because ``what`` uses it where no trace is under way that knows it."""


class AbstractNumber(AbstractAsked, ABC):
    """A Python number in a trace. It does arithmetic as its kind does.

    Attributes:
        number: what it is in the call that traces. Code that looks at it says in the graph, or by
            `ask`, what is done with other numbers.
    """

    __slots__ = ("__weakref__",)

    number: Any

    @property
    @abstractmethod
    def varies(self) -> bool:
        """Whether it differs from run to run of the graph, so that Python cannot have it."""

    @abstractmethod
    def to_tensor(self, lane: Lane) -> Tensor:
        """It as a tensor without axes, converted as a number is."""


class AbstractTracedArray(ABC):
    """An array of NumPy in a trace; functions of eagerflow take it as a tensor."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def __tensor__(self) -> Tensor:
        """The elements."""

    @property
    @abstractmethod
    def maker(self) -> Callable[[Tensor], Any]:
        """What makes the array of the tensor that a run gives for it."""


def number_now(x: Any) -> Any:
    """What a number of a trace is in the call that traces; what else is passed is given back.

    The graph is run with other numbers, too: code that decides something by this one says in
    the graph what is done with them.

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
