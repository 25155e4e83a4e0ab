"""Calls of users' functions, and the policies for calls that fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, TypeAlias, final

import eagerflow as ef
from eagerflow.data.base.elements import with_bytes
from eagerflow.errors import TensorValueError
from eagerflow.events import SkipEvent, end
from eagerflow.extending import Source

#: the policy for an element that cannot be made: it stops the iteration, is left out, or is left
#: out after a function was called with the error
OnError: TypeAlias = Literal["raise", "skip"] | Callable[[Exception], object]


def skips(on_error: OnError, error: Exception, name: str) -> bool:
    """Whether to go on without the element that raised ``error``."""
    if on_error == "raise":
        return False
    if SkipEvent.listeners:
        end(SkipEvent(name=name, device="cpu:0", error=repr(error)))
    if callable(on_error):
        on_error(error)
    return True


class AbstractMapped(ABC):
    """A user's function that is called for the elements of one epoch."""

    @abstractmethod
    def __call__(self, index: int, element: Any) -> Any:
        """The result for an element."""

    @abstractmethod
    def rows(self, indices: Sequence[int], elements: list[Any]) -> Any:
        """The results for several elements, stacked."""

    def close(self) -> None:
        """End the processes, if there are any."""


@final
@dataclass(frozen=True, slots=True)
class UserCall:
    """A user's function, and the line that put it into the pipeline.

    Attributes:
        method: of `Dataset`.
        function: takes the element, and perhaps a generator.
        finish: converts the result of ``function``.
        source: the line.
    """

    method: str
    function: Callable[..., Any]
    finish: Callable[[Any], Any]
    source: Source | None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TensorValueError(
                f"{self.method}: the argument is not a function",
                given=f"a {type(self.function).__name__}: {self.function!r}",
                expected="a function that takes an element",
            )

    def __call__(self, index: int, element: Any, *draws: Any) -> Any:
        try:
            return self.finish(self.function(self.given(element), *draws))
        except StopIteration as error:
            raise self.failed(index, error) from error
        except Exception as error:
            self.failed(index, error, len(draws))
            raise

    def given(self, element: Any) -> Any:
        """The element as the function gets it; a traced function would retrace for other bytes."""
        return with_bytes(element) if isinstance(self.function, ef.TracedFunction) else element

    def failed(self, index: int, error: Exception, draws: int = 0) -> Exception:
        """``error`` with a note that names the element and the line.

        Args:
            index: of the element.
            error: raised by the function.
            draws: the number of generators passed.
        """
        if isinstance(error, StopIteration):  # it would end the iteration silently
            error = RuntimeError(f"{self} raised StopIteration in element {index}")
        hint = self._hint(draws) if isinstance(error, TypeError) else ""
        error.add_note(f"  in element {index} of {self}{hint}\n  at: {self.source}")
        return error

    def _hint(self, draws: int) -> str:
        """The hint for a function whose signature does not take an element; else empty."""
        try:
            signature(self.function).bind(None, *[None] * draws)
        except TypeError:
            more = "a generator, because of seed=" if draws else "with seed= a generator"
            return (
                "\n  hint: the function gets the whole element as one argument "
                f"(x, y = element takes a pair apart), and {more}"
            )
        except ValueError:  # a function of C without a signature
            pass
        return ""

    @property
    def name(self) -> str:
        """The name of the function."""
        name = getattr(self.function, "__qualname__", None) or type(self.function).__name__
        return str(name.rpartition("<locals>.")[2])

    def __str__(self) -> str:
        return f"{self.method}({self.name})"
