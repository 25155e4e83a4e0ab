"""The request that ``f.place("auto", ...)`` makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from eagerflow.errors import PlacementError
from eagerflow.hardware import Device, as_device
from eagerflow.source import Source


class Request(NamedTuple):
    """The checked arguments of ``f.place("auto")``.

    Attributes:
        devices: the devices on which nodes may be put, besides their own; None for the devices of
            the kind that the program uses.
        memory: bytes that devices may hold, by device, or one number for each device that the
            program or the plan uses; None for their limits.
        source: the line of the call.
    """

    devices: tuple[Device, ...] | None
    memory: Mapping[Device, int] | int | None
    source: Source | None


def as_request(devices: Any, memory: Any, source: Source | None) -> Request:
    """The request from a user's arguments.

    Raises:
        PlacementError: there is no device, or ``memory`` is no number of bytes.
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
        f"place: {given!r} is not a number of bytes", expected="an int of at least 0",
        hint=f"memory={int(given)}" if isinstance(given, float) and 0 <= given < 1e18
        else "memory=2**30 is a budget of 1 GiB for each device", source=source,
    )  # fmt: skip
