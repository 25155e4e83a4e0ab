"""The picture of `docs/partitions.md`: a training step over two devices, cut into its partitions.

Run: ``python -m tests.pictures.partitioned_step`` draws it anew, with Graphviz.
"""

from __future__ import annotations

from typing import Any, Final

import eagerflow as ef
from eagerflow.graph.edit import copy_node
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering import lower
from eagerflow.pictures.svg import to_svg
from eagerflow.placement.cut import Cut, cut
from eagerflow.placement.partition_check import verify_cut
from tests.source_tree import ROOT

STORED: Final = ROOT / "docs" / "images" / "partitions.svg"


def training_step() -> Graph:
    """A step of gradient descent for a network with a layer on each of two devices."""
    a = ef.Variable(ef.ones((8, 16), device="cpu:0"), name="a")
    b = ef.Variable(ef.ones((16, 1), device="cpu:1"), name="b")

    def loss(x: Any, y: Any) -> Any:
        with ef.device("cpu:0"):
            hidden = ef.tanh(x @ a)
        with ef.device("cpu:1"):
            return ((hidden @ b - y) ** 2).sum()

    @ef.trace
    def step(x: Any, y: Any, rate: float) -> Any:
        error, (da, db) = ef.value_and_grad(loss, wrt=[a, b])(x, y)
        a.assign_sub(rate * da)
        b.assign_sub(rate * db)
        return error

    return step.graph(ef.ones((32, 8)), ef.ones((32, 1), device="cpu:1"), 0.1)


def union(made: Cut) -> Graph:
    """The nodes of all partitions as one graph, in the order of the cut."""
    graph = Graph(made.graph.name)
    graph.resources = dict(made.graph.resources)
    values: dict[Value, Value] = {}
    nodes: dict[Node, Node] = {}
    for partition in made.partitions:
        for value in partition.graph.inputs:
            values[value] = graph.add_input(value.type, value.label, value.stated)
    for node in made.order:
        inputs = [values[v] for v in node.inputs]
        waits = tuple([nodes[n] for n in node.control_inputs])
        nodes[node] = copy = copy_node(graph, node, inputs, control_inputs=waits)
        values.update(zip(node.outputs, copy.outputs, strict=True))
    graph.outputs = [values[v] for _, v in made.outputs]
    return graph


def partitioned_step() -> Graph:
    """The partitions of the step, as one graph to be drawn."""
    with ef.config(cpu_devices=2):
        made = cut(lower(training_step()))
        verify_cut(made)
        return union(made)


if __name__ == "__main__":
    drawn = str(to_svg(partitioned_step(), types=False))
    STORED.write_text(drawn.replace(f"{ROOT}/", "") + "\n")
    print(f"wrote {STORED.relative_to(ROOT)}")
