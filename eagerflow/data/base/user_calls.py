"""Calls of users' functions, and the policies for calls that fail."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature, signature
from types import MethodType
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
        counts = _counts(self.function, self.draws)
        of_element = _OfParts(self.function, counts) if counts else self.function
        object.__setattr__(self, "of_element", of_element)

    def __call__(self, index: int, element: Any, *draws: Any) -> Any:
        try:
            if not CallEvent.listeners:
                return self.finish(self.of_element(self.given(element), *draws))
            with told(CallEvent(name=str(self), device="cpu:0", source=self.source)):
                return self.finish(self.of_element(self.given(element), *draws))
        except StopIteration as error:
            raise self.failed(index, element, error) from error
        except Exception as error:
            self.failed(index, element, error)
            raise

    def given(self, element: Any) -> Any:
        """The element as the function gets it; a traced function would retrace for other bytes."""
        return with_bytes(element) if isinstance(self.function, ef.TracedFunction) else element

    def failed(self, index: int, element: Any, error: Exception) -> Exception:
        """``error`` with a note that names the element and the line.

        Args:
            index: of the element.
            element: the function was called with.
            error: raised by the function.
        """
        if isinstance(error, StopIteration):  # it would end the iteration silently
            error = RuntimeError(f"{self} raised StopIteration in element {index}")
        hint = self._hint if self._is_misled(element, error) else ""
        error.add_note(f"  in element {index} of {self}{hint}\n  at: {self.source}")
        return error

    @property
    def _hint(self) -> str:
        more = "a generator, because of seed=" if self.draws else "with seed= a generator"
        return (
            "\n  hint: the function gets the whole element as one argument, or the parts of a "
            f"tuple if it has a parameter for each, and {more}"
        )

    def _is_misled(self, element: Any, error: Exception) -> bool:
        """Whether the function seems to expect other arguments than it gets."""
        if isinstance(error, AttributeError):  # a part stands where seed= would give a generator
            in_parts = isinstance(self.of_element, _OfParts) and not self.draws
            return in_parts and hasattr(ef.random.Generator, error.name or "")
        return isinstance(error, TypeError) and not self._takes(element)

    def _takes(self, element: Any) -> bool:
        """Whether the call itself is possible, so that an error is from inside."""
        of = self.of_element
        arguments = of.arguments(element) if isinstance(of, _OfParts) else (element,)
        try:
            _signature(self.function).bind(*arguments, *[None] * self.draws)
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
        counts: the numbers of parts that it takes.
    """

    function: Callable[..., Any]
    counts: Sequence[int]

    def __call__(self, element: Any, *draws: Any) -> Any:
        return self.function(*self.arguments(element), *draws)

    def arguments(self, element: Any) -> tuple[Any, ...]:
        """The parts of the element, or the element as the only argument."""
        in_parts = isinstance(element, tuple) and len(element) in self.counts
        return element if in_parts else (element,)


def _counts(function: Callable[..., Any], draws: int) -> Sequence[int]:
    """The numbers of parts of an element that are arguments of their own; others come whole.

    A function that can take the element as one argument does. With a generator, ``f(x, y, z=None)``
    could take element and generator, or two parts and the generator: a default of None tells that
    the third is the generator, any other default that it is not.
    """
    try:
        parameters = _signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C without a signature
        return ()
    places = [p for p in parameters if p.kind in _POSITIONAL]
    required = sum(p.default is p.empty for p in places)
    if required < 2:
        return ()
    if required == 1 + draws:
        return [n for n in range(2, len(places)) if places[n].default is None]
    most = sys.maxsize - 1 if _takes_any(parameters) else len(places) - draws
    return range(required - draws, most + 1)


def _signature(function: Callable[..., Any]) -> Signature:
    """The signature of a function; if it takes any number, that of the function it stands for.

    Other decorators may call with other arguments than they are called with.
    """
    if isinstance(function, ef.TracedFunction):
        return _signature(function.fn)
    inner = getattr(function, "__func__", None)
    if inner is not None:  # of traced methods, too
        function = MethodType(inner, getattr(function, "__self__", None))
    own = signature(function, follow_wrapped=False)
    if not _takes_any(own.parameters.values()):
        return own
    if hasattr(function, "__wrapped__"):
        within = function.__wrapped__
        return _signature(
            MethodType(within, function.__self__) if isinstance(function, MethodType) else within
        )
    if hasattr(type(function), "forward"):  # a module
        return _signature(function.forward)  # type: ignore[attr-defined]  # a module
    return own


def _takes_any(parameters: Iterable[Parameter]) -> bool:
    return any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
