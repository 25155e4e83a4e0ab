"""Nodes that repeat each other's work are computed by one op.

These are a loss and its gradient, which need the same softmax, and sums of segments by the same
ids, such as the sums and the sizes of clusters, which go through the ids together.
"""

from __future__ import annotations

from typing import Any

from eagerflow.core.op import find_op
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import Form, Report, Rewriter, is_pure, shown
from eagerflow.graph.value_types import NumberType
from eagerflow_kernels.table import is_replaced


def share(graph: Graph) -> tuple[Graph, Report]:
    """Compute losses together with their gradients, and sums of segments by the same ids.

    Inputs have to be known before the first of two nodes: the cotangent of a loss is, unless the
    loss is multiplied by a value that is computed later. A node whose kernel was replaced by a user
    stays: the op that computes both has another kernel.
    """
    rewriter = Rewriter("share", graph)
    losses: dict[Any, Node] = {}
    sums: dict[Any, Node] = {}
    joined: set[Node] = set()
    for node in graph.nodes:
        if node.attrs:
            rewriter.inside(node, share)
        op = find_op(node.op)
        both = None if op is None else op.with_gradient or op.pair
        if op is None or both is None or node.control_inputs:
            continue
        if is_replaced(node.op) or is_replaced(both):
            continue  # kernels of users need not agree with each other
        if op.pair is None:
            _join_loss(rewriter, node, both, losses, joined)
        else:
            _join_sums(rewriter, node, both, sums)
    return rewriter.finish()


def _join_loss(
    rewriter: Rewriter, node: Node, both: str, losses: dict[Any, Node], joined: set[Node]
) -> None:
    """Join a gradient and the loss before it, if ``node`` is a gradient."""
    form = rewriter.form(node)
    first = losses.setdefault(_loss_key(node, form), node)
    is_gradient = len(form.inputs) > len(rewriter.form(first).inputs)
    if is_gradient and first not in joined and _is_known_before(rewriter, form.inputs[-1], first):
        joined.add(first)
        text = f"{shown(first)} and its gradient {shown(node)} are computed together"
        rewriter.join(first, node, form._replace(op=both), text)


def _loss_key(node: Node, form: Form) -> Any:
    """A key that a loss and its gradient share."""
    attrs = tuple(sorted(form.attrs.items()))
    return (form.op, form.inputs[:2], attrs, node.device, node.because)


def _join_sums(rewriter: Rewriter, node: Node, both: str, sums: dict[Any, Node]) -> None:
    """Join two sums by the same ids, of which one is of single numbers.

    Two sums of rows would only run one after the other.
    """
    form = rewriter.form(node)
    values, ids = form.inputs
    sizes = tuple([(name, str(size)) for name, size in sorted(form.attrs.items())])
    key = form.op, ids, sizes, node.device, node.because
    first = sums.setdefault(key, node)
    if first is node:
        return
    before = rewriter.form(first).inputs[0]
    if (_axes(before) == 1) == (_axes(values) == 1):
        return
    if _is_known_before(rewriter, values, first):
        del sums[key]
        text = f"{shown(first)} and {shown(node)} have the same ids and are computed together"
        inputs = before, values, ids
        rewriter.join(first, node, Form(both, inputs, form.attrs), text)


def _axes(value: Value) -> int:
    """The number of axes of a tensor."""
    assert not isinstance(value.type, NumberType)
    return len(value.type.shape)


def _is_known_before(rewriter: Rewriter, value: Value, first: Node) -> bool:
    """Whether ``value`` is computed before ``first``; what needs no inputs is moved there."""
    maker = value.node
    if maker is None:
        return True
    order = rewriter.order
    position = order.index(first)
    if maker in order[:position]:
        return True
    if maker.inputs or maker.control_inputs or not is_pure(maker):
        return False
    rest = [node for node in order if node is not maker]
    rewriter.order = [*rest[:position], maker, *rest[position:]]
    return True
