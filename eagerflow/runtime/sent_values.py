"""Values of Sends: moved to the device of their receiver, and reported as transfer events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any, final

import numpy as np

from eagerflow import events
from eagerflow.events import NodeEvent, TransferEvent, step_of, told
from eagerflow.graph.ir import Node
from eagerflow.hardware import Device, as_device, copied, out_of_memory, share_memory
from eagerflow.runtime.generated.instructions import line_of
from eagerflow.types import TensorType


@final
class SentValues:
    """Moves values to other devices, for the Sends of an executable.

    Args:
        number: of the executable, for events.
        graph: the name of its graph.
    """

    __slots__ = ("_graph", "_number")

    def __init__(self, number: int, graph: str) -> None:
        self._number = number
        self._graph = graph

    def mover(self, node: Node) -> Callable[[Any], Any]:
        """Return the function that moves the value of a Send, in the calling thread."""
        source, device = as_device(node.device), node.attrs["to"]
        shared = share_memory(source, device)

        def move(data: Any) -> Any:
            if TransferEvent.listeners or NodeEvent.listeners:
                return self.move(data, node, asked())
            if shared and type(data) is np.ndarray:
                return data
            return _copied(data, source, device)

        return move

    def later(self, node: Node) -> Callable[[Any], Callable[[], Any]]:
        """As `mover`, for a value still being made: the function returns a mover for any thread."""
        return lambda data: partial(self.move, data, node, asked())

    def teller(self, node: Node) -> Callable[[Any], Any]:
        """As `mover`, for a value that stays in host memory, where its receiver reads it, too."""

        def tell(data: Any) -> Any:
            if _is_told():
                self.move(data, node, asked(), lambda data, *devices: data)
            return data

        return tell

    def move(
        self, data: Any, node: Node, asked: Mapping[str, Any],
        copy: Callable[[Any, Device, Device], Any] | None = None,
    ) -> Any:  # fmt: skip
        """Move a value to its device; reported as a transfer and, as in eager code, as an op.

        Args:
            data: a raw array.
            node: the Send.
            asked: the result of `asked` in the thread that runs the node.
            copy: the function that moves the value, if not a copy from device to device.
        """
        copy = copy or _copied
        source, device = as_device(node.device), node.attrs["to"]
        if not _is_told():
            return copy(data, source, device)
        kind = node.inputs[0].type
        assert isinstance(kind, TensorType)
        spec = kind.like(shape=data.shape).on(device)
        known = {
            **asked, "name": "transfer", "device": str(device), "nbytes": spec.nbytes,
            "executable": self._number, "node": node.name, "source": line_of(node),
        }  # fmt: skip
        if known.get("caller") == get_ident():
            known["caller"] = 0
        start = perf_counter()
        moves = None
        if TransferEvent.listeners and source != device:  # if equal, it goes to another process
            moves = TransferEvent(origin=str(source), **known)
        with nullcontext() if moves is None else told(moves):
            made = copy(data, source, device)
        if NodeEvent.listeners:
            known |= {"graph": self._graph, "scope": node.scope, "detail": str(spec)}
            events.end(NodeEvent(**known, start=start, stop=perf_counter()))
        return made


def _is_told() -> bool:
    """Whether transfer events have a listener."""
    return bool(TransferEvent.listeners or NodeEvent.listeners)


def asked() -> Mapping[str, Any]:
    """Event fields of the caller of a transfer, as another thread may carry it out later."""
    if not _is_told():
        return {}
    return {
        "caller": 0 if step_of.runner else step_of.caller or get_ident(),
        "runner": step_of.runner, "step": step_of.step, "frames": step_of.frames,
    }  # fmt: skip


def _copied(data: Any, source: Device, device: Device) -> Any:
    try:
        return copied(data, source, device)
    except MemoryError as error:
        raise out_of_memory("transfer", device, error) from None
