"""Send and Recv in the scheduled tier: what goes from partition to partition holds no thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from threading import get_ident
from time import perf_counter
from typing import Any

from eagerflow import events
from eagerflow.events import NodeEvent, TransferEvent, step_of, told
from eagerflow.graph.ir import Node
from eagerflow.hardware import Backend, Device, NullArray, as_device, copied, out_of_memory
from eagerflow.runtime.generated.instructions import line_of
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.scheduled.actions import asynchronous
from eagerflow.runtime.scheduled.step import Completion
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
            data = _move(data, node, completion, _asked())  # no one waits for the values here
    completion.rendezvous.send(_key(node, completion), data, sent=completion.end)


def _send_when_ready(backend: Backend, data: Any, node: Node, completion: Completion) -> None:
    asked = _asked()

    def ready(error: Exception | None) -> None:
        if error is not None or completion.answered:
            completion.end(error)
            return
        try:
            moved = _move(data, node, completion, asked)
            completion.rendezvous.send(_key(node, completion), moved, sent=completion.end)
        except Exception as failure:
            completion.end(failure)

    backend.when_ready(data, ready)


def _key(node: Node, completion: Completion) -> Key:
    """What is sent, and in which iteration."""
    return Key(completion.rendezvous.step, node.attrs["edge"], completion.path())


def _is_told() -> bool:
    """Whether somebody wants to hear of transfers."""
    return bool(TransferEvent.listeners or NodeEvent.listeners)


def _asked() -> Mapping[str, Any]:
    """What events of a transfer say of who asks for it, as another thread may do it later."""
    if not _is_told():
        return {}
    return {
        "caller": 0 if step_of.runner else step_of.caller or get_ident(),
        "runner": step_of.runner, "step": step_of.step, "frames": step_of.frames,
    }  # fmt: skip


def _move(data: Any, node: Node, completion: Completion, asked: Mapping[str, Any]) -> Any:
    """The value on the device that it is sent to; told as a transfer and, as eagerly, as an op."""
    source, device = as_device(node.device), node.attrs["to"]
    if not _is_told():
        return _copied(data, source, device)
    kind = node.inputs[0].type
    assert isinstance(kind, TensorType)
    spec = kind.like(shape=data.shape).on(device)
    known = {
        **asked, "name": "transfer", "device": str(device), "nbytes": spec.nbytes,
        "executable": completion.tier.number, "node": node.name, "source": line_of(node),
    }  # fmt: skip
    if known.get("caller") == get_ident():
        known["caller"] = 0
    start = perf_counter()
    moves = TransferEvent(origin=str(source), **known) if TransferEvent.listeners else None
    with nullcontext() if moves is None else told(moves):
        made = _copied(data, source, device)
    if NodeEvent.listeners:
        known |= {"graph": completion.tier.graph.name, "scope": node.scope, "detail": str(spec)}
        events.end(NodeEvent(**known, start=start, stop=perf_counter()))
    return made


def _copied(data: Any, source: Device, device: Device) -> Any:
    try:
        return copied(data, source, device)
    except MemoryError as error:
        raise out_of_memory("transfer", device, error) from None


def _receive(node: Node, inputs: Sequence[Any], completion: Completion) -> Callable[[], object]:
    count = len(node.outputs)

    def arrived(data: Any, dead: bool, error: Exception | None) -> None:
        completion.end(error, *(data,) * count)

    return completion.rendezvous.receive(_key(node, completion), arrived)


asynchronous["Send"] = _send
asynchronous["Recv"] = _receive
