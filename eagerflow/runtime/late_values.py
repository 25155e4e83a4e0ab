"""Values of asynchronous devices: the nodes that wait for them, and the device's notification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import final

from eagerflow.graph.ir import Node, Value
from eagerflow.graph.lowering import is_steering
from eagerflow.graph.signatures import is_late, late_reads, lead_of, read_on_host
from eagerflow.hardware import Backend, as_device
from eagerflow.placement.cut import Cut
from eagerflow.types import TensorType

Then = Callable[[Exception | None], object]


@final
class LateValue:
    """Notification by a device that a value is there. It lets go of the step when that ends.

    Args:
        then: called with the failure of the value, or with None, unless `stop` came before.
    """

    __slots__ = ("_then",)

    def __init__(self, then: Then) -> None:
        self._then: Then | None = then

    def stop(self) -> None:
        """Note that the step ends and does not need the value any more."""
        self._then = None

    def ready(self, error: Exception | None) -> None:
        """Note that the value is there or, with an error, never will be."""
        then, self._then = self._then, None
        if then is not None:
            then(error)


def is_sent_late(node: Node) -> bool:
    """Whether the value of a Send has to be there before it can go to the other device."""
    if not node.inputs or "shape" in node.attrs or not isinstance(node.inputs[0].type, TensorType):
        return False
    source = as_device(node.device)
    return not source.is_ready_at_once and source.backend is not node.attrs["to"].backend


def late_inputs(nodes: Sequence[Node], inputs: Sequence[Value]) -> list[tuple[int, Backend]]:
    """Inputs that nodes wait for because the host reads them, each with its index and backend."""
    read = dict.fromkeys(n.inputs[i] for n in nodes for i in late_reads(n))
    return [(inputs.index(v), as_device(v.device).backend) for v in read if v in inputs]


def values_for_the_host(cut: Cut) -> set[Value]:
    """The values of devices that only the host reads, such as predicates of loops.

    They are read once, where they are made, and are in host memory for all partitions.
    """
    received = {sent: recv.outputs for sent, recv in cut.pairs.values()}
    taken_by: dict[Value, list[Node]] = {}
    for partition in cut.partitions:
        for node in partition.graph.nodes:
            for value in dict.fromkeys(node.inputs):
                taken_by.setdefault(value, []).append(node)
    given = {value for partition in cut.partitions for value in partition.graph.outputs}

    def reads(node: Node, value: Value) -> bool:
        if lead_of(node.op) == "send":
            return "shape" not in node.attrs and are_read(received[node])
        taken = {i for i, operand in enumerate(node.inputs) if operand is value}
        return taken <= read_on_host(node)

    def are_read(values: Iterable[Value]) -> bool:
        return all(v not in given and all(reads(n, v) for n in taken_by.get(v, ())) for v in values)

    late = set[Value]()
    for value, nodes in taken_by.items():
        maker = value.node
        if maker is None or (is_steering(maker.op) and "back" not in maker.attrs):
            continue  # steering nodes only pass a value on, except for back edges
        if is_late(value) and are_read([value]):
            late.add(value)
            late.update(*[received[node] for node in nodes if node in received])
    return late
