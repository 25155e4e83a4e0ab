"""`finally` and `with` in converted code: a run of the graph that fails does not run their ends.

The trace runs them. Their nodes come after the block in the graph, which a run that fails in the
block does not reach: where this can happen, the user is warned. The exceptions that
`contextlib.suppress` names are treated like those of a handler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, final

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.failures.handlers import OpenBlocks, catching, note, raised_by
from eagerflow.autograph.tracking.blocks import UserCode
from eagerflow.core import interpreter
from eagerflow.core.op import get_op
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import kind_of
from eagerflow.tracing.tracer import tracer_of

__all__ = ["ended", "leaving", "managed", "manager"]

#: ops without an effect of their own, and an op whose effect happens in any case
_EFFECTS: Final = ("writes", "fence", "blocks")


@operator
@final
class leaving:  # noqa: N801 - converted code calls it as an operator
    """A statement with a block and an end that runs whatever happens in the block.

    Args:
        place: gives the line of its end, for messages.
    """

    def __init__(self, place: Callable[[], Any]) -> None:
        self._place = place
        self.kinds: tuple[type[BaseException], ...] = ()  # the exceptions that it suppresses
        self.block: catching | None = None

    def __enter__(self) -> None:
        _under_way.all.append(self)
        tracer = tracer_of(interpreter.current()) if interpreter.stack.installed else None
        self._nodes: Sequence[Node] = [] if tracer is None else tracer.graph.nodes
        self._before = self._end = len(self._nodes)

    def begin(self) -> None:
        """Note that the block begins."""
        if self.kinds:
            code: Any = getattr(self._place, "__code__")  # noqa: B009 - of a callable
            self.block = catching(UserCode(code, lambda: self.kinds))
            self.block.__enter__()

    def end(self) -> None:
        """Note that the block has ended."""
        self._end = len(self._nodes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        _under_way.all.pop()
        if error is not None:
            return
        left_out = next(_with_effects(self._nodes[self._end :]), None)
        if left_out is None:
            return
        failing = next(_that_may_fail(self._nodes[self._before : self._end]), None)
        if failing is not None:
            note(
                f"what follows a block does not happen in runs that fail in it: {left_out.op} at "
                f"{left_out.source}\n    and {_said(failing)} at {failing.source}\n    (put the "
                "`try` or `with` around the call of the traced function)"
            )


_under_way: Final = OpenBlocks()


@operator
def ended() -> None:
    """Say that the block of a `try` has ended."""
    _under_way.all[-1].end()


@operator
def manager(given: Any) -> Any:
    """A context manager of a `with`, as it is."""
    if type(given) is contextlib.suppress and interpreter.is_traced():
        _under_way.all[-1].kinds += given._exceptions  # type: ignore[attr-defined]  # of the class
    return given


@operator
@final
class managed:  # noqa: N801 - converted code calls it as an operator
    """The block of a `with`."""

    def __enter__(self) -> None:
        self._of = _under_way.all[-1]
        self._of.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._of.end()
        if self._of.block is not None:
            self._of.block.__exit__(kind, error, trace)


def _nodes_of(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, and those within them."""
    for node in nodes:
        yield node
        for _, part in node.subgraphs():
            yield from _nodes_of(part.nodes)


def _with_effects(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that do more than compute values."""
    for node in _nodes_of(nodes):
        silent = kind_of(node.op) != "op" or node.op == "mutex_release"
        if not silent and get_op(node.op).effect in _EFFECTS:
            yield node


def _that_may_fail(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that raise an exception in an ordinary run."""
    return (node for node in _nodes_of(nodes) if raised_by(node) or _checks(node))


def _checks(node: Node) -> bool:
    """Whether a node is an exception of the user's code."""
    return node.op == "py_call" and node.attrs["resource"].checks


def _said(node: Node) -> str:
    return "what is raised" if _checks(node) else node.op
