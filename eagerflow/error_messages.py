"""The form of the messages of all exceptions, and what is added to them on their way.

A message states, in this order: the mistake in the user's terms; the values given; the values
expected; a hint; and the user's own line.
"""

from __future__ import annotations

import traceback
from typing import Any, TypeVar

from eagerflow.source import Source, capture, shown_frames

_E = TypeVar("_E", bound=BaseException)


class EagerflowError(Exception):
    """The base of all exceptions of eagerflow.

    Args:
        wrong: the mistake, in the user's terms.
        given: the values given (types with shapes).
        expected: the values that would have been right.
        hint: the advice.
        source: the user's line; found by walking the stack if not given. A string if only its
            text is known.

    >>> try:
    ...     ef.tensor([1.0, 2.0]) + ef.tensor([1.0, 2.0, 3.0])
    ... except ef.errors.EagerflowError as error:
    ...     print(error.wrong)
    add: shapes cannot be broadcast together
    """

    __module__ = "eagerflow.errors"  # where users find it
    _settled = False  # whether ``relocate`` leaves the line as it is
    #: the derivative that the op was part of, ``in the gradient of sqrt, applied at …``, or the
    #: failure behind the error, ``the runner fill-1 ended with …``
    origin: str | None = None

    def __init__(
        self,
        wrong: str,
        *,
        given: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
        source: Source | str | None = None,
    ) -> None:
        self.wrong = wrong
        self.given = given
        self.expected = expected
        self.hint = hint
        self.source = source if source is not None else capture(2)
        super().__init__(self._message())

    def _message(self) -> str:
        parts = [self.wrong]
        notes = (("got", self.given), ("expected", self.expected), ("hint", self.hint))
        parts += [f"  {label}: {text}" for label, text in notes if text]
        parts += [f"  at: {self.source}"] * (self.source is not None)
        parts += [f"  {self.origin}"] * (self.origin is not None)
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        # code objects cannot be pickled
        state = {**self.__dict__, "source": None if self.source is None else str(self.source)}
        return _restored, (type(self), self.args, state)

    def reword(self, wrong: str, given: str | None = None) -> None:
        """Replace the description of the mistake, and of the values given if ``given`` is."""
        self.wrong, self.given = wrong, given or self.given
        self.args = (self._message(), *self.args[1:])

    def __str__(self) -> str:
        # KeyError's __str__ would quote the message
        return str(self.args[0]) if self.args else ""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows: the user's frames and the message, no eagerflow frames."""
        frames = shown_frames(self)
        lines = ["Traceback (most recent call last):\n"] if frames else []
        lines += frames.format()
        lines += traceback.format_exception_only(type(self), self)
        return "".join(lines).rstrip("\n").split("\n")


def _restored(kind: type[_E], args: tuple[object, ...], state: dict[str, object]) -> _E:
    base: Any = kind  # the builtin base that determines the layout of objects
    while base.__module__ != "builtins":
        base = base.__base__
    made: _E = base.__new__(kind)  # without __init__, which may take other arguments
    made.args = args
    made.__dict__.update(state)
    return made


def relocate(error: _E, source: Source | str | None, *, settled: bool = False) -> _E:
    """Set the line of ``error`` to ``source``, if that is given.

    A line that is ``settled`` stays: a late failure is about the line that issued the work.
    """
    if isinstance(error, EagerflowError) and source is not None and not error._settled:
        error.source = source
        error.args = (error._message(),)
        error._settled = settled
    return error


def note_origin(error: EagerflowError, origin: str) -> None:
    """Let the message name the derivative in which an error was raised.

    The innermost one stays, and so do the notes of an error raised in a graph.
    """
    if error.origin is None and not hasattr(error, "__notes__"):
        error.origin = origin
        error.args = (error._message(), *error.args[1:])


def note_failure(error: EagerflowError, failure: str) -> None:
    """Let the message quote the failure behind an error, such as that of the producer of a queue.

    Args:
        error: the error.
        failure: its text.
    """
    error.origin = failure
    error.args = (error._message(), *error.args[1:])


def note_place(error: BaseException, note: str) -> None:
    """Add a note on the node or the iteration in which an error was raised.

    An error with a settled line names the node itself, as it is raised at the reader of the value.
    """
    if not getattr(error, "_settled", False):
        error.add_note(note)


def iteration_note(op: str, iteration: int, source: object = None) -> str:
    """The note on the iteration for an error in a loop, the same for all ways to run one.

    Args:
        op: the function that made the loop.
        iteration: its number, from 0.
        source: the line of the loop.
    """
    where = f", at {source}" if source is not None else ""
    return f"  in iteration {iteration} (counted from 0) of {op}{where}"
