"""Refusals of `verify_cut`: each defect is put into partitions that are right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eagerflow as ef
from eagerflow.errors import GraphError
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import lower
from eagerflow.hardware import as_device
from eagerflow.placement.cut import Cut, cut
from eagerflow.placement.partition_check import verify_cut

_THERE_AND_BACK = """
    graph f(%x: f32[2]@cpu:0) {
      %y = exp(%x) : f32[2]@cpu:0
      %a = transfer(%y) {device=device("cpu:1"), source=device("cpu:0")} : f32[2]@cpu:1
      %p = sin(%a) : f32[2]@cpu:1
      %b = transfer(%p) {device=device("cpu:0"), source=device("cpu:1")} : f32[2]@cpu:0
      %q = add(%b, %y) : f32[2]@cpu:0
      return %q
    }"""


def graph_of(made: Cut, device: str) -> Graph:
    return next(p.graph for p in made.partitions if str(p.device) == device)


def node_of(made: Cut, device: str, op: str) -> Node:
    return next(n for n in graph_of(made, device).nodes if n.op == op)


def lose_a_send(made: Cut) -> None:
    graph = graph_of(made, "cpu:0")
    graph.nodes.remove(node_of(made, "cpu:0", "Send"))


def send_twice(made: Cut) -> None:
    sent = node_of(made, "cpu:0", "Send")
    graph_of(made, "cpu:0").add_node("Send", sent.inputs, (), sent.attrs, device=sent.device)


def put_a_node_elsewhere(made: Cut) -> None:
    node = node_of(made, "cpu:1", "sin")
    node.device = as_device("cpu:0")
    node.inputs[0].node.device = as_device("cpu:0")


def wait_for_what_comes_later(made: Cut) -> None:
    sent, last = node_of(made, "cpu:0", "Send"), node_of(made, "cpu:0", "add")
    graph = graph_of(made, "cpu:0")
    graph.nodes.remove(sent)
    graph.nodes.append(sent)  # its own graph stays well-formed
    sent.control_inputs = (last,)


def lose_a_level(made: Cut) -> None:
    received = node_of(made, "cpu:0", "Recv")
    received.attrs = {k: v for k, v in received.attrs.items() if k != "level"}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lose_a_send, "is only sent or only received"),
        (send_twice, "occurs twice"),
        (put_a_node_elsewhere, "is in the partition of cpu:1"),
        (wait_for_what_comes_later, "on cpu:0 waits for &q on cpu:0, which comes later"),
        (lose_a_level, "states a wrong level"),
    ],
)
def test_a_defect_is_refused(damage: Callable[[Cut], None], message: str) -> None:
    with ef.config(cpu_devices=2):
        made = cut(lower(Graph.parse(_THERE_AND_BACK)))
        verify_cut(made)
        damage(made)
        with pytest.raises(GraphError, match=message):
            verify_cut(made)
