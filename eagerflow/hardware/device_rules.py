"""The device rule of most ops, and messages about operands on different devices."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.errors import DeviceError

ONE_DEVICE: Final = "all on one device"


def common_device(*devices: Any, device: Any = None, **attrs: Any) -> Any:
    """The device rule of most ops: the device of all inputs, or ``device`` if there are none.

    Raises:
        DeviceError: the inputs are on several devices.
    """
    if not devices:
        return device
    first = devices[0]
    for other in devices:
        if other is not first and other is not None:
            if first is None:
                first = other
            elif other != first:
                raise _apart(first, other)
    return first


def _apart(one: Any, other: Any) -> DeviceError:
    """The error for operands on two devices."""
    if str(one) != str(other):
        return DeviceError(
            "operands sit on different devices",
            expected=ONE_DEVICE,
            hint=f"move one with .to('{one}')",
        )
    return DeviceError(
        f"operands sit on two devices called {one}: its backend was registered again",
        expected=ONE_DEVICE,
        hint=f"x.to('{one}') moves the earlier tensors to the present device",
    )


def operands_apart(node: str, one: str, other: str) -> str:
    """The message that operands of a node are on two devices.

    Args:
        node: its name.
        one: an operand and its device.
        other: another operand and its device.
    """
    return f"the operands of &{node} are on different devices: {one}, and {other}"


def transfer_hint(what: str, device: Any) -> str:
    """A hint to move a value of a graph to another device.

    Args:
        what: the value in words, such as "it".
        device: the device to move it to.
    """
    return f"move {what} by a transfer: x.to('{device}')"
