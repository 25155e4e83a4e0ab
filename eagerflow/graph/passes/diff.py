"""Differences that passes made to a graph, as text with marks in front of the lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import ndiff
from typing import Final, final

from eagerflow.errors import GraphError
from eagerflow.graph.ir import Graph
from eagerflow.graph.passes import DEFAULT, optimise, run_passes
from eagerflow.graph.text.printer import Printer

_CONTEXT: Final = 1
_Line = tuple[str, str]  # the mark and the line


@final
class GraphDiff(str):
    """A text that notebooks show line by line, and not as a string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def diff(graph: Graph, pass_name: str | None = None) -> GraphDiff:
    """The changes of passes to the graph that ``graph`` was made from, or to ``graph`` itself.

    Args:
        graph: a graph, optimised or not.
        pass_name: the pass whose runs are shown; None for all passes together.

    Returns:
        The reports, and the lines that changed: ``-`` before, ``+`` after.

    Raises:
        GraphError: there is no such pass.
    """
    start = graph if graph.origin is None else graph.origin.graph
    if pass_name is None:
        end = optimise(graph)[0] if graph.origin is None else graph
        reports = () if end.origin is None else end.origin.reports
        return _join([*map(str, reports), *diff_graphs(start, end)])
    names = [p.__name__ for p in DEFAULT]
    if pass_name not in names:
        raise GraphError(f"there is no pass {pass_name!r}", expected=", ".join(names))
    parts: list[str] = []
    for before, after, report in run_passes(start, DEFAULT):
        if report.name == pass_name and after is not before:
            parts += [str(report), *diff_graphs(before, after)]
    return _join(parts)


def _join(lines: Sequence[str]) -> GraphDiff:
    return GraphDiff("\n".join(lines) if lines else "nothing changed")


def diff_graphs(before: Graph, after: Graph) -> list[str]:
    """The lines that differ, each with a mark, and one line of context around them.

    Nodes are matched by name and keep their order, so the time is linear in their number.
    """
    marked = list(_marked(_blocks(before), _blocks(after)))
    near: set[int] = set()
    for i, (mark, _) in enumerate(marked):
        if mark != " ":
            near.update(range(i - _CONTEXT, i + _CONTEXT + 1))
    lines: list[str] = []
    for i, (mark, line) in enumerate(marked):
        if i in near:
            lines.append(f"{mark} {line}")
        elif lines and lines[-1] != "  ...":
            lines.append("  ...")
    return lines


def _blocks(graph: Graph) -> dict[str, list[str]]:
    """The lines of the text by the part that they belong to: the head, a node, the end."""
    head, *nodes, end, close = Printer().graph(graph)
    pairs = zip(graph.nodes, nodes, strict=True)
    blocks = {f"&{node.name}": text.split("\n") for node, text in pairs}
    return {"": [head], **blocks, " ": [end, close]}


def _marked(before: dict[str, list[str]], after: dict[str, list[str]]) -> Iterator[_Line]:
    rest = iter(after.items())
    for name, lines in before.items():
        if name not in after:
            yield from (("-", line) for line in lines)
            continue
        for other, new in rest:
            if other == name:
                yield from _compared(lines, new)
                break
            yield from (("+", line) for line in new)


def _compared(old: list[str], new: list[str]) -> Iterator[_Line]:
    lines = (f"  {line}" for line in old) if old == new else ndiff(old, new)
    return ((line[0], line[2:]) for line in lines if line[0] != "?")
