"""Loops whose turns are traced one after the other: each turn puts its nodes into the graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Final, final
from weakref import WeakKeyDictionary

from eagerflow.autograph.reading import line_text
from eagerflow.autograph.regions import tracer_here
from eagerflow.core import interpreter
from eagerflow.graph.ir import Graph
from eagerflow.graph.trace import Tracer, tracer_of

__all__ = ["LARGE", "Unrolled", "turns_of", "unrolled", "unrolled_loops"]

#: nodes from which on people are told
LARGE: Final = 3000

_no_loops: Final[WeakKeyDictionary[Tracer, set[CodeType]]] = WeakKeyDictionary()
#: by the graph, or the part of it, that the nodes went into
_loops: Final[WeakKeyDictionary[Graph, dict[CodeType, Unrolled]]] = WeakKeyDictionary()


@final
@dataclass(slots=True)
class Unrolled:
    """A loop of Python in a traced function.

    Attributes:
        line: of the loop, for people.
        turns: how many there were, of all times that it ran.
        nodes: how many they put into the graph.
    """

    line: str
    turns: int = 0
    nodes: int = 0

    @property
    def warning(self) -> str:
        """What to tell if there are many."""
        return (
            f"{self}; to make it one loop of the graph, go over a tensor (`for x in xs`) or "
            "`range(x.shape[0])`, and index no Python list in it"
        )

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return f"{self.line.rstrip(':')}: {self.turns:,} turns made {nodes}"


def unrolled() -> set[CodeType]:
    """The bodies of loops in this trace that can be no loops of the graph."""
    return _no_loops.setdefault(tracer_here().root, set())


def unrolled_loops(graph: Graph) -> list[Unrolled]:
    """The loops of which several turns put nodes into a graph, those with the most nodes first."""
    found: dict[CodeType, Unrolled] = {}
    for part in _parts(graph):
        for code, one in _loops.get(part, {}).items():
            before = found.get(code, Unrolled(one.line))
            found[code] = Unrolled(one.line, before.turns + one.turns, before.nodes + one.nodes)
    loops = [one for one in found.values() if one.turns > 1 and one.nodes]
    return sorted(loops, key=lambda one: (-one.nodes, one.turns))


def _parts(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for _, inner in node.subgraphs():
            yield from _parts(inner)


@contextmanager
def turns_of(code: CodeType, done: tuple[int, int] = (0, 0)) -> Iterator[list[None]]:
    """Note the turns of a loop of Python: the block appends to a list in each.

    Args:
        code: of which the first line is that of the loop.
        done: turns that there were before, and the nodes that they made.
    """
    turns: list[None] = [None] * done[0]
    tracer = tracer_of(interpreter.current()) if interpreter.stack.installed else None
    if tracer is None:
        yield turns
        return
    graph = tracer.graph
    before = len(graph.nodes)
    yield turns
    line = line_text(code, code.co_firstlineno)
    one = _loops.setdefault(graph, {}).setdefault(code, Unrolled(line))
    one.turns += len(turns)
    one.nodes += done[1] + len(graph.nodes) - before
