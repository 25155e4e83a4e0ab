"""Eager execution of ops on the device of their inputs: the bottom of every interpreter chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

import numpy as np

from eagerflow.core.infer import infer, infer_devices
from eagerflow.core.interpreter import stack
from eagerflow.core.kernel_lookup import OpCall, explain
from eagerflow.core.op import Op
from eagerflow.core.tensor import Tensor, make_tensor, type_of
from eagerflow.errors import DeviceError, DTypeError, EagerflowError, strip
from eagerflow.events import TransferEvent, step_of, told
from eagerflow.hardware import Device, as_device, copied, note_put
from eagerflow.hardware.float_warnings import warning_at_users_line
from eagerflow.running_node import running_node
from eagerflow.source import Source, assignment_of, is_framework_code
from eagerflow.types import TensorSpec, TensorType
from eagerflow_kernels.lists import ListData

#: shows an error in IPython, without frames of eagerflow
_show: Callable[[Any], list[str]] = EagerflowError._render_traceback_


_HINT_OF_NANS: Final = "ef.config(check_nan=True) makes an error of the first NaN that an op makes"


@final
class ResolvedKernel:
    """A resolved kernel, as `execute` looks it up by lane.

    Attributes:
        kernel: ``kernel(*arrays, **attrs)``, or its launcher on the device.
        eager: the kernel for eager code, with NumPy's warnings at the user's line.
        array_type: the class of the device's arrays.
        lanes: the lanes of the device by NumPy dtype.
        asarray: makes an array of another result of a kernel (a NumPy scalar); leaves results in
            the memory of the host if the op makes them there.
        spreads: whether the device rule gives each output a device of its own.
    """

    __slots__ = ("array_type", "asarray", "eager", "kernel", "lanes", "spreads")

    def __init__(
        self, kernel: Callable[..., Any], device: Device, *, spreads: bool = False,
        on_host: bool = False,
    ) -> None:  # fmt: skip
        self.kernel = self.eager = kernel
        self.spreads = spreads
        self.array_type = device.backend.array_type
        self.lanes = device.lanes
        xp = device.xp
        self.asarray = np.asarray if on_host and xp is not None else getattr(xp, "asarray", None)


def execute(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Run ``op`` now.

    Raises:
        DeviceError: the inputs are on different devices.
        EagerflowError: the type rule of the op refuses the inputs, or the kernel failed.
    """
    key: Any
    count = len(inputs)
    if count == 1:
        (x,) = inputs
        key = x._lane
    elif count == 2:
        x, y = inputs
        key = x._lane if x._lane is y._lane else (x._lane, y._lane)
    elif inputs:
        key = _common_lane(inputs)
    else:
        key, attrs = _asked(op, attrs)
    entry = op.resolved.get(key)
    if entry is None:
        entry = resolve(op, inputs, attrs, key)
    kernel = entry.eager
    try:
        # written out, because unpacking costs a small op a tenth of its time
        if count == 1:
            data = kernel(x._data, **attrs) if attrs else kernel(x._data)
        elif count == 2 and not attrs:
            data = kernel(x._data, y._data)
        else:
            data = kernel(*[x._data for x in inputs], **attrs)
    except Exception as error:
        whole = attrs if inputs else {**attrs, "device": key}
        explained = explain(op, tuple(map(type_of, inputs)), whole, error)
        try:
            raise explained from explained.__cause__
        finally:
            del explained  # an exception whose frame holds it would keep the inputs alive
    except KeyboardInterrupt as error:  # most likely in an op that waits
        # IPython calls this method of an error to display it
        error.__dict__["_render_traceback_"] = partial(_show, error)
        raise
    if type(data) is not entry.array_type:
        if type(data) is tuple:
            if entry.spreads:
                return _spread(data, op.devices(*[x.device for x in inputs], **attrs))
            return tuple([_wrap(entry, d) for d in data])
        return _wrap(entry, data)
    out = Tensor()
    out._data = data
    out._lane = entry.lanes[data.dtype]
    out._mark = None
    return out


def _asked(op: Op, attrs: dict[str, Any]) -> tuple[Device, dict[str, Any]]:
    """The device of an op without inputs, and its other attributes."""
    device = as_device(attrs["device"])
    if op.effect == "pure":
        note_put(device)
    return device, {k: v for k, v in attrs.items() if k != "device"}


def _common_lane(inputs: Sequence[Tensor]) -> Any:
    """The lane of all inputs, or the tuple of their lanes if they differ."""
    lane = inputs[0]._lane
    for x in inputs:
        if x._lane is not lane:
            return tuple([x._lane for x in inputs])
    return lane


def _wrap(entry: ResolvedKernel, data: Any) -> Tensor:
    if type(data) is not entry.array_type:
        if type(data) is Tensor:  # an op that moves
            return data
        if type(data) is not ListData:
            data = entry.asarray(data)  # type: ignore[misc]  # devices without xp return arrays
    out = Tensor()
    out._data = data
    out._lane = entry.lanes[data.dtype]
    out._mark = None
    return out


def _spread(arrays: Sequence[Any], devices: Sequence[Device]) -> tuple[Tensor, ...]:
    """The outputs of a kernel, each on the device that the rule of the op gives it."""
    tensors = []
    for data, device in zip(arrays, devices, strict=True):
        if not isinstance(data, device.backend.array_type):
            data = device.xp.asarray(data)
        tensors.append(make_tensor(data, device.lanes[data.dtype]))
    return tuple(tensors)


def resolve(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], key: Any) -> ResolvedKernel:
    """Find the kernel for these inputs and remember it under ``key``."""
    for x in inputs:
        if x._lane.symbolic:
            x._data.leaked(op.name)
    try:
        return resolve_kernel(op, tuple(map(type_of, inputs)), attrs, key)
    except DeviceError as error:
        raise _with_lines(error, inputs) from None


def _with_lines(error: DeviceError, inputs: Sequence[Tensor]) -> DeviceError:
    """The error for operands on wrong devices, with the source lines of the operands."""
    first: dict[Device, Tensor] = {}
    for x in inputs:
        first.setdefault(x._lane.device, x)
    lines = [line for x in first.values() if (line := line_of_operand(x, str(error.source)))]
    return DeviceError(
        error.wrong, given="\n    ".join([str(error.given), *lines]), expected=error.expected,
        hint=error.hint,
    )  # fmt: skip


def line_of_operand(x: Tensor, here: str = "") -> str:
    """The line that an operand is from, or that last put a tensor on its device; not ``here``.

    It is empty if not known.
    """
    device, assigned = x._lane.device, assignment_of(x)
    if assigned is not None:
        name, source = assigned
        return "" if str(source) == here else f"{device}: {name} was assigned at {source}"
    put = device.put
    if put is None or is_framework_code(put[0]) or str(Source(*put)) == here:
        return ""
    return f"{device}: tensors were put there last at {Source(*put)}"


def resolve_kernel(
    op: Op, specs: tuple[TensorSpec, ...], attrs: dict[str, Any], key: Any
) -> ResolvedKernel:
    """Find the kernel for inputs of ``specs`` and remember it under ``key``.

    Args:
        op: the op.
        specs: of the inputs; sizes may be symbolic.
        attrs: the attributes.
        key: the lane of the inputs if they share one, else the tuple of their lanes; for an op
            without inputs the device.
    """
    where = infer_devices(op, [s.device for s in specs], attrs, [s.type for s in specs])
    spreads = isinstance(where, tuple)
    # an op whose rule gives a device per output runs where its inputs are
    device = as_device(key) if not specs else specs[0].device if spreads else where
    lanes = [device.lanes[s.dtype] for s in specs]
    if op.moves:
        entry = ResolvedKernel(_mover(device), device)
        op.resolved[key] = entry
        return entry
    if specs:
        _check_dtypes(op, specs, attrs)
    call = OpCall(op, lanes, device)
    launcher = device.backend.launcher(call, device.index)
    entry = ResolvedKernel(launcher, device, spreads=spreads, on_host=bool(op.host_outputs))
    if call.warns and entry.array_type is np.ndarray:
        hint = "" if op.precision == "exact" else _HINT_OF_NANS
        entry.eager = warning_at_users_line(launcher, op.name, hint)
    op.resolved[key] = entry
    return entry


def _check_dtypes(op: Op, specs: tuple[TensorSpec, ...], attrs: dict[str, Any]) -> None:
    """Check the dtypes of lanes, once per lane: kernels may accept more than the type rule."""
    try:
        infer(op, [s.type for s in specs], attrs, [s.device for s in specs])
    except DTypeError as error:
        raise strip(error) from None
    except EagerflowError:  # of shapes or attributes, which the kernel refuses as well
        pass


def _mover(start: Device) -> Callable[..., Any]:
    """The kernel of ops that copy from ``start`` to the device in the attribute ``device``."""

    def move(array: Any, *, device: Device, source: Any = None) -> Tensor:
        if not TransferEvent.listeners:
            return make_tensor(copied(array, start, device), device.lanes[array.dtype])
        at = running_node()
        nbytes = TensorType(start.lanes[array.dtype].dtype, array.shape).nbytes
        event = TransferEvent(
            name="transfer", device=str(device), origin=str(start), nbytes=nbytes,
            executable=at.executable, node=at.node, source=at.source,
            frames=(*step_of.frames, *at.frames),
        )  # fmt: skip
        with told(event):
            return make_tensor(copied(array, start, device), device.lanes[array.dtype])

    return move


# set here, to break the import cycle bind -> execute -> Tensor
stack.execute = execute
stack.resolve = resolve
