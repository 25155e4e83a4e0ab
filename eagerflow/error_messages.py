"""What is shown of exceptions: the form of their messages, what is added on their way, the frames.

A message states, in this order: the mistake in the user's terms; the values given; the values
expected; a hint; and the user's own line.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from eagerflow.source import (
    FRAMEWORK,
    Source,
    capture,
    cell_name,
    entries_of,
    is_framework_frame,
)
from eagerflow.wrong_calls import add_remedy

_E = TypeVar("_E", bound=BaseException)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_all_frames = False


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


# --- the frames that are shown ------------------------------------------------------------------


def show_all_frames(choice: bool) -> None:
    """Choose whether errors show the frames of eagerflow as well, from now on."""
    global _all_frames
    _all_frames = choice


def strip(error: _E) -> _E:
    """Drop the frames below the caller from ``error``, so that their variables are freed."""
    return error if _all_frames else error.with_traceback(None)


def hide_frames(error: BaseException) -> None:
    """Leave only the user's own frames, and exceptions that they handled, in ``error``.

    To be followed by a bare ``raise``, which adds no frame: any other raise adds its own frame.
    """
    add_remedy(error)
    if _all_frames:
        return
    error.__traceback__ = _users_frames(error)
    error.__context__ = _users_context(error)


def _users_context(error: BaseException) -> BaseException | None:
    """The exception that was being handled when ``error`` was raised, unless it is internal.

    An internal one is an exception of eagerflow that its own code has caught: there its traceback
    begins.
    """
    context = error.__context__
    while context is not None and type(context).__module__.partition(".")[0] in FRAMEWORK:
        trace = context.__traceback__
        if trace is not None and not is_framework_frame(trace.tb_frame):
            break
        context = context.__context__
    return context


def _users_frames(error: BaseException) -> TracebackType | None:
    """The traceback of an error without the frames of eagerflow, each line of a function once."""
    chain: TracebackType | None = None
    for trace in reversed([*entries_of(error.__traceback__)]):
        if not is_framework_frame(trace.tb_frame) and not _is_around(trace, chain):
            chain = TracebackType(chain, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return chain


def _is_around(trace: TracebackType, inner: TracebackType | None) -> bool:
    """Whether a frame is at its callee's line, a comprehension of the same converted function."""
    if inner is None or trace.tb_lineno != inner.tb_lineno:
        return False
    code, other = trace.tb_frame.f_code, inner.tb_frame.f_code
    alike = (code.co_filename, code.co_qualname) == (other.co_filename, other.co_qualname)
    return alike and code is not other


def hides_frames(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let errors that leave ``function`` show only the user's own frames, in it and below."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    return call


@contextmanager
def frames_hidden(error: BaseException) -> Iterator[None]:
    """Hide the frames of eagerflow in an error, and in those behind it, while Python shows it.

    An error that code of eagerflow raised by mistake keeps all its frames.
    """
    chain: list[BaseException] = []
    waiting: list[BaseException | None] = [] if _all_frames else [error]
    while waiting:
        last = waiting.pop()
        if last is not None and all(last is not one for one in chain):
            chain.append(last)
            waiting += [last.__cause__, last.__context__, *getattr(last, "exceptions", ())]
    before = [one.__traceback__ for one in chain]
    try:
        for one in chain:
            own = _users_frames(one)
            if own is not None and (_is_of_eagerflow(one) or _raised_by_user(one)):
                one.__traceback__ = own
        yield
    finally:
        for one, trace in zip(chain, before, strict=True):
            one.__traceback__ = trace


def _is_of_eagerflow(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in FRAMEWORK[:3]


def _raised_by_user(error: BaseException) -> bool:
    *_, last = entries_of(error.__traceback__)
    return not is_framework_frame(last.tb_frame)


def shown_frames(error: BaseException) -> traceback.StackSummary:
    """The frames of ``error`` that a notebook shows, cells by their names."""
    trace = error.__traceback__
    frames = traceback.extract_tb(trace)
    if not _all_frames:
        frames = traceback.StackSummary.from_list(
            f for f, tb in zip(frames, entries_of(trace), strict=True) if not _hidden(tb)
        )
    for frame in frames:
        _ = frame.line  # loads the text, before the file name becomes that of the cell
        frame.filename = cell_name(frame.filename)
    return frames


def _hidden(trace: TracebackType) -> bool:
    if is_framework_frame(trace.tb_frame):
        return True
    # IPython's own frames above the cell
    file = trace.tb_frame.f_code.co_filename.replace("\\", "/")
    return "IPython" in sys.modules and "/IPython/" in file
