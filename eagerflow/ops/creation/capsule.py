"""The element type of a DLPack capsule: relabelling for dtypes that NumPy does not exchange.

A capsule holds a ``DLManagedTensor`` (named ``dltensor``) or a ``DLManagedTensorVersioned``
(``dltensor_versioned``). Each export makes a struct of its own, so relabelling one changes what
its consumer reads and nothing else. Layout: ``dlpack.h`` of DLPack 1.1.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, final

from eagerflow.types import DTYPES, DType

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


@final
class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


def _data_type(capsule: Any) -> _DataType:
    name = _get_name(capsule)
    return _DataType.from_address(_get_pointer(capsule, name) + _OFFSETS[name])


def relabel(capsule: Any, dtype: DType) -> Any:
    """A capsule of unsigned integers, relabelled to ``dtype`` of the same width."""
    _data_type(capsule).code = _CODES[dtype]
    return capsule


def relabelled_dtype(capsule: Any) -> DType | None:
    """The dtype of a capsule if NumPy lacks it, else None; relabels to unsigned integers."""
    header = _data_type(capsule)
    for dtype, code in _CODES.items():
        if (header.code, header.bits) == (code, 8 * dtype.itemsize):
            header.code = _UINT
            return dtype
    return None
