"""Values that go from task to task without passing through this process, by a step of one move."""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from threading import Lock
from typing import Any, Final

from eagerflow.cluster.remote.arrays import RemoteArray
from eagerflow.cluster.remote.backend import move_by
from eagerflow.cluster.remote.steps import RemoteTier
from eagerflow.graph.ir import Graph
from eagerflow.hardware import Device
from eagerflow.types import TensorType, as_dtype

#: number of types and pairs of devices whose steps are remembered
_REMEMBERED: Final = 256
_tiers: Final[OrderedDict[Any, RemoteTier]] = OrderedDict()
_lock: Final = Lock()
_numbers: Final = count(-1, -1)


def move(data: RemoteArray, source: Device, target: Device) -> RemoteArray:
    """Move a value to a device of another task.

    Raises:
        EagerflowError: the op that computes the value has failed, or one of the tasks is lost.
    """
    key = source, target, data.dtype, data.shape
    with _lock:
        tier = _tiers.pop(key, None) or _tier(*key)
        _tiers[key] = tier
        if len(_tiers) > _REMEMBERED:
            _tiers.popitem(last=False)
    (made,) = tier.run((data,))
    result: RemoteArray = made
    return result


def _tier(source: Device, target: Device, dtype: Any, shape: tuple[int, ...]) -> RemoteTier:
    graph = Graph("move")
    kind = TensorType(as_dtype(dtype), shape)
    value = graph.add_input(kind, "x", source)
    attrs = {"device": target, "source": source}
    node = graph.add_node("transfer", (value,), (kind,), attrs, devices=(target,), device=source)
    graph.outputs.append(node.outputs[0])
    return RemoteTier(graph, next(_numbers))


move_by(move)
