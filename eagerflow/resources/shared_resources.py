"""Resources in named containers of tasks, which several clients share.

Clients that name the same container and resource of a task get the same one. Within a process it is
one state, so that locks have one order; across processes the task joins them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from eagerflow.errors import ResourceError
from eagerflow.hardware import Device, Lane
from eagerflow.resources.containers import DEFAULT, ResourceContainer, ResourceName
from eagerflow.resources.variable import VariableState
from eagerflow.types import TensorType

_R = TypeVar("_R")
_containers: Final[dict[tuple[str, str], ResourceContainer]] = {}
_lock: Final = threading.Lock()


def join_shared(
    device: Device, name: str | None, container: str, what: str,
    make: Callable[[ResourceName], _R],
) -> _R:  # fmt: skip
    """The resource of a name in a container of the task of a device, as this process knows it.

    Args:
        device: the device of the resource.
        name: of the resource.
        container: of the task.
        what: its kind and type, in words; equal for all joiners.
        make: makes it, if this process has none of that name.

    Raises:
        ResourceError: the resource is of another type or has no name, or the device has no task.
    """
    task = device.task
    if task is None:
        raise ResourceError(
            "a container that clients share must be on a task",
            given=f"container={container!r} on {device}",
            expected="a device such as 'ps:0'",
            hint="without container= a resource is this process's own",
        )
    if not container or container == DEFAULT.name or container.startswith("&"):
        raise ResourceError("the name of the container is not allowed", given=repr(container))
    if not name:
        raise ResourceError(
            "a resource that clients share must have a name",
            given=f"container={container!r} without a name",
            hint="name='w', for instance",
        )
    with _lock:
        known = _containers.setdefault((task, container), ResourceContainer(container))
    identity = ResourceName(task, 0, container, name)
    return known.join(name, what, partial(make, identity), creator="this process")


def join_variable(
    data: Any, lane: Lane, trainable: bool, name: str | None, container: str
) -> VariableState:
    """The variable of a name in a container of the task where ``data`` is.

    Args:
        data: its initial value, if it does not exist yet.
        lane: its dtype and device.
        trainable: whether tapes watch its reads in this process.
        name: of the variable.
        container: of the task.

    Raises:
        ResourceError: the variable is of another type or has no name, or the device has no task.
    """
    what = f"variable {TensorType(lane.dtype, data.shape).on(lane.device)}"
    state = join_shared(
        lane.device, name, container, what,
        lambda identity: VariableState(data, lane, trainable, name, identity),
    )  # fmt: skip
    with state.lock:
        if state._data.task is not data.task:  # the process that owned it was restarted
            state._data = data.held_by(state)
    return state
