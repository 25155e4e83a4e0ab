"""Send and Recv in the scheduled tier: what goes from partition to partition holds no thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from eagerflow.graph.ir import Node
from eagerflow.hardware import NullArray, as_device
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.scheduled.actions import asynchronous
from eagerflow.runtime.scheduled.completions import Completion
from eagerflow.runtime.sent_values import asked
from eagerflow.types import TensorType


def _send(
    node: Node, inputs: Sequence[Any], completion: Completion
) -> Callable[[], object] | None:  # fmt: skip
    """Send a value when it is there, or that a node has run; holds no thread until then."""
    data: Any = None
    if inputs:
        (data,) = inputs
        if "shape" in node.attrs:
            data = NullArray(data.dtype, data.shape)
        elif isinstance(node.inputs[0].type, TensorType):
            backend = as_device(node.device).backend
            if backend is not node.attrs["to"].backend:
                later = _Later(node, data, completion)
                backend.when_ready(data, later.ready)
                return later.stop
            data = completion.tier.sent.move(data, node, asked())  # no one waits for values here
    completion.rendezvous.send(_key(node, completion), data, sent=completion.end)
    return None


@final
class _Later:
    """Sends a value when its device has made it. It lets go of the step when that ends."""

    __slots__ = ("_asked", "_held", "_node")

    def __init__(self, node: Node, data: Any, completion: Completion) -> None:
        self._node = node
        self._asked = asked()
        self._held: tuple[Any, Completion] | None = data, completion

    def stop(self) -> None:
        """Nobody wants the value any more."""
        self._held = None

    def ready(self, error: Exception | None) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        data, completion = held
        if error is not None or completion.answered:
            completion.end(error)
            return
        try:
            moved = completion.tier.sent.move(data, self._node, self._asked)
            key = _key(self._node, completion)
            completion.rendezvous.send(key, moved, sent=completion.end)
        except Exception as failure:
            completion.end(failure)


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
