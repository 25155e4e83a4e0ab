"""Runs an op at once on the device of its inputs: the bottom of every chain of interpreters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any, final

import numpy as np

from eagerflow.core import interpreter
from eagerflow.core.op import Op, describe, infer, infer_devices, infer_specs, load_plugins
from eagerflow.core.tensor import Tensor, make_tensor, type_of
from eagerflow.errors import (
    DataDependentError,
    DTypeError,
    EagerflowError,
    FileError,
    KernelError,
    OutOfMemoryError,
    RecordError,
    SettingError,
    TensorIndexError,
    TensorValueError,
    strip,
)
from eagerflow.events import TransferEvent, step_of, told
from eagerflow.files import advice
from eagerflow.hardware import Device, Lane, NullArray, as_device
from eagerflow.running_node import running_node
from eagerflow.source import Source, user_line
from eagerflow.types import BYTES, DTYPES, TensorSpec, TensorType
from eagerflow_kernels import table
from eagerflow_kernels.lists import ListData
from eagerflow_kernels.records import DamagedError

_LOW = frozenset(d for d in DTYPES.values() if not d.is_native)
_FLOAT16 = DTYPES["float16"]
#: shows an error in IPython, without frames of eagerflow
_show: Callable[[Any], list[str]] = EagerflowError._render_traceback_
#: how NumPy's ValueErrors begin about sizes that no memory could hold
_TOO_LARGE = ("array is too big", "Maximum allowed dimension", "Maximum allowed size")
#: packages whose kernels are not checked: tests compare them
_OWN = ("eagerflow", "eagerflow_kernels", "numpy", "cupy", "scipy")


@final
class ResolvedKernel:
    """A resolved kernel: what `execute` looks up by lane.

    Attributes:
        kernel: ``kernel(*arrays, **attrs)``.
        array_type: the class of the device's arrays.
        lanes: the lanes of the device by NumPy dtype.
        asarray: makes an array of what a kernel returned instead of one (a NumPy scalar).
        spreads: whether the device rule gives each output a device of its own.
    """

    __slots__ = ("array_type", "asarray", "kernel", "lanes", "spreads")

    def __init__(
        self, kernel: Callable[..., Any], device: Device, *, spreads: bool = False
    ) -> None:
        self.kernel = kernel
        self.spreads = spreads
        self.array_type = device.backend.array_type
        self.lanes = device.lanes
        self.asarray = device.backend.xp.asarray if device.backend.xp is not None else None


def execute(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Run ``op`` now.

    Raises:
        DeviceError: the inputs sit on different devices.
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
        key = as_device(attrs["device"])
        attrs = {k: v for k, v in attrs.items() if k != "device"}
    entry = op.resolved.get(key)
    if entry is None:
        entry = resolve(op, inputs, attrs, key)
    kernel = entry.kernel
    try:
        # spelled out, because unpacking costs a small op a tenth of its time
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
        # IPython asks an error how to show itself
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
            data = device.backend.xp.asarray(data)
        tensors.append(make_tensor(data, device.lanes[data.dtype]))
    return tuple(tensors)


def resolve(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], key: Any) -> ResolvedKernel:
    """Find the kernel for these inputs and remember it under ``key``."""
    for x in inputs:
        if x._lane.symbolic:
            x._data.leaked(op.name)
    return resolve_kernel(op, tuple(map(type_of, inputs)), attrs, key)


def resolve_kernel(
    op: Op, specs: tuple[TensorSpec, ...], attrs: dict[str, Any], key: Any
) -> ResolvedKernel:
    """Find the kernel for inputs of ``specs`` and remember it under ``key``.

    Args:
        op: the op.
        specs: of the inputs; sizes may be symbolic.
        attrs: the attributes.
        key: their lane if they share one, else the tuple of their lanes; of an op without inputs
            the device.
    """
    where = infer_devices(op, [s.device for s in specs], attrs, [s.type for s in specs])
    spreads = isinstance(where, tuple)
    # an op that says where each output is runs where its inputs are
    device = as_device(key) if not specs else specs[0].device if spreads else where
    lanes = [device.lanes[s.dtype] for s in specs]
    if op.moves:
        entry = ResolvedKernel(_mover(device), device)
        op.resolved[key] = entry
        return entry
    if device.backend.xp is None:
        entry = ResolvedKernel(_null_kernel(op, lanes, device), device, spreads=spreads)
    else:
        if specs:
            _check_dtypes(op, specs, attrs)
        entry = ResolvedKernel(_find_kernel(op, lanes, device), device, spreads=spreads)
    op.resolved[key] = entry
    return entry


def _check_dtypes(op: Op, specs: tuple[TensorSpec, ...], attrs: dict[str, Any]) -> None:
    """Kernels may take more dtypes than the type rule does; so lanes are checked, once each."""
    try:
        infer(op, [s.type for s in specs], attrs, [s.device for s in specs])
    except DTypeError as error:
        raise strip(error) from None
    except EagerflowError:  # of the shapes or attributes: the kernel refuses them as well
        pass


def _find_kernel(op: Op, lanes: list[Lane], device: Device) -> Callable[..., Any]:
    load_plugins()
    names = tuple(lane.dtype.name for lane in lanes)
    kind, xp = device.backend.kind, device.backend.xp
    if len(set(names)) == 1:  # one name stands for any number of inputs
        kernel = table.find(op.name, kind, names, xp)
        single = table.find(op.name, kind, names[:1], xp)
        kernel = single if single is not None and len(names) > 1 else kernel
    else:
        kernel = table.find(op.name, kind, names, xp)
    if kernel is None:
        raise KernelError(
            f"{op.name}: no kernel for {device}",
            given=", ".join(names),
            hint=f"register one with eagerflow_kernels.table.special({op.name!r}, {kind!r})",
        )
    users = _code_of_user(kernel)
    dtypes = {lane.dtype for lane in lanes}
    low = op.precision != "exact" and bool(dtypes & _LOW)
    if BYTES in dtypes:
        kernel = _of_bytes(kernel)
    elif low or (op.precision == "accumulate" and _FLOAT16 in dtypes):
        kernel = _via_float32(op, kernel, device, lanes)
    return kernel if users is None else _checked(op, kernel, users, lanes, device)


def _checked(
    op: Op, kernel: Callable[..., Any], code: CodeType, lanes: list[Lane], device: Device
) -> Callable[..., Any]:
    """A kernel of the user's, of which the first call is compared with the type rule."""
    first = True

    def checked(*arrays: Any, **attrs: Any) -> Any:
        nonlocal first
        data = kernel(*arrays, **attrs)
        if first:
            known = attrs if arrays else {**attrs, "device": device}
            types = infer(op, _types(arrays, lanes), known, (device,) * len(arrays))
            _check_outputs(op.name, data, types, device, code)
            first = False
        return data

    return checked


def _code_of_user(kernel: Any) -> CodeType | None:
    """The code of a kernel that is not one of eagerflow's own."""
    while isinstance(kernel, partial):
        kernel = kernel.func
    code = getattr(kernel, "__code__", None)
    module = str(getattr(kernel, "__module__", "")).partition(".")[0]
    return code if isinstance(code, CodeType) and module not in _OWN else None


def _check_outputs(
    name: str, data: Any, types: TensorType | tuple[TensorType, ...], device: Device, code: CodeType
) -> None:
    """Compare what a kernel gave with what the type rule says.

    Args:
        name: of the op.
        data: what it gave.
        types: what the rule says.
        device: where it is.
        code: the kernel.

    Raises:
        KernelError: that is something else.
    """
    given, expected = (data, types) if isinstance(types, tuple) else ((data,), (types,))
    if not isinstance(given, tuple) or len(given) != len(expected):
        raise _wrong(name, "gives another number of outputs than", _shown(data), types, code)
    for x, kind in zip(given, expected, strict=True):
        if type(x) is ListData:
            continue
        if not isinstance(x, (device.backend.array_type, np.generic)):
            raise _wrong(name, "gives no array, as", _shown(x), types, code)
        if x.dtype != kind.dtype.dtype:
            raise _wrong(name, "gives another dtype than", f"{x.dtype}", types, code)
        sizes = zip(x.shape, kind.shape, strict=False)
        if len(x.shape) != len(kind.shape) or any(a != b for a, b in sizes if type(b) is int):
            raise _wrong(name, "gives another shape than", _shown(x), types, code)


def _shown(x: Any) -> str:
    if isinstance(x, (np.ndarray, np.generic)):
        return f"{x.dtype}[{', '.join(map(str, x.shape))}]"
    return f"{len(x)} outputs" if isinstance(x, tuple) else f"a {type(x).__name__}"


def _wrong(name: str, what: str, given: str, types: Any, code: CodeType) -> KernelError:
    kinds = types if isinstance(types, tuple) else (types,)
    return KernelError(
        f"{name}: a kernel that was registered {what} the type rule of the op says",
        given=f"{given} by {Source(code, 0)}",
        expected=", ".join(map(str, kinds)),
    )


def _of_bytes(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that gives arrays also where NumPy gives an element, which is no scalar of NumPy."""

    def whole(*arrays: Any, **attrs: Any) -> Any:
        data = kernel(*arrays, **attrs)
        return np.array(data, object) if type(data) is bytes else data

    return whole


def _via_float32(
    op: Op, kernel: Callable[..., Any], device: Device, lanes: list[Lane]
) -> Callable[..., Any]:
    """A kernel that computes 8- and 16-bit floats in float32 and rounds the results once."""

    def low_precision(*arrays: Any, **attrs: Any) -> Any:
        outputs = infer(op, _types(arrays, lanes), attrs, (device,) * len(arrays))
        wide = [
            a.astype("float32") if lane.dtype in _LOW or lane.dtype is _FLOAT16 else a
            for a, lane in zip(arrays, _repeat(lanes, len(arrays)), strict=True)
        ]
        data = kernel(*wide, **attrs)
        if isinstance(outputs, tuple):
            return tuple(
                device.backend.xp.asarray(d).astype(t.dtype.dtype, copy=False)
                for d, t in zip(data, outputs, strict=True)
            )
        return device.backend.xp.asarray(data).astype(outputs.dtype.dtype, copy=False)

    return low_precision


def _null_kernel(op: Op, lanes: list[Lane], device: Device) -> Callable[..., Any]:
    """Runs the type rule alone: what a device without data does."""

    def null(*arrays: Any, **attrs: Any) -> Any:
        if not arrays:
            attrs = {**attrs, "device": device}
        outputs = infer(op, _types(arrays, lanes), attrs, (device,) * len(arrays))
        if isinstance(outputs, tuple):
            return tuple(NullArray(t.dtype.dtype, t.shape) for t in outputs)
        return NullArray(outputs.dtype.dtype, outputs.shape)

    return null


def _mover(source: Device) -> Callable[..., Any]:
    """Copies from ``source`` to the device named by the attribute."""

    def move(array: Any, *, device: Device, **attrs: Any) -> Tensor:
        if not TransferEvent.listeners:
            return copy(array, device)
        at = running_node()
        nbytes = TensorType(source.lanes[array.dtype].dtype, array.shape).nbytes
        event = TransferEvent(
            name="transfer", device=str(device), origin=str(source), nbytes=nbytes,
            executable=at.executable, node=at.node, source=at.source,
            frames=(*step_of.frames, *at.frames),
        )  # fmt: skip
        with told(event):
            return copy(array, device)

    def copy(array: Any, device: Device) -> Tensor:
        return make_tensor(moved(array, source, device), device.lanes[array.dtype])

    return move


def moved(array: Any, source: Device, device: Device) -> Any:
    """An array of one device as one of another."""
    if source.backend.xp is None and device.backend.xp is None:
        return NullArray(array.dtype, array.shape)
    return device.backend.from_host(source.backend.to_host(array, source), device)


def _repeat(lanes: list[Lane], count: int) -> list[Lane]:
    """Entries are shared by calls of any number of inputs on one lane (variadic ops)."""
    return lanes if len(lanes) == count else [lanes[0]] * count


def _types(arrays: Sequence[Any], lanes: list[Lane]) -> list[TensorType]:
    pairs = zip(arrays, _repeat(lanes, len(arrays)), strict=True)
    return [TensorType(lane.dtype, a.shape) for a, lane in pairs]


def explain(
    op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any], error: Exception
) -> Exception:
    """The error to raise for one that a kernel raised, worded by the type rule if it objects.

    Args:
        op: the op.
        specs: of the inputs.
        attrs: the attributes, for an op without inputs the device among them.
        error: what the kernel raised.
    """
    explained = _explained(op, specs, attrs, error)
    line = None if isinstance(error, EagerflowError) else user_line(error)
    if line is not None and explained is not error:
        explained.__cause__ = error
        explained.add_note(f"  kernel: {line}")
    return explained


def _explained(
    op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any], error: Exception
) -> Exception:
    if isinstance(error, EagerflowError):
        return strip(error)
    if op.effect == "fence" and callable(attrs.get("resource")):  # the error is the user's own
        return error
    try:
        infer_specs(op, specs, attrs)
    except DataDependentError:  # it has found nothing else wrong
        pass
    except EagerflowError as worded:
        return strip(worded)
    given = describe(op, [s.type for s in specs], attrs, [s.device for s in specs])
    if isinstance(error, MemoryError) or any(words in str(error) for words in _TOO_LARGE):
        return OutOfMemoryError(f"{op.name}: out of memory ({error})", given=given)
    if isinstance(error, DamagedError):
        return RecordError(f"{op.name}: {error}", given=given)
    if isinstance(error, ImportError):
        return SettingError(f"{op.name}: {error}")
    if isinstance(error, OSError):
        failed = FileError(f"{op.name}: {error}", given=given, hint=advice(error))
        failed.errno, failed.filename = error.errno, error.filename
        return failed
    if isinstance(error, IndexError):
        # one of a kernel may have what it expects for its second argument
        own = type(error) is IndexError and len(error.args) == 2
        wrong, expected = error.args if own else (str(error), None)
        words = wrong.replace("out of bounds", "out of range")  # NumPy's, made ours
        return TensorIndexError(f"{op.name}: {words}", given=given, expected=expected)
    if isinstance(error, (np.linalg.LinAlgError, ValueError, OverflowError)):
        return TensorValueError(f"{op.name}: {error}", given=given)
    wrapped = KernelError(f"{op.name}: the kernel raised {error!r}", given=given)
    wrapped.__cause__ = error
    return wrapped


# the slots that break the cycle bind -> execute -> Tensor
interpreter.stack.execute = execute
interpreter.stack.resolve = resolve
