"""Send and Recv in the scheduled tier: what goes from partition to partition holds no thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerflow.events import TransferEvent, step_of, told
from eagerflow.graph.ir import Node
from eagerflow.hardware import NullArray, as_device, copied
from eagerflow.runtime.generated.instructions import line_of
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.scheduled.actions import asynchronous
from eagerflow.runtime.scheduled.step import Completion
from eagerflow.types import TensorType


def _send(node: Node, inputs: Sequence[Any], completion: Completion) -> None:
    """Send a value when it is there, or that a node has run; holds no thread until then."""

    def send(data: Any = None) -> None:
        completion.rendezvous.send(_key(node, completion), data, sent=gone)

    def gone(error: Exception | None) -> None:
        if error is None:
            completion.done()
        else:
            completion.failed(error)

    def ready(error: Exception | None) -> None:
        if error is not None or completion.answered:
            gone(error)
            return
        try:
            send(_move(inputs[0], node, completion))
        except Exception as failure:
            gone(failure)

    if not inputs:
        send()
    elif "shape" in node.attrs:
        send(NullArray(inputs[0].dtype, inputs[0].shape))
    elif not isinstance(node.inputs[0].type, TensorType):
        send(inputs[0])
    else:
        backend = as_device(node.device).backend
        if backend is node.attrs["to"].backend:  # no one waits for the values here
            send(_move(inputs[0], node, completion))
        else:
            backend.when_ready(inputs[0], ready)


def _key(node: Node, completion: Completion) -> Key:
    """What is sent, and in which iteration."""
    return Key(completion.rendezvous.step, node.attrs["edge"], completion.path())


def _move(data: Any, node: Node, completion: Completion) -> Any:
    source, device = as_device(node.device), node.attrs["to"]
    if not TransferEvent.listeners:
        return copied(data, source, device)
    kind = node.inputs[0].type
    assert isinstance(kind, TensorType)
    event = TransferEvent(
        name="transfer", device=str(device), origin=str(source),
        nbytes=kind.like(shape=data.shape).nbytes, executable=completion.tier.number,
        node=node.name, source=line_of(node), frames=step_of.frames,
    )  # fmt: skip
    with told(event):
        return copied(data, source, device)


def _receive(node: Node, inputs: Sequence[Any], completion: Completion) -> Callable[[], object]:
    count = len(node.outputs)

    def arrived(data: Any, dead: bool, error: Exception | None) -> None:
        if error is None:
            completion.done(*(data,) * count)
        else:
            completion.failed(error)

    return completion.rendezvous.receive(_key(node, completion), arrived)


asynchronous["Send"] = _send
asynchronous["Recv"] = _receive
