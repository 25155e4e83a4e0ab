"""Texts for shares, executables and nodes."""

from __future__ import annotations

from eagerflow.graph.ir import Node
from eagerflow.runtime.executable import find_executable


def share_text(share: float) -> str:
    """A part of a whole, in percent.

    >>> from eagerflow.watching.naming import share_text
    >>> share_text(0.713)
    '71 %'
    """
    return f"{share:.0%}".replace("%", " %")


def name_of(number: int) -> str:
    """The name of the graph that an executable runs."""
    executable = find_executable(number)
    return "a graph that is gone" if executable is None else executable.graph.name or "graph"


def is_at_tasks(number: int) -> bool:
    """Whether an executable runs, in part or as a whole, at task servers."""
    executable = find_executable(number)
    return executable is not None and executable.tier.name == "remote"


def place_of(node: Node) -> str:
    """The text of a node: its name, with its scope."""
    scope = f" in {node.scope}" if node.scope else ""
    return f"{node.name}{scope}"
