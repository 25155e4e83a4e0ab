"""Send and Recv in the scheduled tier: what goes from partition to partition holds no thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from eagerflow import events
from eagerflow.events import NodeEvent, TransferEvent, step_of, told
from eagerflow.graph.ir import Node
from eagerflow.hardware import NullArray, as_device, copied
from eagerflow.runtime.generated.instructions import line_of
from eagerflow.runtime.generated.observer import described
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.scheduled.actions import asynchronous
from eagerflow.runtime.scheduled.step import Completion
from eagerflow.types import TensorType


def _send(node: Node, inputs: Sequence[Any], completion: Completion) -> None:
    """Send a value, or that a node has run."""
    data: Any = None
    if inputs:
        (data,) = inputs
        if "shape" in node.attrs:
            data = NullArray(data.dtype, data.shape)
        elif isinstance(kind := node.inputs[0].type, TensorType):
            data = _move(data, kind, node, completion)

    def gone(error: Exception | None) -> None:
        if error is None:
            completion.done()
        else:
            completion.failed(error)

    completion.rendezvous.send(_key(node, completion), data, sent=gone)


def _key(node: Node, completion: Completion) -> Key:
    """What is sent, and in which iteration."""
    return Key(completion.rendezvous.step, node.attrs["edge"], completion.path())


def _move(data: Any, kind: TensorType, node: Node, completion: Completion) -> Any:
    if not NodeEvent.listeners:
        return _copy(data, kind, node, completion)
    start = perf_counter()
    made = _copy(data, kind, node, completion)
    tier, spec = completion.tier, kind.like(shape=data.shape).on(node.attrs["to"])
    known = {**described(node, [spec]), "name": "transfer"}  # as eagerly, and in other tiers
    event = NodeEvent(
        **known, device=str(spec.device), executable=tier.number, graph=tier.graph.name,
        start=start, stop=perf_counter(),
    )  # fmt: skip
    events.end(event)
    return made


def _copy(data: Any, kind: TensorType, node: Node, completion: Completion) -> Any:
    source, device = as_device(node.device), node.attrs["to"]
    if not TransferEvent.listeners:
        return copied(data, source, device)
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
