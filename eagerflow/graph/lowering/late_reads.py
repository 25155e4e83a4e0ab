"""What nodes read in the memory of the host though a device makes it, and may take its time."""

from __future__ import annotations

from eagerflow.core.op import find_op
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.signatures import read_on_host
from eagerflow.hardware import Device, is_ready_at_once
from eagerflow.types import TensorType


def late_reads(node: Node) -> list[int]:
    """The positions of the inputs of a node that it has to wait for, wherever it runs.

    Such are predicates, and tensors that become Python numbers, on a device whose values are not
    there when the op that makes them has returned.
    """
    return [i for i in sorted(read_on_host(node)) if _is_late(node.inputs[i])]


def _is_late(value: Value) -> bool:
    if not isinstance(value.type, TensorType) or not isinstance(value.device, Device):
        return False
    maker = None if value.node is None else find_op(value.node.op)
    if maker is not None and value.index in maker.host_outputs:
        return False
    return not is_ready_at_once(value.device)


def reads_late(node: Node) -> bool:
    """Whether a branch or a loop reads such a value within it."""
    return any(
        late_reads(inner) or _asks_late(inner) or reads_late(inner)
        for _, graph in node.subgraphs() for inner in graph.nodes
    ) or _asks_late(node)  # fmt: skip


def _asks_late(node: Node) -> bool:
    """Whether a loop asks for another iteration by such a value."""
    asked = [v for key, graph in node.subgraphs() if key == "cond" for v in graph.outputs]
    return any(map(_is_late, asked))
