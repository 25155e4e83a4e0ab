"""Which colour a device has: the same one in every picture and in all live views."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

#: middle tones, which the colour-blind can tell apart, and all from white and from black; the
#: front-end is built with the same file (``widgets/src/colours.ts``)
PALETTE: Final[tuple[str, ...]] = tuple(
    json.loads(Path(__file__).with_name("device_palette.json").read_text())
)
#: where the devices of a kind begin; those of other packages begin at `_OTHERS`
_FIRST: Final = {"cpu": 0, "gpu": 1}
_OTHERS: Final = 3
#: jobs begin elsewhere, those that are called "ps" and "worker" for two
_SPREAD: Final = 4
_PARTS: Final = re.compile(
    r"(?:(?P<job>\w+):(?P<task>\d+)/)?(?P<kind>[A-Za-z]\w*)(?::(?P<index>\d+))?"
)


def device_color(device: str) -> str:
    """The colour of a device, by its name alone: it does not depend on what else is shown.

    The first CPU has the first colour, the next devices those that follow; each kind, each job and
    each task begins elsewhere, as far as there are colours.

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
    """The colours of several, by their names."""
    return {device: device_color(device) for device in devices}
