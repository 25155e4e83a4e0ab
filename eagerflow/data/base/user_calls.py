"""Calls of users' functions, and the policies for calls that fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any, Final, Literal, TypeAlias, final

import eagerflow as ef
from eagerflow.data.base.elements import with_bytes
from eagerflow.errors import TensorValueError
from eagerflow.events import CallEvent, SkipEvent, end, told
from eagerflow.extending import Source

#: the policy for an element that cannot be made: it stops the iteration, is left out, or is left
#: out after a function was called with the error
OnError: TypeAlias = Literal["raise", "skip"] | Callable[[Exception], object]
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


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
        function: takes the element, or the parts of a tuple, and perhaps a generator.
        finish: converts the result of ``function``.
        source: the line.
        draws: the number of generators that it takes.
        of_element: the function, which takes the element in any case.
    """

    method: str
    function: Callable[..., Any]
    finish: Callable[[Any], Any]
    source: Source | None
    draws: int = 0
    of_element: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TensorValueError(
                f"{self.method}: the argument is not a function",
                given=f"a {type(self.function).__name__}: {self.function!r}",
                expected="a function that takes an element",
            )
        count = _parts(self.function, self.draws)
        of_element = _OfParts(self.function, count) if count else self.function
        object.__setattr__(self, "of_element", of_element)

    def __call__(self, index: int, element: Any, *draws: Any) -> Any:
        try:
            if not CallEvent.listeners:
                return self.finish(self.of_element(self.given(element), *draws))
            with told(CallEvent(name=str(self), device="cpu:0", source=self.source)):
                return self.finish(self.of_element(self.given(element), *draws))
        except StopIteration as error:
            raise self.failed(index, error) from error
        except Exception as error:
            self.failed(index, error)
            raise

    def given(self, element: Any) -> Any:
        """The element as the function gets it; a traced function would retrace for other bytes."""
        return with_bytes(element) if isinstance(self.function, ef.TracedFunction) else element

    def failed(self, index: int, error: Exception) -> Exception:
        """``error`` with a note that names the element and the line.

        Args:
            index: of the element.
            error: raised by the function.
        """
        if isinstance(error, StopIteration):  # it would end the iteration silently
            error = RuntimeError(f"{self} raised StopIteration in element {index}")
        wrong_call = isinstance(error, AttributeError | TypeError)
        hint = self._hint(error) if wrong_call else ""
        error.add_note(f"  in element {index} of {self}{hint}\n  at: {self.source}")
        return error

    def _hint(self, error: Exception) -> str:
        """What the function gets, if it seems to expect something else; else empty."""
        more = "a generator, because of seed=" if self.draws else "with seed= a generator"
        refused = isinstance(error, TypeError)
        if isinstance(self.of_element, _OfParts):
            if refused and "positional argument" not in str(error):  # Python's words
                return ""
            count = self.of_element.count
            return (
                f"\n  hint: the function gets a tuple of {count} as {count} arguments, any other "
                f"element as one, and {more}"
            )
        if not refused or self._takes_element():
            return ""
        return (
            "\n  hint: the function gets the whole element as one argument, or the parts of a "
            f"tuple if it has a parameter for each, and {more}"
        )

    def _takes_element(self) -> bool:
        try:
            signature(self.function).bind(None, *[None] * self.draws)
        except TypeError:
            return False
        except ValueError:  # a function of C without a signature
            pass
        return True

    @property
    def name(self) -> str:
        """The name of the function."""
        name = getattr(self.function, "__qualname__", None) or type(self.function).__name__
        return str(name.rpartition("<locals>.")[2])

    def __str__(self) -> str:
        return f"{self.method}({self.name})"


@final
@dataclass(frozen=True, slots=True)
class _OfParts:
    """A function of the parts of an element, as a function of the element.

    Attributes:
        function: takes the parts, and perhaps a generator.
        count: the number of parts.
    """

    function: Callable[..., Any]
    count: int

    def __call__(self, element: Any, *draws: Any) -> Any:
        if isinstance(element, tuple) and len(element) == self.count:
            return self.function(*element, *draws)
        return self.function(element, *draws)  # refused by Python


def _parts(function: Callable[..., Any], draws: int) -> int:
    """The number of parts of an element that are parameters of their own; 0 if it takes it whole.

    A function that can take the element as one argument does.
    """
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C without a signature
        return 0
    required = [p for p in parameters if p.default is p.empty and p.kind in _POSITIONAL]
    count = len(required) - draws
    return count if count > 1 else 0
