"""Colours of devices: the same in every picture and in all live views."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

#: middle tones, safe for colour-blindness and distinct from white and black; the front-end is
#: built with the same file (``widgets/src/colours.ts``)
PALETTE: Final[tuple[str, ...]] = tuple(
    json.loads(Path(__file__).with_name("device_palette.json").read_text())
)
#: the index of the first device's colour, by kind; `_OTHERS` for kinds of other packages
_FIRST: Final = {"cpu": 0, "gpu": 1}
_OTHERS: Final = 3
#: factor that spreads the first colours of jobs, such as "ps" and "worker"
_SPREAD: Final = 4
_PARTS: Final = re.compile(
    r"(?:(?P<job>\w+):(?P<task>\d+)/)?(?P<kind>[A-Za-z]\w*)(?::(?P<index>\d+))?"
)


def device_color(device: str) -> str:
    """The colour of a device, by its name alone, independent of other devices shown.

    The first CPU has the first colour, further CPUs the next colours; each kind, each job and each
    task begins at another colour, as far as there are enough.

    >>> from eagerflow.pictures.device_colors import device_color
    >>> device_color("cpu:1") == device_color("gpu:0") == device_color("worker:0/cpu:0")
    True
    """
    parts = _PARTS.fullmatch(device)
    if parts is None:
        return PALETTE[0]
    number = int(parts["index"] or 0) + _FIRST.get(parts["kind"], _OTHERS)
    if parts["task"] is not None:
        number += 1 + int(parts["task"]) + _SPREAD * sum(map(ord, parts["job"]))
    return PALETTE[number % len(PALETTE)]


def device_colors(devices: list[str]) -> dict[str, str]:
    """The colours of devices, by their names."""
    return {device: device_color(device) for device in devices}
