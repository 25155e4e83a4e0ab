"""Send and Recv in the scheduled tier: what goes from partition to partition holds no thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerflow.graph.ir import Node
from eagerflow.hardware import Backend, NullArray, as_device
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.scheduled.actions import asynchronous
from eagerflow.runtime.scheduled.step import Completion
from eagerflow.runtime.sent_values import asked
from eagerflow.types import TensorType


def _send(node: Node, inputs: Sequence[Any], completion: Completion) -> None:
    """Send a value when it is there, or that a node has run; holds no thread until then."""
    data: Any = None
    if inputs:
        (data,) = inputs
        if "shape" in node.attrs:
            data = NullArray(data.dtype, data.shape)
        elif isinstance(node.inputs[0].type, TensorType):
            backend = as_device(node.device).backend
            if backend is not node.attrs["to"].backend:
                _send_when_ready(backend, data, node, completion)
                return
            data = completion.tier.sent.move(
                data, node, asked()
            )  # no one waits for the values here
    completion.rendezvous.send(_key(node, completion), data, sent=completion.end)


def _send_when_ready(backend: Backend, data: Any, node: Node, completion: Completion) -> None:
    who = asked()

    def ready(error: Exception | None) -> None:
        if error is not None or completion.answered:
            completion.end(error)
            return
        try:
            moved = completion.tier.sent.move(data, node, who)
            completion.rendezvous.send(_key(node, completion), moved, sent=completion.end)
        except Exception as failure:
            completion.end(failure)

    backend.when_ready(data, ready)


def _key(node: Node, completion: Completion) -> Key:
    """What is sent, and in which iteration."""
    return Key(completion.rendezvous.step, node.attrs["edge"], completion.path())


def _receive(node: Node, inputs: Sequence[Any], completion: Completion) -> Callable[[], object]:
    count = len(node.outputs)

    def arrived(data: Any, dead: bool, error: Exception | None) -> None:
        completion.end(error, *(data,) * count)

    return completion.rendezvous.receive(_key(node, completion), arrived)


asynchronous["Send"] = _send
asynchronous["Recv"] = _receive
