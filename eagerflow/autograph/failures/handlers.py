"""`try` and `with` in converted code: exceptions that only a trace, or only the graph, raises.

Handlers must not catch these exceptions. The trace runs the ends of `finally` and `with`: their
nodes come after the block in the graph, and are not reached by a run that fails in the block, of
which the user is warned. Exceptions in `contextlib.suppress` are treated like those of a handler.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.tracking.blocks import UserCode, code_of, tracer_here
from eagerflow.control.structured import effects_of
from eagerflow.core import interpreter
from eagerflow.core.op import find_op, get_op
from eagerflow.errors import (
    CancelledError,
    QueueClosedError,
    RunnerFailedError,
    TensorIndexError,
    TensorValueError,
    TraceError,
    WaitTimeoutError,
)
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import kind_of
from eagerflow.source import capture, user_line
from eagerflow.tracing.tracer import Tracer, current_tracer

#: effects that do not happen where a run fails before them
_EFFECTS: Final = ("writes", "fence", "blocks")
#: the classes of handlers for any exception
_BROAD: Final = {Exception, BaseException}
_OUTSIDE: Final = "put the `try` around the call of the traced function"
_HINTS: Final[dict[type[BaseException], str]] = {
    TensorIndexError: f"{_OUTSIDE}, or test the index: `if i < x.shape[0]`, ef.where(...)",
    TensorValueError: f"{_OUTSIDE}, or test the matrix before",
    QueueClosedError: f"{_OUTSIDE}, or take the remaining elements with dequeue_up_to(n)",
    RunnerFailedError: _OUTSIDE,
    CancelledError: _OUTSIDE,
    WaitTimeoutError: _OUTSIDE,
}


@final
class Escaped(BaseException):
    """Carries an error of a trace past the handlers of the user.

    Args:
        error: the error.
    """

    def __init__(self, error: TraceError) -> None:
        super().__init__()
        self.error = error


@final
class _OpenBlocks(threading.local):
    """The blocks under way in this thread, the innermost last."""

    def __init__(self) -> None:
        self.handlers: list[catching] = []
        self.ends: list[leaving] = []


_open: Final = _OpenBlocks()
#: by trace, notes on effects of handlers and ends of blocks that will not happen, unlike eagerly
missed: Final[WeakKeyDictionary[Tracer, list[str]]] = WeakKeyDictionary()


# --- `try` --------------------------------------------------------------------------------------


@operator
@final
class catching:
    """The block of a `try`.

    Args:
        kinds: returns the exceptions that the handlers catch.
    """

    def __init__(self, kinds: Callable[[], Any]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        _open.handlers.append(self)
        tracer = current_tracer()
        self._decisions = None if tracer is None else tracer.whole.decisions
        if self._decisions is not None:
            self._decisions.handlers += 1
            self._decisions.catches = True
        self._nodes = _nodes_here()
        self._before = len(self._nodes)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _open.handlers.pop()
        if self._decisions is not None:
            self._decisions.handlers -= 1
        if isinstance(error, TraceError) and self.catches(error):
            raise Escaped(error) from None
        if error is None:
            self._look_at(self._nodes[self._before :])

    def _look_at(self, nodes: Sequence[Node]) -> None:
        """Refuse nodes of the block that raise, when the graph runs, an exception of a handler."""
        for node in all_nodes(nodes):
            raised = next(filter(self._catching, _raised_by(node)), None)
            if raised is not None:
                self._tell(node, raised)

    def _catching(self, raised: type[BaseException]) -> set[type[BaseException]]:
        """The classes for an exception among those that the handlers name, perhaps in tuples."""
        kinds: list[Any] = [self._kinds()]
        while any(type(x) is tuple for x in kinds):
            kinds = [y for x in kinds for y in (x if type(x) is tuple else (x,))]
        return {k for k in kinds if issubclass(raised, k) or issubclass(k, raised)}

    def _tell(self, node: Node, raised: type[BaseException]) -> None:
        what = f"{raised.__name__} is raised when the graph runs, outside of the `try` around it"
        given = f"{node.op} at {node.source}\n    and the handler at {self.line}"
        if self._catching(raised) <= _BROAD:
            _note(f"{what}: {given}")
            return
        error = TraceError(what, given=given, hint=_HINTS[raised], source=node.source)
        raise Escaped(error) if self.catches(error) else error

    def catches(self, error: BaseException) -> bool:
        """Whether a handler catches ``error``."""
        return isinstance(error, self._kinds())

    @property
    def line(self) -> str:
        """The line of the handlers, for messages."""
        code = code_of(self._kinds)
        return line_text(code, code.co_firstlineno)


def _nodes_here() -> list[Node]:
    """The nodes of the part of a trace that is under way, if one is."""
    tracer = current_tracer()
    return [] if tracer is None else tracer.graph.nodes


def _note(text: str) -> None:
    """Note, for the user, a difference between runs of the graph and eager runs."""
    missed.setdefault(tracer_here().root, []).append(text)


def _raised_by(node: Node) -> Sequence[type[BaseException]]:
    """The exceptions that a node raises in an ordinary run."""
    op = find_op(node.op) if kind_of(node.op) == "op" else None
    return () if op is None else op.raised(node.attrs)


def refuse_caught(error: BaseException) -> None:
    """Refuse an exception that only the graph raises, if a handler of Python is to catch it.

    Raises:
        TraceError: there is such a handler.
    """
    handler = next((one for one in reversed(_open.handlers) if one.catches(error)), None)
    if handler is None:
        return
    # an assertion is raised by eagerflow, for the line that is under way
    line = user_line(error) or capture()
    raised = "" if line is None else f", raised at {line_text(line.code, line.line)}"
    raise TraceError(
        "an exception is raised under a condition on a tensor, and caught",
        given=f"{type(error).__name__}{raised}\n    and caught at {handler.line}",
        hint="put the code of the handler into the `if`",
    )


# --- `finally` and `with` -----------------------------------------------------------------------


@operator
@final
class leaving:
    """A statement with a block and an end that runs whatever happens in the block.

    Args:
        line: a function in whose code the line of the end is, for messages.
    """

    def __init__(self, line: Callable[[], Any]) -> None:
        self.line = line
        self.kinds: tuple[type[BaseException], ...] = ()  # the exceptions that it suppresses

    def __enter__(self) -> None:
        _open.ends.append(self)
        self._nodes = _nodes_here()
        self._before = self._end = len(self._nodes)

    def end(self) -> None:
        """Note that the block has ended."""
        self._end = len(self._nodes)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _open.ends.pop()
        if error is not None:
            return
        left_out = next(_with_effects(self._nodes[self._end :]), None)
        if left_out is None:
            return
        failing = next(_that_may_fail(self._nodes[self._before : self._end]), None)
        if failing is not None:
            _note(
                f"code after a block does not run if the block raises: {left_out.op} at "
                f"{left_out.source}\n    and {_said(failing)} at {failing.source}\n    (put the "
                "`try` or `with` around the call of the traced function)"
            )


@operator
def ended() -> None:
    """Note that the block of a `try` has ended."""
    _open.ends[-1].end()


@operator
def manager(given: Any) -> Any:
    """A context manager of a `with`, as it is."""
    if type(given) is contextlib.suppress and interpreter.is_traced():
        _open.ends[-1].kinds += given._exceptions  # type: ignore[attr-defined]  # of the class
    return given


@operator
@contextlib.contextmanager
def managed() -> Iterator[None]:
    """The block of a `with`."""
    whole = _open.ends[-1]
    suppressed = UserCode(code_of(whole.line), lambda: whole.kinds)
    with catching(suppressed) if whole.kinds else contextlib.nullcontext():
        try:
            yield
        finally:
            whole.end()


def _with_effects(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes with effects, but for releases of mutexes, which happen in any case."""
    for node in all_nodes(nodes):
        if any(e in _EFFECTS for e, _ in effects_of([node])) and not get_op(node.op).releases:
            yield node


def _that_may_fail(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that raise an exception in an ordinary run."""
    return (node for node in all_nodes(nodes) if _raised_by(node) or _checks(node))


def _checks(node: Node) -> bool:
    """Whether a node raises an exception of the user's code."""
    op = find_op(node.op) if kind_of(node.op) == "op" else None
    return op is not None and op.calls_user and getattr(node.attrs["resource"], "checks", False)


def _said(node: Node) -> str:
    return "an exception" if _checks(node) else node.op
