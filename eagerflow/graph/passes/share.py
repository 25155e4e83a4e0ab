"""An op and the gradient that repeats its work are computed together."""

from __future__ import annotations

from typing import Any

from eagerflow.core.op import find_op
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes.report import Report
from eagerflow.graph.passes.rewrite import Form, Rewriter, shown
from eagerflow.graph.signatures import kind_of

__all__ = ["share"]


def share(graph: Graph) -> tuple[Graph, Report]:
    """Compute losses together with their gradients, where what comes from above is known before.

    That is so unless the loss is multiplied by something which is computed later.
    """
    rewriter = Rewriter("share", graph)
    losses: dict[Any, Node] = {}
    joined: set[Node] = set()
    for node in graph.nodes:
        if node.attrs:
            rewriter.inside(node, share)
        op = find_op(node.op) if kind_of(node.op) == "op" else None
        if op is None or op.with_gradient is None or node.control_inputs:
            continue
        form = rewriter.form(node)
        first = losses.setdefault(_key(node, form), node)
        is_gradient = len(form.inputs) > len(rewriter.form(first).inputs)
        if is_gradient and first not in joined and _is_known_before(rewriter, form, first):
            joined.add(first)
            text = f"{shown(first)} and its gradient {shown(node)} are computed together"
            rewriter.join(first, node, op.with_gradient, text)
    return rewriter.finish()


def _key(node: Node, form: Form) -> Any:
    """What a loss and its gradient have in common."""
    return (form.op, form.inputs[:2], tuple(sorted(form.attrs.items())), node.device)


def _is_known_before(rewriter: Rewriter, form: Form, first: Node) -> bool:
    """Whether the last input is known before ``first``; a constant is put there."""
    maker = form.inputs[-1].node
    if maker is None:
        return True
    order = rewriter.order
    place = order.index(first)
    if maker in order[:place]:
        return True
    if maker.op != "constant" or maker.control_inputs:
        return False
    rest = [node for node in order if node is not maker]
    rewriter.order = [*rest[:place], maker, *rest[place:]]
    return True
