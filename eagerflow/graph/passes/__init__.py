"""Passes: functions from graph to graph that say what they changed.

A pass takes a graph and gives a graph and a `Report`. It never changes its argument, and gives
the argument itself where there is nothing to do. Results stay the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from eagerflow import settings
from eagerflow.graph.ir import Graph, methods
from eagerflow.graph.passes import arithmetic, movement  # noqa: F401 - they add rules to `simplify`
from eagerflow.graph.passes.cse import cse
from eagerflow.graph.passes.donate import donate
from eagerflow.graph.passes.fold import fold
from eagerflow.graph.passes.prune import prune
from eagerflow.graph.passes.report import Change, Origin, Report
from eagerflow.graph.passes.share import share
from eagerflow.graph.passes.simplify import simplify
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

Pass = Callable[[Graph], tuple[Graph, Report]]

#: the passes in their order: the fewer nodes the better for all that follow, `donate` at the end
DEFAULT: Final[tuple[Pass, ...]] = (prune, fold, simplify, cse, share, donate)
#: the maximal number of runs of each pass
_ROUNDS: Final = 10


def optimise(graph: Graph, passes: Sequence[Pass] = DEFAULT) -> tuple[Graph, list[Report]]:
    """Run ``passes`` in order, and again as long as one of them finds something to do.

    `donate` runs once, after the others. With ``ef.config(verify=True)`` the graph is checked
    after each pass.

    Args:
        graph: stays as it is.
        passes: functions that take a graph and give a graph and a report.

    Returns:
        The new graph, which remembers in ``origin`` where it came from, and the reports of the
        runs that changed something. The graph itself if nothing was to be done.

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
    """The runs of `optimise`: the graph before, the graph after, the report."""
    last = [p for p in passes if p is donate]
    others = [p for p in passes if p is not donate]
    idle, enough = 0, len(others)  # how many in a row changed nothing
    for run in others * _ROUNDS:
        if idle >= enough:
            break
        after, report = _run(run, graph)
        # the one that changed something need not run again: it would find nothing
        idle, enough = (idle + 1, enough) if after is graph else (0, len(others) - 1)
        yield graph, after, report
        graph = after
    for run in last:
        after, report = _run(run, graph)
        yield graph, after, report
        graph = after


def _run(run: Pass, graph: Graph) -> tuple[Graph, Report]:
    after, report = run(graph)
    if after is not graph and settings.current().verify:
        verify(after)
    return after, report


def _optimised(graph: Graph) -> Graph:
    return optimise(graph)[0]


methods["optimise"] = _optimised
