"""Stages of a graph between passes, for a view that shows two of them side by side."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.graph.ir import Graph
from eagerflow.graph.passes import DEFAULT, run_passes
from eagerflow.watching.graph_columns import NodeIndex, encode_structure

#: lines of a report that are shown
_LINES: Final = 40


def pass_stages(graph: Graph) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The runs of passes that changed something between a trace and ``graph``.

    The passes are run again: intermediate graphs are not kept.

    Args:
        graph: the result of the passes; any other graph has no stages.

    Returns:
        For each run the name of the pass and the lines of its report; and the structures of the
        graphs, one more: before the first run, and after each.
    """
    if graph.origin is None:
        return [], []
    stages, graphs = [], [graph.origin.graph]
    for before, after, report in run_passes(graph.origin.graph, DEFAULT):
        if after is not before:
            lines = str(report).split("\n")
            stages.append({"name": report.name, "lines": lines[:_LINES]})
            graphs.append(after)
    return stages, [encode_structure(NodeIndex(g)) for g in graphs]
