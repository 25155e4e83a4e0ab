"""Values that come late: what has to wait for them, and what a device tells when they are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from eagerflow.graph.ir import Node, Value
from eagerflow.graph.signatures import late_reads
from eagerflow.hardware import Backend, as_device
from eagerflow.types import TensorType

Then = Callable[[Exception | None], object]


@final
class LateValue:
    """What a device tells when a value is there. It lets go of the step when that ends.

    Args:
        then: called with the failure of the value, or with None, unless it was stopped before.
    """

    __slots__ = ("_then",)

    def __init__(self, then: Then) -> None:
        self._then: Then | None = then

    def stop(self) -> None:
        """The step ends: nobody wants the value any more."""
        self._then = None

    def ready(self, error: Exception | None) -> None:
        """The value is there, or never will be."""
        then, self._then = self._then, None
        if then is not None:
            then(error)


def is_sent_late(node: Node) -> bool:
    """Whether what a Send sends has to be there before it can go to the other device."""
    if not node.inputs or "shape" in node.attrs or not isinstance(node.inputs[0].type, TensorType):
        return False
    source = as_device(node.device)
    return not source.is_ready_at_once and source.backend is not node.attrs["to"].backend


def late_inputs(nodes: Sequence[Node], inputs: Sequence[Value]) -> list[tuple[int, Backend]]:
    """Which inputs nodes have to wait for, as the host reads them, and whose arrays they are."""
    read = dict.fromkeys(n.inputs[i] for n in nodes for i in late_reads(n))
    return [(inputs.index(v), as_device(v.device).backend) for v in read if v in inputs]
