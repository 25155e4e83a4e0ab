"""Which node generated code is at, from the frames of a thread that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

from eagerflow.graph.signatures import is_loop
from eagerflow.graph_position import GraphPosition
from eagerflow.runtime.generated.codegen import Code
from eagerflow.source import Source, variables_of

__all__ = ["position_in"]


def position_in(
    code: Code, frames: Sequence[FrameType], executable: int, graph: str
) -> GraphPosition | None:
    """The position of a thread; None if it is between two nodes.

    Args:
        code: that runs.
        frames: those of the thread in this code, the innermost first.
        executable: the number of what runs it.
        graph: the name of its graph.
    """
    program = code.program
    index = code.lines[frames[0].f_lineno]
    node = program.all[index].node if index >= 0 else None
    if node is None:
        return None
    loops = [line for line, _ in program.around[index] if line.node and is_loop(line.node.op)]
    known = [variables_of(frame) for frame in frames] if loops else []
    return GraphPosition(
        source=node.source if isinstance(node.source, Source) else None,
        executable=executable,
        graph=graph,
        node=node.name,
        frames=tuple([
            (loop.node.name, iteration)
            for loop in loops
            if loop.node is not None and (iteration := _local(known, f"k{loop.index}")) is not None
        ]),
    )  # fmt: skip


def _local(known: Sequence[dict[str, Any]], name: str) -> Any:
    """A variable of the innermost function that has it."""
    return next((variables[name] for variables in known if name in variables), None)
