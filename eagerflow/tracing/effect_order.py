"""The order of effects in a trace, as control edges.

Reads and writes of one resource keep the order of the program. Fences (printing, calls of Python,
queues) wait for all effects before them, and all effects after them wait for the fence. Other
effects may overlap.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Any, Final, final

from eagerflow.core.op import Effect
from eagerflow.graph.ir import Node

_unordered: Final[ContextVar[bool]] = ContextVar("unordered", default=False)
_FENCES: Final = ("fence", "blocks")


#: effect of a node, with the resource
Effectful = tuple[Effect, Any]


@final
class _History:
    """The effects on one resource that later ones may have to wait for."""

    __slots__ = ("reads", "write")

    def __init__(self) -> None:
        self.write: Node | None = None
        self.reads: list[Node] = []


@final
class EffectOrder:
    """The effects traced so far, from which control edges of later nodes follow."""

    def __init__(self) -> None:
        self._of: dict[int, _History] = {}
        #: from before the last fence, for nodes that do not wait for the fence
        self._earlier: dict[int, _History] = {}
        self._fence: Node | None = None
        self._since: list[Node] = []  # the effects since the last fence
        #: nodes for which all later nodes wait, by `control_dependencies`
        self.extra: tuple[Node, ...] = ()

    def before(self, effects: Iterable[Effectful]) -> tuple[Node, ...]:
        """The nodes that a node with these effects has to wait for."""
        nodes: list[Node] = []
        for effect, resource in effects:
            nodes += self._before(effect, resource)
        return tuple(dict.fromkeys([*nodes, *self.extra]))

    def _before(self, effect: Effect, resource: Any) -> list[Node]:
        fences = not _unordered.get()
        if effect in _FENCES:
            nodes = list(self._since) if fences else []
        else:
            history = self._of.get(id(resource))
            histories = [history]
            if not fences and (history is None or history.write is None):
                histories.append(self._earlier.get(id(resource)))
            nodes = []
            for one in histories:
                if one is not None:
                    write = [] if one.write is None else [one.write]
                    nodes += (one.reads or write) if effect == "writes" else write
        if fences and self._fence is not None and not nodes:
            nodes = [self._fence]
        return nodes

    def add(self, node: Node, effects: Iterable[Effectful]) -> None:
        """Note that ``node`` has these effects."""
        effects = tuple(effects)
        if any(effect in _FENCES for effect, _ in effects):
            if not _unordered.get():
                self._fence, self._since = node, []
                self._earlier.update(self._of)
                self._of.clear()
            return
        self._since.append(node)
        for effect, resource in effects:
            history = self._of.setdefault(id(resource), _History())
            if effect == "writes":
                history.write, history.reads = node, []
            elif node is not history.write:
                history.reads.append(node)


@final
class unordered:
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

    def __exit__(self, *raised: object) -> None:
        _unordered.reset(self._tokens.pop())
