"""What tells one op of a program from another, whatever was made of its graph.

Passes, placing and lowering give nodes other names: the `exp` in the body of a loop is `exp_1` once
the loop is lowered. What was observed of a node is kept under its *site*: its op, its line and its
types, which stay. Nodes of one site, such as those of a loop that was unrolled, take about as long
as each other, and share what was observed.
"""

from __future__ import annotations

from typing import NamedTuple

from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_structured


class OpSite(NamedTuple):
    """Where in a program a node comes from.

    Attributes:
        op: the name of its op.
        scope: its name scope.
        line: the user's line; the name of a node that has none.
        types: those of its inputs and results; none for branches and loops, which take other values
            where they are placed otherwise.
    """

    op: str
    scope: str
    line: str
    types: tuple[str, ...]


def site_of(node: Node) -> OpSite:
    """The site of a node.

    >>> from eagerflow.placement.automatic.sites import site_of
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> site_of(graph.nodes[0])
    OpSite(op='exp', scope='', line='y', types=('f32[n]', 'f32[n]'))
    """
    line = node.name if node.source is None else str(node.source)
    values = () if is_structured(node.op) else (*node.inputs, *node.outputs)
    return OpSite(node.op, node.scope, line, tuple([str(value.type) for value in values]))
