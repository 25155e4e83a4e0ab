"""Requirements of a node on its device: values, kernels, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

from eagerflow.core.execute import resolve_kernel
from eagerflow.core.op import Op, get_op
from eagerflow.errors import EagerflowError, KernelError
from eagerflow.graph.edit import nbytes
from eagerflow.graph.ir import Node
from eagerflow.hardware import Device, devices, memory
from eagerflow.types import BYTES, TensorType


class Obstacle(NamedTuple):
    """Why a node cannot run on a device.

    Attributes:
        wrong: the reason, as text that follows the name of the node.
        hint: a remedy.
    """

    wrong: str
    hint: str | None = None


def holds_data(device: Any) -> bool:
    """Whether a device holds values, not types alone."""
    return isinstance(device, Device) and device.backend.holds_data


@final
class Constraints:
    """The devices that can run the nodes of a graph. Answers are cached."""

    def __init__(self) -> None:
        self._kernels: dict[Any, Obstacle | None] = {}
        self._limits: dict[Device, int | None] = {}

    def obstacle(self, node: Node, device: Device) -> Obstacle | None:
        """Why ``node`` cannot run on ``device``; None if it can."""
        if node.device == device:
            return None
        return (
            self._no_values(node, device)
            or self._no_kernel(node, device)
            or self._no_memory(node, device)
        )

    def limit(self, device: Device) -> int | None:
        """Number of bytes that a device may hold; None for no limit."""
        if device not in self._limits:
            self._limits[device] = memory(device).limit
        return self._limits[device]

    def has_room(self, device: Device, need: int) -> bool:
        """Whether a device may hold so many bytes."""
        limit = self.limit(device)
        return limit is None or need <= limit

    def could(self, node: Node) -> list[Device]:
        """The devices of this process on which a node could run."""
        return [device for device in devices() if self.obstacle(node, device) is None]

    @staticmethod
    def _no_values(node: Node, device: Device) -> Obstacle | None:
        if not isinstance(node.device, Device) or holds_data(node.device) == holds_data(device):
            return None
        without = node.device if holds_data(device) else device
        what = "could not come back" if without is device else "cannot go elsewhere"
        return Obstacle(
            f"{without} holds no values, so results {what}",
            "null devices are for planning: all of the graph is on some of them, or nothing",
        )

    def _no_kernel(self, node: Node, device: Device) -> Obstacle | None:
        types = [v.type for v in node.inputs if isinstance(v.type, TensorType)]
        dtypes = tuple([t.dtype for t in types])
        made = tuple([v.type.dtype for v in node.outputs if isinstance(v.type, TensorType)])
        key = (node.op, dtypes, made, device)
        if key not in self._kernels:
            if BYTES in (*dtypes, *made) and not device.backend.holds_bytes:
                obstacle: Obstacle | None = Obstacle(f"devices of kind {device.kind} hold no bytes")
            else:
                obstacle = _missing_kernel(get_op(node.op), node, types, device)
            self._kernels[key] = obstacle
        return self._kernels[key]

    def _no_memory(self, node: Node, device: Device) -> Obstacle | None:
        limit = self.limit(device)
        if limit is None:
            return None
        need = nbytes([*dict.fromkeys(node.inputs), *node.outputs])
        if need is None or need <= limit:
            return None
        return Obstacle(
            f"operands and results take {need:,} bytes, and {device} may hold {limit:,}",
            "place it on a device with more memory, or compute with less at a time",
        )


def _missing_kernel(
    op: Op, node: Node, types: Sequence[TensorType], device: Device
) -> Obstacle | None:
    specs = tuple([kind.on(device) for kind in types])
    lanes = [device.lanes[kind.dtype] for kind in types]
    key: Any = device if not lanes else lanes[0] if len({*lanes}) == 1 else tuple(lanes)
    attrs = {**node.attrs, "device": device} if "device" in node.attrs else node.attrs
    try:
        resolve_kernel(op, specs, attrs, key)
    except (KernelError, AttributeError) as error:  # or its namespace lacks the function
        dtypes = ", ".join(dict.fromkeys(kind.dtype.short for kind in types))
        of = f" of {dtypes}" if dtypes else ""
        wrong = f"there is no kernel of {op.name}{of} for {device.kind}"
        return Obstacle(wrong, getattr(error, "hint", None))
    except EagerflowError:  # of sizes or attributes: the step raises it on any device
        return None
    return None
