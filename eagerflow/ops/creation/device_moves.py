"""Moves of arrays between devices: the op `transfer`."""

from __future__ import annotations

import sys
from typing import Any, Final

from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import aligned
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, check_holds, tensor_of
from eagerflow.errors import DeviceError, DTypeError
from eagerflow.hardware import Device, as_device
from eagerflow.hardware.device_scopes import beside
from eagerflow.ops.rules.promotion import cast
from eagerflow.types import BYTES, DType, DTypeLike, TensorType, as_dtype

__all__ = ["to_device"]

_METHODS: Final = ("to", "to_device")  # of tensors, which call the function below


@of_family(MOVING)
def _transfer_type(x: TensorType, *, device: Device, source: Device) -> TensorType:
    check_holds(device, x.dtype)
    return x


def _destination(x: Any, *, device: Device, source: Any = None) -> tuple[Device]:
    if x is not None and source is not None and x != source:
        raise DeviceError(
            "the tensor is not on the source device of the move", expected=str(source)
        )
    return (device,)


_transfer = define(
    "transfer",
    infer=_transfer_type,
    devices=_destination,
    vjp=(lambda g, out, x, *, device, source: to_device(g, source),),
    jvp=lambda tangents, out, x, *, device, source: to_device(tangents[0], device),
    moves=True,
    batch=aligned,
)


def to_device(
    x: TensorLike, device: Device | str, /, *, sent_as: DTypeLike | None = None
) -> Tensor:
    """``x`` on a device; the same tensor if it is there already.

    Args:
        x: any dtype.
        device: a device or its name.
        sent_as: for floats, a dtype with fewer bits for the transfer, such as ``"bfloat16"``:
            half the bytes of float32, rounded. Gradients are sent alike.

    Raises:
        DeviceError: the device does not exist.
        DTypeError: with ``sent_as``, ``x`` is not floating, or has no more bits than ``sent_as``.

    >>> ef.to_device(ef.tensor([1.0]), "cpu:0").device
    Device('cpu:0')
    """
    before = x if type(x) is Tensor else tensor_of(x)
    target, lane = as_device(device), before._lane
    if lane.device is target:
        return before
    if lane.dtype is BYTES:
        check_holds(target, BYTES)
    caller = sys._getframe(1)  # a walk to the user's line would take half as long as the move
    if caller.f_code.co_name in _METHODS:
        caller = caller.f_back or caller
    target.put = caller.f_code, caller.f_lasti
    if sent_as is not None:
        return _sent_as(before, as_dtype(sent_as), target)
    return bind(_transfer, before, device=target, source=lane.device)


def _sent_as(x: Tensor, dtype: DType, target: Device) -> Tensor:
    """``x`` on another device, with another dtype during the transfer."""
    floats = x.dtype.category == dtype.category == "real floating"
    if not floats or dtype.itemsize >= x.dtype.itemsize:
        raise DTypeError(
            "sent_as: floats are sent as floats with fewer bits",
            given=f"{x.type} as {dtype.short}", expected="float32 as bfloat16, for one",
        )  # fmt: skip
    with beside(x):
        short = cast(x, dtype)
    there = bind(_transfer, short, device=target, source=x.device)
    with beside(there):
        return cast(there, x.dtype)
