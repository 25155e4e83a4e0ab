"""Names of devices: their syntax, and the merging of partial names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, final

from eagerflow.errors import DeviceError

_SHORT: Final = re.compile(
    r"(?:(?P<job>[A-Za-z_]\w*):(?P<task>\d+|\*)/)?(?P<kind>[A-Za-z]\w*)(?::(?P<index>\d+|\*))?"
)
_LONG: Final = re.compile(
    r"(?:/job:(?P<job>[A-Za-z_]\w*))?(?:/replica:\d+)?(?:/task:(?P<task>\d+|\*))?"
    r"(?:/(?:device:)?(?P<kind>[A-Za-z]\w*)(?::(?P<index>\d+|\*))?)?"
)
#: stands for any number
ANY: Final = -1


@final
@dataclass(frozen=True, slots=True)
class DeviceName:
    """The parts of a device name; None is a part that was left out, `ANY` a ``*``."""

    job: str | None
    task: int | None
    kind: str | None
    index: int | None

    @property
    def is_pattern(self) -> bool:
        """Whether the name leaves a choice."""
        return ANY in (self.task, self.index)

    def __str__(self) -> str:
        task = "" if self.job is None else f"{self.job}{_text(self.task)}"
        device = "" if self.kind is None else f"{self.kind}{_text(self.index)}"
        return "/".join(filter(None, (task, device)))

    def within(self, outer: DeviceName) -> DeviceName:
        """This name with the parts that it leaves out taken from ``outer``, as far as they fit."""
        task, index = self.task, self.index
        if task is None and self.job in (None, outer.job):
            task = outer.task
        if index is None and self.kind in (None, outer.kind):
            index = outer.index
        return DeviceName(self.job or outer.job, task, self.kind or outer.kind, index)

    def takes(self, task: str | None, kind: str, index: int) -> bool:
        """Whether it names the device with these parts; a number left out means the first.

        Args:
            task: the task, such as ``"worker:1"``; None for a device of this process.
            kind: the kind of the device.
            index: its number among its kind.
        """
        job, _, number = (task or "").partition(":")
        if job != (self.job or ""):
            return False
        if job and self.task not in (ANY, int(number)) and (self.task or 0) != int(number):
            return False
        if self.kind is None:
            return self.index in (None, ANY, index)
        return self.kind == kind and (self.index == ANY or (self.index or 0) == index)


def parse(name: object) -> DeviceName:
    """The parts of a name.

    Raises:
        DeviceError: it is no device name.
    """
    match = isinstance(name, str) and name and (_SHORT.fullmatch(name) or _LONG.fullmatch(name))
    if not match:
        raise DeviceError(
            f"{name!r} is not a device name",
            expected="kind:index, such as 'cpu:0' or 'gpu:1'",
            hint=_hint(name),
        )
    kind = match["kind"]
    return DeviceName(
        match["job"],
        _number(match["task"]),
        None if kind is None else kind.lower(),
        _number(match["index"]),
    )


def _hint(name: object) -> str | None:
    if hasattr(name, "device"):
        return "x.device is the device of a tensor"
    return "x.astype(dtype) converts" if hasattr(name, "itemsize") else None


def _text(number: int | None) -> str:
    return "" if number is None else ":*" if number == ANY else f":{number}"


def _number(text: str | None) -> int | None:
    return None if text is None else ANY if text == "*" else int(text)
