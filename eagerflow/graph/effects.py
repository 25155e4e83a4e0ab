"""The order of effects in a trace, as control edges.

Reads and writes of one resource keep the order of the program. Fences (printing, calls of Python,
queues) wait for all effects before them, and all effects after them wait for the fence. Other
effects may overlap.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, final

from eagerflow.core.op import Op
from eagerflow.graph.ir import Node

__all__ = ["EffectOrder", "unordered"]

_unordered: Final[ContextVar[bool]] = ContextVar("unordered", default=False)
_FENCES: Final = ("fence", "blocks")


@final
class _History:
    """The effects on one resource that later ones may have to wait for."""

    __slots__ = ("reads", "write")

    def __init__(self) -> None:
        self.write: Node | None = None
        self.reads: list[Node] = []


@final
class EffectOrder:
    """Knows of each op what it has to wait for."""

    def __init__(self) -> None:
        self._of: dict[int, _History] = {}
        self._fence: Node | None = None
        self._since: list[Node] = []  # the effects since the last fence
        #: what control_dependencies asks all nodes to wait for
        self.extra: tuple[Node, ...] = ()

    def before(self, op: Op, attrs: dict[str, Any]) -> tuple[Node, ...]:
        """The nodes that a node of ``op`` has to wait for."""
        if op.effect == "pure":
            return self.extra
        fences = not _unordered.get()
        if op.effect in _FENCES:
            found = list(self._since) if fences else []
        else:
            history = self._of.get(id(attrs.get("resource")))
            found = []
            if history is not None:
                found = [] if history.write is None else [history.write]
                if op.effect == "writes":
                    found = history.reads or found
        if fences and self._fence is not None and not found:
            found = [self._fence]
        return tuple(dict.fromkeys([*found, *self.extra]))

    def add(self, op: Op, node: Node, attrs: dict[str, Any]) -> None:
        """Note that ``node`` has the effect of ``op``."""
        if op.effect in _FENCES:
            if not _unordered.get():
                self._fence, self._since = node, []
                self._of.clear()
            return
        self._since.append(node)
        history = self._of.setdefault(id(attrs.get("resource")), _History())
        if op.effect == "writes":
            history.write, history.reads = node, []
        else:
            history.reads.append(node)


@final
class unordered:  # noqa: N801 - used like a function
    """Within a ``with`` block, printing, queues and calls of Python do not wait for other effects.

    Reads and assignments of one variable keep their order in any case.

    >>> v = ef.Variable(0.0)
    >>> @ef.trace
    ... def f(x):
    ...     with ef.unordered():
    ...         ef.print(x)
    ...     return v.assign_add(x)
    >>> [len(n.control_inputs) for n in f.graph(ef.tensor(1.0)).nodes]
    [0, 0]
    """

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._tokens.append(_unordered.set(True))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _unordered.reset(self._tokens.pop())
