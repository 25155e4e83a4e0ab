"""What ``f.place("auto", ...)`` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from eagerflow.errors import PlacementError
from eagerflow.hardware import Device, as_device
from eagerflow.source import Source


class Request(NamedTuple):
    """What ``f.place("auto")`` was asked for.

    Attributes:
        devices: where nodes may be put besides where the program has them; None for those of the
            kind that the program uses.
        memory: bytes that devices may hold, one number for each device that the program or the
            plan uses; None for their limits.
        source: the line that asked.
    """

    devices: tuple[Device, ...] | None
    memory: Mapping[Device, int] | int | None
    source: Source | None


def as_request(devices: Any, memory: Any, source: Source | None) -> Request:
    """A request of what a user gave.

    Raises:
        PlacementError: that is no device, or no number of bytes.
    """
    if isinstance(devices, (str, Device)):
        devices = [devices]
    where = None if devices is None else tuple(dict.fromkeys(map(as_device, devices)))
    if where is not None and not where:
        raise PlacementError("place: there is no device to place on", given="devices=[]",
                             source=source)  # fmt: skip
    budget: Any = memory
    if isinstance(memory, Mapping):
        budget = {as_device(name): _bytes(n, source) for name, n in memory.items()}
    elif memory is not None:
        budget = _bytes(memory, source)
    return Request(where, budget, source)


def _bytes(given: Any, source: Source | None) -> int:
    if type(given) is int and given >= 0:
        return given
    raise PlacementError(
        f"place: {given!r} is no number of bytes", expected="an int of at least 0",
        hint=f"memory={int(given)}" if isinstance(given, float) and 0 <= given < 1e18
        else "memory=2**30 is a budget of 1 GiB for each device", source=source,
    )  # fmt: skip
