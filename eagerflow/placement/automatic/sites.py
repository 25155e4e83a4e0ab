"""Sites: identities of a program's ops that outlast transformations of its graph.

Passes, placement and lowering rename nodes: the `exp` in the body of a loop is `exp_1` once the
loop is lowered. Observations of a node are kept under its *site*: its op, its line and its types,
which stay. Nodes of one site, such as those of an unrolled loop, take about equally long, and share
their observations.
"""

from __future__ import annotations

from typing import NamedTuple

from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_structured


class OpSite(NamedTuple):
    """The place in a program that a node comes from.

    Attributes:
        op: the name of its op.
        scope: its name scope.
        line: the user's line; the name of a node that has none.
        types: the types of its inputs and results; none for branches and loops, whose operands
            change with the placement.
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
