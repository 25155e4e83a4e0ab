"""`try` in converted code: handlers must not catch what only a trace, or only the graph, raises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import CodeType, TracebackType
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.failures.raising import line_of
from eagerflow.autograph.tracking.regions import tracer_here
from eagerflow.core import interpreter
from eagerflow.core.op import find_op
from eagerflow.errors import (
    CancelledError,
    QueueClosedError,
    TensorIndexError,
    TensorValueError,
    TraceError,
    WaitTimeoutError,
)
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import kind_of
from eagerflow.source import capture
from eagerflow.tracing.tracer import Tracer, tracer_of

__all__ = ["Escaped", "OpenBlocks", "catching", "missed", "note", "raised_by", "refuse_caught"]


#: the classes of handlers for any exception
_BROAD: Final = {Exception, BaseException}
_OUTSIDE: Final = "put the `try` around the call of the traced function"
_HINTS: Final[dict[type[BaseException], str]] = {
    TensorIndexError: f"{_OUTSIDE}, or test the index: `if i < x.shape[0]`, ef.where(...)",
    TensorValueError: f"{_OUTSIDE}, or test the matrix before",
    QueueClosedError: f"{_OUTSIDE}, or take what is left with dequeue_up_to(n)",
    CancelledError: _OUTSIDE,
    WaitTimeoutError: _OUTSIDE,
}


@final
class Escaped(BaseException):
    """An error of a trace that passes by the handlers of the user.

    Args:
        error: the error.
    """

    def __init__(self, error: TraceError) -> None:
        super().__init__()
        self.error = error


@final
class OpenBlocks(threading.local):
    """The blocks that this thread is in, the innermost last; other threads may run such code."""

    def __init__(self) -> None:
        self.all: list[Any] = []


@operator
@final
class catching:  # noqa: N801 - converted code calls it as an operator
    """The block of a `try`.

    Args:
        kinds: gives what the handlers catch.
    """

    def __init__(self, kinds: Callable[[], Any]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        _under_way.all.append(self)
        tracer = tracer_of(interpreter.current()) if interpreter.stack.installed else None
        self._nodes = [] if tracer is None else tracer.graph.nodes
        self._before = len(self._nodes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        _under_way.all.pop()
        if isinstance(error, TraceError) and self.catches(error):
            raise Escaped(error) from None
        if error is None:
            self._look_at(self._nodes[self._before :])

    def _look_at(self, nodes: Sequence[Node]) -> None:
        """Refuse nodes of the block that raise, when the graph runs, what a handler is for."""
        for node in nodes:
            raised = next((e for e in raised_by(node) if self._is_for(e)), None)
            if raised is not None:
                self._tell(node, raised)
            for _, part in node.subgraphs():
                self._look_at(part.nodes)

    def _is_for(self, raised: type[BaseException]) -> bool:
        return any(issubclass(raised, k) or issubclass(k, raised) for k in self._flat)

    @property
    def _flat(self) -> tuple[type[BaseException], ...]:
        """The classes that the handlers name, which may be in tuples."""
        kinds: list[Any] = [self._kinds()]
        while any(type(x) is tuple for x in kinds):
            kinds = [y for x in kinds for y in (x if type(x) is tuple else (x,))]
        return tuple(kinds)

    def _tell(self, node: Node, raised: type[BaseException]) -> None:
        what = f"{raised.__name__} is raised when the graph runs, outside of the `try` around it"
        given = f"{node.op} at {node.source}\n    and the handler at {self.line}"
        if {k for k in self._flat if issubclass(raised, k) or issubclass(k, raised)} <= _BROAD:
            note(f"{what}: {given}")
            return
        error = TraceError(what, given=given, hint=_HINTS[raised], source=node.source)
        raise Escaped(error) if self.catches(error) else error

    def catches(self, error: BaseException) -> bool:
        """Whether a handler is for ``error``."""
        return isinstance(error, self._kinds())

    @property
    def line(self) -> str:
        """Where the handlers are, for messages."""
        code: CodeType = getattr(self._kinds, "__code__")  # noqa: B009 - of a callable
        return line_text(code, code.co_firstlineno)


_under_way: Final = OpenBlocks()
#: by trace, what handlers and ends of blocks will not do, though they do eagerly
missed: Final[WeakKeyDictionary[Tracer, list[str]]] = WeakKeyDictionary()


def note(text: str) -> None:
    """Note what runs of the graph will do otherwise than eager ones, for people."""
    missed.setdefault(tracer_here().root, []).append(text)


def raised_by(node: Node) -> Sequence[type[BaseException]]:
    """The exceptions that a node raises in an ordinary run."""
    op = find_op(node.op) if kind_of(node.op) == "op" else None
    return () if op is None else op.raised(node.attrs)


def refuse_caught(error: BaseException) -> None:
    """Refuse an exception that only the graph raises, if a handler of Python is to catch it.

    Raises:
        TraceError: one is.
    """
    handler = next((one for one in reversed(_under_way.all) if one.catches(error)), None)
    if handler is None:
        return
    # an assertion is raised by eagerflow, for the line that is under way
    place = line_of(error) or capture()
    raised = "" if place is None else f", raised at {line_text(place.code, place.line)}"
    raise TraceError(
        "an exception is raised under a condition on a tensor, and caught",
        given=f"{type(error).__name__}{raised}\n    and caught at {handler.line}",
        hint="do in the `if` what the handler does",
    )
