"""The devices of a task, which outlive the process behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from eagerflow.cluster.remote.backend import RemoteBackend
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.hardware.device_names import parse
from eagerflow.hardware.registry import add_task


@final
class TaskDevices:
    """The devices of a task, as this process uses them.

    Args:
        task: the process of the task.
        names: the names of its devices there, such as ``"cpu:0"``.

    Attributes:
        names: the names of the devices here, such as ``"worker:1/cpu:0"``.

    Raises:
        DeviceError: a task of that name exists already.
    """

    def __init__(self, task: RemoteTask, names: Sequence[str]) -> None:
        self._backends = [RemoteBackend(task) for _ in names]
        kinds = [(str(known.kind), known.index or 0) for known in map(parse, names)]
        made = add_task(task.task, kinds, self._backends)
        for backend, device in zip(self._backends, made, strict=True):
            backend.device = device
        self.names: Final = tuple(device.name for device in made)

    @property
    def task(self) -> RemoteTask:
        """The current process of the task."""
        return self._backends[0].task

    @task.setter
    def task(self, task: RemoteTask) -> None:
        for backend in self._backends:
            backend.task = task
