"""Conversion to tensors of all that users may pass as an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Protocol, TypeAlias

import numpy as np

from eagerflow.core import interpreter
from eagerflow.core.abstract_symbols import AbstractNumber, AbstractTracedArray
from eagerflow.core.byte_arrays import byte_array
from eagerflow.core.interpreter import stack
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor, make_tensor, type_of
from eagerflow.dims import Dim, number_of
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.errors import (
    DeviceError,
    DTypeError,
    EagerflowError,
    InterchangeError,
    TensorValueError,
)
from eagerflow.formatting import kind_of
from eagerflow.hardware import Device, Lane, as_device, from_host
from eagerflow.hardware import device as on_device
from eagerflow.hardware.device_scopes import runs_at
from eagerflow.types import BYTES, DTYPES, DType, default_dtype


class OffersDLPack(Protocol):
    """An array of another library that supports DLPack."""

    def __dlpack__(self) -> Any: ...


class OffersArray(Protocol):
    """An array of another library that supports NumPy's ``__array__``."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


class NestedSequence(Protocol):
    """A list or tuple of array-like values, but no ``str``, whose ``in`` takes strings only."""

    def __len__(self) -> int: ...
    # before __getitem__: for pyright a str is a sequence of str
    def __contains__(self, value: object, /) -> bool: ...
    def __getitem__(self, index: int, /) -> TensorLike: ...


#: the types that public functions take for an array
TensorLike: TypeAlias = (
    AbstractArray | complex | bytes | OffersDLPack | OffersArray | NestedSequence
)

_scalars: dict[tuple[Any, ...], Tensor] = {}
_SCALAR_LIMIT = 4096
_LARGE = 1 << 63
_LEAST, _MOST = 1e-37, 3e38  # float32 represents magnitudes in between
_LONG = 100  # bits of an integer from which messages do not show its digits
_NUMPY_DTYPES = {d.dtype: d for d in DTYPES.values()}
#: hint where a dict of arrays, such as gradients, stands in the place of an array
_OF_LEAVES = (
    "of a dict each value is an array: {name: f(x) for name, x in values.items()}; of gradients, "
    "ef.optim.global_norm(grads) is the norm of all"
)
_SYMBOLIC = (AbstractAsked, AbstractTracedArray)
_PYTHON_DTYPES = {
    bool: DTYPES["bool"],
    int: DTYPES["int64"],
    float: DTYPES["float32"],
    complex: DTYPES["complex64"],
}


def scalar(value: Any, lane: Lane) -> Tensor:
    """A Python number, or a symbolic number of a trace, as a tensor with no axes.

    Raises:
        TensorValueError: an integer that does not fit.
    """
    if type(value) is Dim:
        value = number_of(value)
    if lane.symbolic:
        lane = lane.twin
    if type(value) not in _PYTHON_DTYPES and issubclass(type(value), AbstractNumber):
        symbolic: Tensor = value.to_tensor(lane)
        return symbolic
    # 0.0 == -0.0 and nan != nan, so neither may be a key
    key = (value, type(value), lane) if value else (repr(value), lane)
    tensor = _scalars.get(key)
    if tensor is None:
        tensor = _make_scalar(value, lane)
        if value == value and len(_scalars) < _SCALAR_LIMIT:
            _scalars[key] = tensor
    return _made(make_tensor(tensor._data, lane))


def _made(x: Tensor) -> Tensor:
    if stack.installed:
        interpreter.current().made(x)
    return x


def _make_scalar(value: complex, lane: Lane) -> Tensor:
    dtype, kind = lane.dtype, type(value)
    # the fast path of the two most frequent kinds; the check of overflow takes longer
    plain = dtype is _PYTHON_DTYPES.get(kind) and (
        (kind is float and _LEAST < abs(value) < _MOST) or (kind is int and abs(value) < _LARGE)
    )
    array = np.asarray(value, dtype=dtype.dtype) if plain else _checked(value, dtype)
    return make_tensor(from_host(array, lane.device), lane)


def _checked(value: complex, dtype: DType) -> np.ndarray[Any, Any]:
    """An array of one number.

    Raises:
        TensorValueError: an integer that does not fit.
    """
    if dtype.is_integer and isinstance(value, int):
        info = np.iinfo(dtype.dtype)
        if not info.min <= value <= info.max:
            raise _unfit(value, dtype)
    with np.errstate(over="ignore"):
        try:
            return np.asarray(value, dtype=dtype.dtype)
        except (OverflowError, ValueError):  # ValueError: NaN to an integer
            raise _unfit(value, dtype) from None


def _unfit(value: complex, dtype: DType) -> TensorValueError:
    expected = None
    if dtype.is_integer:
        info = np.iinfo(dtype.dtype)
        expected = f"{info.min} to {info.max}"
    bits = value.bit_length() if isinstance(value, int) else 0
    shown = f"an integer of {bits} bits" if bits > _LONG else str(value)
    return TensorValueError(f"{shown} does not fit into {dtype.name}", expected=expected)


def tensor_of(x: Any) -> Tensor:
    """``x`` as an operand of an op: itself, the value of a variable, or a new tensor."""
    if type(x) is Tensor:
        return x
    return as_tensor(x)


def as_tensor(
    value: Any,
    dtype: DType | None = None,
    device: Device | None = None,
    *,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of ``value``, sharing memory where possible unless ``copy``.

    Args:
        value: a tensor, a variable, a number, ``bytes``, an array of any library, or nested
            sequences.
        dtype: of the result; by default that of an array, float32 for Python floats, int64 for
            ints, complex64 for complex numbers.
        device: of the result; by default that of a tensor, else the current device.
        copy: True always copies, False never (and raises if a copy is needed).
    """
    if device is not None and stack.scoped:  # the argument wins over the scope
        with runs_at(device) or nullcontext():
            return _converted(value, dtype, device, copy)
    return _converted(value, dtype, device, copy)


def _converted(value: Any, dtype: DType | None, device: Device | None, copy: bool | None) -> Tensor:
    if type(value) is np.ndarray and value.dtype in _NUMPY_DTYPES:  # most values
        view = value.view()  # never the caller's own object
        return array_tensor(view, dtype, device or as_device(None), copy=copy)
    if isinstance(value, AbstractArray):
        return _from_array(value, dtype, device, copy)
    make = getattr(type(value), "__tensor__", None)
    if make is not None:
        return _from_array(make(value), dtype, device, copy)
    where = device or as_device(None)
    if type(value) is Dim:
        value = number_of(value)
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        if copy is False:
            raise TensorValueError("a Python number cannot be shared, only copied")
        return _from_number(value, dtype, where)
    if isinstance(value, (list, tuple)):
        return _from_nested(value, dtype, device, copy)
    if isinstance(value, (bytes, str)) or _holds_text(value):
        return _from_bytes(value, dtype, where, copy)
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        shared = _from_dlpack(value)
        if shared is not None:
            return _from_array(shared, dtype, device, copy)
    return array_tensor(_from_object(value), dtype, where, copy=copy)


def _from_nested(
    value: Any, dtype: DType | None, device: Device | None, copy: bool | None
) -> Tensor:
    if copy is False:
        raise TensorValueError("a sequence cannot be shared, only copied")
    if _has_tensor(value):
        return _stack(value, dtype, device)
    return _from_items(value, dtype, device or as_device(None))


def _from_dlpack(value: Any) -> Tensor | None:
    try:
        result: Tensor = functions["from_dlpack"](value)
    except InterchangeError:
        if hasattr(value, "__array__"):
            return None
        raise
    return result


def array_tensor(
    array: np.ndarray[Any, Any], dtype: DType | None, device: Device, *, copy: bool | None
) -> Tensor:
    """A tensor of a NumPy array, shared if ``copy`` is not True and the device allows."""
    own, borrowed = _own_dtype(array), True
    if dtype is not None and own is not dtype:
        if dtype is BYTES:
            raise DTypeError(f"{own.name} cannot be cast to bytes")
        if copy is False:
            raise TensorValueError(f"{own.name} to {dtype.name} needs a copy")
        with np.errstate(all="ignore"):
            array = array.astype(dtype.dtype)
        copy, own, borrowed = None, dtype, False
    if device.backend.array_type is not np.ndarray:
        array = from_host(array, device, borrowed=borrowed)
    elif copy:
        array = array.copy()
    return _made(make_tensor(array, device.lanes[own]))


def _from_bytes(value: Any, dtype: DType | None, device: Device, copy: bool | None) -> Tensor:
    if copy is False:
        raise TensorValueError("bytes cannot be shared, only copied")
    array = byte_array(value)
    if dtype is not None and dtype is not BYTES:
        raise DTypeError(
            f"bytes cannot be cast to {dtype.name}",
            given=repr(value) if isinstance(value, bytes) else None,
            hint="ef.io.parse_numbers reads numbers that are written out, ef.io.decode_raw the"
            " bytes of their elements",
        )
    return bytes_tensor(array, device)


def bytes_tensor(array: np.ndarray[Any, Any], device: Device) -> Tensor:
    """A tensor of an array of bytes, as `byte_array` makes it; the array is shared.

    Raises:
        DeviceError: the device holds numbers only.
    """
    check_holds(device, BYTES)
    lane = device.lanes[BYTES]
    if device.backend.array_type is not np.ndarray:
        array = from_host(array, device)
    return _made(make_tensor(array, lane))


def check_holds(device: Device, dtype: DType) -> None:
    """Refuse to bring bytes to a device that holds numbers only.

    Raises:
        DeviceError: the dtype is bytes, and the device cannot hold them.
    """
    if dtype is BYTES and not device.backend.holds_bytes:
        raise DeviceError(
            f"{device} cannot hold bytes",
            hint="keep them on the CPU, and move the values made of them: .to(...)",
        )


def _holds_text(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "SUO"


def _own_dtype(array: np.ndarray[Any, Any]) -> DType:
    dtype = _NUMPY_DTYPES.get(array.dtype)
    if dtype is not None:
        return dtype
    if array.dtype.kind in "SU":
        raise DTypeError("numbers do not mix with bytes or texts in one array")
    raise DTypeError(
        f"there is no dtype for NumPy's {array.dtype}",
        expected=", ".join(DTYPES),
        hint="ragged or mixed sequences become objects" if array.dtype == object else None,
    )


def _from_array(
    x: AbstractArray, dtype: DType | None, device: Device | None, copy: bool | None
) -> Tensor:
    value: Tensor = x.__tensor__()
    before = value._data
    if device is not None and value.device is not device:
        if copy is False:
            raise TensorValueError("another device needs a copy", given=str(type_of(value)))
        value = functions["to_device"](value, device)
    if dtype is not None and value.dtype is not dtype:
        if copy is False:
            raise TensorValueError("another dtype needs a copy", given=str(type_of(value)))
        value = functions["astype"](value, dtype)
    if copy and value._data is before:
        value = functions["copy"](value)
    return value


def _from_number(value: complex, dtype: DType | None, device: Device) -> Tensor:
    if dtype is None:
        dtype = _PYTHON_DTYPES[type(value) if type(value) in _PYTHON_DTYPES else _base(value)]
    if dtype is BYTES:
        raise DTypeError(f"{value!r} cannot be converted to bytes", given=kind_of(value))
    if isinstance(value, complex) and not dtype.is_complex:
        raise DTypeError(f"{value} is complex, {dtype.name} is not")
    if issubclass(type(value), AbstractNumber):
        return scalar(value, device.lanes[dtype])
    return _made(
        _make_scalar(value, device.lanes[dtype])
    )  # an identity of its own, unlike `scalar`


def _base(value: complex) -> type:
    return next(t for t in (bool, int, float, complex) if isinstance(value, t))


def _has_tensor(value: Any) -> bool:
    """Whether ``value`` contains a tensor or a symbolic value."""
    if isinstance(value, (list, tuple)):
        return any(_has_tensor(v) for v in value)
    return isinstance(value, AbstractArray) or _is_symbolic(value)


def _is_symbolic(value: Any) -> bool:
    return issubclass(type(value), _SYMBOLIC)


def _stack(value: Any, dtype: DType | None, device: Device | None) -> Tensor:
    # numbers stay weak, as next to a tensor everywhere
    parts = [
        v
        if dtype is None and (type(v) in _PYTHON_DTYPES or _is_symbolic(v))
        else as_tensor(v, dtype, device)
        for v in value
    ]
    if device is None or any(isinstance(part, AbstractArray) for part in parts):
        return functions["stack"](parts)
    with on_device(device):  # numbers alone, which have no device
        return functions["stack"](parts)


def _from_items(value: Any, dtype: DType | None, device: Device) -> Tensor:
    if dtype is BYTES or isinstance(_first_leaf(value), (bytes, str)):
        return _from_bytes(value, dtype, device, None)
    return array_tensor(_from_sequence(value, dtype), dtype, device, copy=None)


def _from_sequence(value: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    target = dtype.dtype if dtype is not None and dtype.is_native else None
    try:
        array = np.asarray(value) if target is None else np.asarray(value, dtype=target)
        if target is None and array.dtype.char in "dLQO" and array.size:
            array = _of_large(value, array, dtype)
    except EagerflowError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        if isinstance(error, OverflowError):
            _check_fit(_leaves(value), dtype or default_dtype("real floating"))
        raise TensorValueError(
            f"these sequences do not make an array: {error}",
            expected="numbers, nested to equal lengths",
        ) from None
    if dtype is None and not isinstance(_first_leaf(value), (np.generic, np.ndarray)):
        kind = {"f": "real floating", "c": "complex floating"}.get(array.dtype.kind)
        if kind is not None or array.size == 0:
            with np.errstate(over="ignore"):  # infinity, as of a single number
                array = array.astype(default_dtype(kind or "real floating").dtype)
    return array


def _of_large(value: Any, array: np.ndarray[Any, Any], dtype: DType | None) -> np.ndarray[Any, Any]:
    """``array`` as made of ``value``, corrected if NumPy chose another dtype for large integers."""
    if array.dtype.kind == "f" and not (np.abs(array) >= 2.0**63).any():
        return array
    leaves = list(_leaves(value))
    kinds = {type(v) for v in leaves}
    if int not in kinds or not kinds <= _PYTHON_DTYPES.keys():
        return array
    if kinds <= {int, bool}:
        if dtype is not None and not dtype.is_integer:
            return np.asarray(value, dtype="float64")
        _check_fit(leaves, dtype or _PYTHON_DTYPES[int])
        return array
    return np.asarray(value, dtype="complex128" if complex in kinds else "float64")


def _check_fit(leaves: Iterable[Any], dtype: DType) -> None:
    """Refuse integers that do not fit, by the first of them."""
    lane = as_device("cpu:0").lanes[dtype]
    for leaf in leaves:
        if type(leaf) is int:
            _make_scalar(leaf, lane)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _first_leaf(value: Any) -> Any:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def _from_object(value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "mask") and isinstance(value, np.ma.MaskedArray):
        raise DTypeError(
            "a masked array would lose its mask",
            hint="pass array.filled(value), and array.mask as a tensor of its own",
        )
    array = np.asarray(value).view(np.ndarray)  # never the caller's own object
    if not array.dtype.isnative:  # the byte order of another machine
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == object:
        raise DTypeError(
            f"{kind_of(value)} is not an array",
            expected="a tensor, a number, a NumPy array, or nested sequences of numbers",
            hint=_OF_LEAVES if isinstance(value, dict) else None,
        )
    return array
