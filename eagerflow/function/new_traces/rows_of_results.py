"""A warning for one tensor in the place of values and indices: ``x.max(-1)[0]`` is its first row.

It is given for traces alone, whose graph tells: an index in eager code comes too often to look at
the call before it.
"""

from __future__ import annotations

import warnings
from itertools import islice
from typing import Any, Final

from eagerflow.control.structured import all_nodes
from eagerflow.graph.ir import Graph, Node
from eagerflow.source import Source
from eagerflow.unknown_names import find_hint

_FIRST: Final = (None, (), 0, (0,))  # axes
_INSTRUCTION: Final = 2  # bytes
#: registry of warnings, so that each line warns once
_said: Final[dict[Any, Any]] = {}


def warn_of_rows(graph: Graph) -> None:
    """Warn of rows of results along an axis that the code takes directly: ``x.max(-1)[0]``.

    Those along axis 0 may be meant, as in ``points.max(0)[0]``, and those of named results.

    Args:
        graph: of a trace.
    """
    made = {
        node.outputs[0]: node
        for node in all_nodes(graph.nodes)
        if "axis" in node.attrs and node.outputs
    }
    for node in all_nodes(graph.nodes):
        before = made.get(node.inputs[0]) if _takes_row(node) else None
        if before is None or before.attrs["axis"] in _FIRST or not _follows(node, before):
            continue
        hint, source = find_hint("pair", before.op), node.source
        if hint is not None and isinstance(source, Source):
            text = (
                f"{before.op} gives one tensor, of which this is a row; {hint}. If the row is "
                f"meant, give the tensor a name first\n  at: {source}"
            )
            warnings.warn_explicit(text, UserWarning, source.file, source.line, registry=_said)


def _takes_row(node: Node) -> bool:
    """Whether a node is ``x[0]`` or ``x[1]``."""
    key = node.attrs.get("key")
    return type(key) is tuple and len(key) == 1 and type(key[0]) is int and key[0] in (0, 1)


def _follows(node: Node, before: Node) -> bool:
    """Whether the expressions of two nodes begin at one place: then one is part of the other."""
    start = _start(node.source)
    return start is not None and start == _start(before.source)


def _start(source: Source | str | None) -> tuple[Any, ...] | None:
    """The code, line and column at which an instruction's expression begins."""
    if not isinstance(source, Source):
        return None
    at = next(islice(source.code.co_positions(), source.offset // _INSTRUCTION, None), None)
    return None if at is None or at[2] is None else (id(source.code), at[0], at[2])
