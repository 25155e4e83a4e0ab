"""The devices of a task, by the names that clients may use."""

from __future__ import annotations

from typing import final

from eagerflow.errors import DeviceError
from eagerflow.hardware import Device, devices


@final
class AnnouncedDevices:
    """The devices of a task, found by name; a lookup never loads a backend.

    Args:
        task: its name, the prefix of device names that are used across tasks.

    Attributes:
        names: the device names announced to clients.

    >>> from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
    >>> known = AnnouncedDevices("ps:0")
    >>> known.find("cpu:0") is known.find("ps:0/cpu:0")
    True
    """

    def __init__(self, task: str) -> None:
        own = {str(device): device for device in devices("cpu")}
        self.names = tuple(own)
        self._known = own | {f"{task}/{name}": device for name, device in own.items()}

    def find(self, name: str) -> Device:
        """The device of a name.

        Raises:
            DeviceError: the task has announced no such device.
        """
        known = self._known.get(name)
        if known is None:
            raise DeviceError(
                "this task has no such device", given=name, expected=", ".join(self._known)
            )
        return known
