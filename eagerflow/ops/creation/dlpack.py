"""DLPack: sharing of memory with arrays of other libraries, by export and by import."""

from __future__ import annotations

import ctypes
from typing import Any, Final, final

from eagerflow.core.interpreter import current, stack
from eagerflow.core.op import bind, functions, get_op
from eagerflow.core.tensor import AbstractArray, Tensor, make_tensor
from eagerflow.core.to_tensor import OffersDLPack, TensorLike, as_tensor, tensor_of
from eagerflow.errors import DeviceError, InterchangeError, TensorValueError, UnknownNameError
from eagerflow.formatting import kind_of
from eagerflow.hardware import Device, as_device, current_device
from eagerflow.ops.creation.device_moves import to_device
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.types import BYTES, DTYPES, DType

__all__ = ["from_dlpack"]

#: kinds of our devices by DLDeviceType: CPU, CUDA, CUDA managed
_KINDS: Final = {1: "cpu", 2: "gpu", 13: "gpu"}
_UNSIGNED: Final = {1: "uint8", 2: "uint16"}
#: DLDataTypeCode of the dtypes that NumPy does not exchange
_CODES: Final = {
    DTYPES["bfloat16"]: 4,
    DTYPES["float8_e4m3fn"]: 10,
    DTYPES["float8_e5m2"]: 12,
}
_UINT: Final = 1
#: offset of the DLDataType: after version, manager, deleter and flags if the struct has these
_OFFSETS: Final = {b"dltensor": 20, b"dltensor_versioned": 52}

_get_name: Final = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_get_pointer: Final = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _kind_of(name: str, number: Any, given: str) -> str:
    kind = _KINDS.get(int(number))
    if kind is None:
        wrong = f"{name}: there is no device of DLPack type {int(number)}"
        raise InterchangeError(wrong, given=given)
    return kind


# --- export ---------------------------------------------------------------------------------


def _export(
    x: TensorLike,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[Any, int] | None,
    copy: bool | None,
) -> Any:
    """A capsule of ``x``: read-only if the consumer knows that flag (DLPack 1.0), else a copy.

    With ``copy=False`` an older consumer gets the buffer itself.
    """
    value = _reachable(tensor_of(x), dl_device, copy)
    array, dtype = _array(value, "__dlpack__()"), value.dtype
    if dtype is BYTES:
        raise InterchangeError(
            "__dlpack__: DLPack has no bytes", given=str(value.type),
            hint="x.numpy() is an array of Python's bytes",
        )  # fmt: skip
    if stream is not None and value.device.kind == "cpu":
        raise InterchangeError("__dlpack__: a CPU has no streams", given=f"stream={stream!r}")
    backend = value.device.backend
    if not (value.device.is_ready_at_once or backend.ready(array)):
        backend.synchronize(value.device.index)  # consumers know nothing of streams for copies
    if not dtype.is_native:
        array = array.view(_UNSIGNED[dtype.itemsize])
    options: dict[str, Any] = {} if stream is None else {"stream": stream}
    if max_version is not None and max_version[0] >= 1:
        options["max_version"] = max_version
    if copy:
        options["copy"] = True
    elif "max_version" in options:
        array = array.view()
        if hasattr(array.flags, "writeable"):  # CuPy has no read-only arrays
            array.flags.writeable = False
    else:
        array = array.copy() if copy is None else _writable(value.device, array)
    capsule = array.__dlpack__(**options)
    return capsule if dtype.is_native else _relabel(capsule, dtype)


def _reachable(x: Tensor, dl_device: tuple[Any, int] | None, copy: bool | None) -> Tensor:
    """``x`` on the device that the consumer asks for."""
    own = _device_of(x)
    if dl_device is None or (int(dl_device[0]), dl_device[1]) == own:
        return x
    kind = _kind_of("__dlpack__", dl_device[0], str(x.type))
    if copy is False:
        raise InterchangeError(
            "__dlpack__: another device needs a copy", given=f"{x.type}, copy=False"
        )
    try:
        return to_device(x, f"{kind}:{dl_device[1]}")
    except DeviceError as error:
        raise InterchangeError(f"__dlpack__: {error.wrong}", given=str(x.type)) from None


def _device_of(x: TensorLike) -> Any:
    value = tensor_of(x)
    if not value.device.holds_data:
        raise DeviceError(f"__dlpack__: a tensor on {value.device} has no values")
    array = _array(value, "__dlpack_device__()")
    if not hasattr(array, "__dlpack_device__"):
        raise InterchangeError(
            f"__dlpack__: memory of {value.device} cannot be shared", given=str(value.type),
            hint="x.numpy() copies it to the host",
        )  # fmt: skip
    kind, index = array.__dlpack_device__()
    return int(kind), index


def _array(x: Tensor, what: str) -> Any:
    return x._data.concrete(what) if x._lane.symbolic else x._data


@final
class _Buffer:
    """The memory of an array that NumPy marks read-only, presented as writable."""

    def __init__(self, array: Any) -> None:
        self.array = array  # keeps the memory alive
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _writable(device: Device, array: Any) -> Any:
    if getattr(array.flags, "writeable", True):
        return array
    return device.xp.asarray(_Buffer(array))


functions["__dlpack__"] = _export
functions["__dlpack_device__"] = _device_of

# --- import ---------------------------------------------------------------------------------


@final
class _Producer:
    """Another library's array, adapted so that NumPy and CuPy can read it.

    Attributes:
        dtype: the dtype of its elements if these libraries do not know it, and get integers.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype: DType | None = None

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.array.__dlpack__(**options)
        self.dtype = _relabelled_dtype(capsule)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def from_dlpack(
    x: OffersDLPack, /, *, device: DeviceLike = None, copy: bool | None = None
) -> Tensor:
    """A tensor that shares the memory of another library's array, through DLPack.

    eagerflow never writes there. If the other library does, the tensor and its views change; to
    avoid this, pass ``copy=True``.

    Conversely, other libraries read the memory of a tensor by their own ``from_dlpack``. It is
    flagged read-only, but PyTorch ignores the flag: the result of ``torch.from_dlpack(x)`` must
    only be read. To write, use ``torch.from_dlpack(x, copy=True)`` or ``torch.tensor(x)``.

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``.
        device: device of the result; by default that of ``x``.
        copy: True always copies, False never, None only if needed.

    Raises:
        UnknownNameError: ``x`` does not support DLPack (also an AttributeError).
        InterchangeError: ``x`` cannot be exchanged (also a BufferError).
        TensorValueError: ``copy=False`` is given, but a copy is needed.

    >>> ef.from_dlpack(ef.tensor([1.0, 2.0]).numpy())
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    target = None if device is None else as_device(device)
    if isinstance(x, AbstractArray):
        before = tensor_of(x)
        after = as_tensor(before, None, target, copy=copy)
        return bind(get_op("identity"), after) if after is before else after
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise UnknownNameError(
            f"from_dlpack: {kind_of(x)} has no __dlpack__",
            hint="ef.asarray takes numbers, sequences and arrays of any library",
        )
    tensor = _take(x, target, copy)
    if target is None or tensor.device is target:
        return tensor
    if copy is False:
        raise _needs_copy(target)
    return to_device(tensor, target)


def _needs_copy(target: Device) -> TensorValueError:
    return TensorValueError(
        "from_dlpack: another device needs a copy", given=f"device={target}, copy=False"
    )


def _take(x: Any, target: Device | None, copy: bool | None) -> Tensor:
    """A tensor of ``x`` on the device nearest to ``target`` that can read its memory."""
    where, options = _reader_of(x, target)
    if copy is False:
        if options:
            raise _needs_copy(where)
        options["copy"] = False
    producer = _Producer(x)
    try:
        array = where.xp.from_dlpack(producer, **options)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InterchangeError(
            f"from_dlpack: {kind_of(x)} cannot be exchanged: {error}",
            hint="ef.asarray copies objects that have __array__",
        ) from None
    if producer.dtype is not None:
        array = array.view(producer.dtype.dtype)
    tensor = make_tensor(array.copy() if copy else array, where.lanes[array.dtype])
    if stack.installed:
        current().made(tensor)
    return tensor


def _reader_of(x: Any, target: Device | None) -> tuple[Device, dict[str, Any]]:
    """The device that reads the memory of ``x``, and the options for the producer."""
    number, index = x.__dlpack_device__()
    kind = _kind_of("from_dlpack", number, type(x).__name__)
    if kind == "cpu":
        here = current_device()
        cpu = next((d for d in (target, here) if d is not None and d.kind == "cpu"), None)
        return cpu or as_device("cpu:0"), {}
    if target is not None and target.kind == "cpu":
        return target, {"device": "cpu"}
    return as_device(f"{kind}:{index}"), {}


# --- capsules -------------------------------------------------------------------------------
#
# A capsule holds a ``DLManagedTensor`` (named ``dltensor``) or a ``DLManagedTensorVersioned``
# (``dltensor_versioned``). Each export makes a struct of its own, so relabelling one changes what
# its consumer reads and nothing else. Layout: ``dlpack.h`` of DLPack 1.1.


@final
class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


def _data_type(capsule: Any) -> _DataType:
    name = _get_name(capsule)
    return _DataType.from_address(_get_pointer(capsule, name) + _OFFSETS[name])


def _relabel(capsule: Any, dtype: DType) -> Any:
    """A capsule of unsigned integers, relabelled to ``dtype`` of the same width."""
    _data_type(capsule).code = _CODES[dtype]
    return capsule


def _relabelled_dtype(capsule: Any) -> DType | None:
    """The dtype of a capsule if NumPy lacks it, else None; relabels to unsigned integers."""
    header = _data_type(capsule)
    for dtype, code in _CODES.items():
        if (header.code, header.bits) == (code, 8 * dtype.itemsize):
            header.code = _UINT
            return dtype
    return None
