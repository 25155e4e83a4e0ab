"""Send and Recv in the scheduled tier: transfers between partitions, which hold no thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from eagerflow.graph.ir import Node
from eagerflow.hardware import NullArray, as_device
from eagerflow.runtime.late_values import LateValue, is_sent_late
from eagerflow.runtime.rendezvous.keys import Key, key_of
from eagerflow.runtime.scheduled.actions import asynchronous
from eagerflow.runtime.scheduled.completions import Completion
from eagerflow.runtime.sent_values import asked
from eagerflow.types import TensorType


def _send(
    node: Node, inputs: Sequence[Any], completion: Completion
) -> Callable[[], object] | None:  # fmt: skip
    """Send a value when it is there, or a signal; no thread waits for a late value."""
    data: Any = None
    if is_sent_late(node):
        (data,) = inputs
        late = LateValue(partial(_send_ready, node, data, completion, asked()))
        backend = as_device(node.device).backend
        completion.brought_on(backend.when_ready(data, late.ready))
        return late.stop
    if inputs:
        (data,) = inputs
        if "shape" in node.attrs:
            data = NullArray(data.dtype, data.shape)
        elif isinstance(node.inputs[0].type, TensorType):
            data = completion.tier.sent.move(data, node, asked())  # the value is there already
    completion.rendezvous.send(_key(node, completion), data, sent=completion.end)
    return None


def _send_ready(
    node: Node, data: Any, completion: Completion, asked: Mapping[str, Any],
    error: Exception | None,
) -> None:  # fmt: skip
    """Send a late value that its device has made, or end the node with the error."""
    if error is not None or completion.answered:
        completion.end(error)
        return
    try:
        moved = completion.tier.sent.move(data, node, asked)
        completion.rendezvous.send(_key(node, completion), moved, sent=completion.end)
    except BaseException as failure:  # without an answer the step would wait for ever
        completion.end(failure)


def _key(node: Node, completion: Completion) -> Key:
    """The rendezvous key of the edge of a node, in the present iteration."""
    return key_of(node.attrs, completion.rendezvous.step, completion.path())


def _receive(node: Node, inputs: Sequence[Any], completion: Completion) -> Callable[[], object]:
    count = len(node.outputs)

    def arrived(data: Any, dead: bool, error: Exception | None) -> None:
        completion.end(error, *(data,) * count)

    return completion.rendezvous.receive(_key(node, completion), arrived)


asynchronous["Send"] = _send
asynchronous["Recv"] = _receive
