"""Passes: functions from graph to graph that report their changes.

A pass takes a graph and returns a graph and a `Report`. It never changes its argument, and returns
the argument itself where there is nothing to do. Results stay the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from eagerflow import settings
from eagerflow.core.op import find_op
from eagerflow.graph.ir import Graph
from eagerflow.graph.passes.cse import cse
from eagerflow.graph.passes.donate import donate
from eagerflow.graph.passes.fold import fold
from eagerflow.graph.passes.prune import prune
from eagerflow.graph.passes.rewrite import Change, Origin, Pass, Report, is_large
from eagerflow.graph.passes.share import share
from eagerflow.graph.passes.simplify import has_rules, simplify
from eagerflow.graph.signatures import is_constant
from eagerflow.graph.verify import verify

__all__ = [
    "DEFAULT",
    "Change",
    "Origin",
    "Pass",
    "Report",
    "cse",
    "donate",
    "fold",
    "optimise",
    "prune",
    "run_passes",
    "share",
    "simplify",
]

#: the passes in their order: those that remove most nodes come first, `donate` at the end
DEFAULT: Final[tuple[Pass, ...]] = (prune, fold, simplify, cse, share, donate)
#: the maximal number of runs of each pass
_ROUNDS: Final = 10


def optimise(graph: Graph, passes: Sequence[Pass] = DEFAULT) -> tuple[Graph, list[Report]]:
    """Run ``passes`` in order, repeatedly, until none of them changes the graph.

    `donate` runs once, after the others. With ``ef.config(verify=True)`` the graph is checked
    after each pass.

    Args:
        graph: stays as it is.
        passes: functions that take a graph and return a graph and a report.

    Returns:
        The new graph, whose ``origin`` is the graph that it came from, and the reports of the
        runs that changed something. The graph itself if no pass changed it.

    >>> from eagerflow.graph.passes import optimise
    >>> text = "graph f(%x: f32[n]) { %y = stop_gradient(%x) : f32[n] return %y, %y }"
    >>> graph, reports = optimise(ef.Graph.parse(text))
    >>> print(graph)
    graph f(%x: f32[n]) {
      return %x, %x
    }
    >>> print(*reports)
    simplify: 1 change, 1 -> 0 nodes
      %y = stop_gradient is %x
    """
    result, reports = graph, []
    for before, after, report in run_passes(graph, passes):
        if after is not before:
            result = after
            reports.append(report)
    if result is not graph:
        origin = graph.origin or Origin(graph, ())
        result.origin = Origin(origin.graph, (*origin.reports, *reports))
    return result, reports


def run_passes(graph: Graph, passes: Sequence[Pass]) -> Iterator[tuple[Graph, Graph, Report]]:
    """The runs of `optimise`: the graph before, the graph after, the report.

    A pass that cannot apply to any node of the graph is not run.
    """
    last = [p for p in passes if p is donate]
    others = [p for p in passes if p is not donate]
    work = _Work(graph)
    idle, enough = 0, len(others)  # consecutive runs without a change
    for run in others * _ROUNDS:
        if idle >= enough:
            break
        if run not in work.without:
            before = graph
            graph, report = _run(run, before)
            yield before, graph, report
            if graph is not before:
                work = _Work(graph)
                # the pass that changed something need not run again: it would find nothing
                idle, enough = 0, len(others) - 1
                continue
        idle += 1
    for run in last:
        if run not in work.without:
            yield graph, *_run(run, graph)


def _run(run: Pass, graph: Graph) -> tuple[Graph, Report]:
    after, report = run(graph)
    if after is not graph and settings.current().verify:
        verify(after)
    return after, report


@final
class _Work:
    """The passes that may apply to a graph and its subgraphs, found in one visit of each node.

    Attributes:
        without: the passes that would find nothing.
    """

    def __init__(self, graph: Graph) -> None:
        self.without = {*DEFAULT}
        self._ops: set[str] = set()
        self._known: set[Graph] = set()
        self._see(graph)
        for op in self._ops:
            if has_rules(op):
                self.without.discard(simplify)
            record = find_op(op)
            if record is not None and (record.with_gradient or record.pair):
                self.without.discard(share)

    def _see(self, graph: Graph) -> None:
        self._known.add(graph)
        names: set[str] = set()
        read = {*graph.outputs}
        for node in graph.nodes:
            names.add(node.op)
            read.update(node.inputs)
        if len(names) < len(graph.nodes):  # one op twice
            self.without.discard(cse)
        self._ops |= names
        for node in graph.nodes:
            if not node.outputs or not read.issuperset(node.outputs):
                self.without.discard(prune)
            if node.op != "constant" and all(map(is_constant, node.inputs)):
                self.without.discard(fold)
            if node.reuses is not None or any(map(is_large, node.outputs)):
                self.without.discard(donate)
            if node.attrs:
                for _, inner in node.subgraphs():
                    self.without -= {prune, cse}  # loops carry values that nothing reads, or twice
                    if inner not in self._known:
                        self._see(inner)
