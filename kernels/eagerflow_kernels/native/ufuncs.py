"""Functions of NumPy made of machine code, through the table of NumPy's C API.

A function of NumPy provides all services of a call: broadcasting, strides, ``out``, results in the
memory order of the inputs, and running without the GIL. Loops with an inner axis become generalised
functions, for which it is the last axis.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, final

import numpy as np

from eagerflow_kernels.native.loop_form import Kind, LoopSignature

_TYPE_NUMBERS: Final[dict[Kind, int]] = {
    "bool": np.dtype("bool").num,
    "i32": np.dtype("int32").num,
    "i64": np.dtype("int64").num,
    "f32": np.dtype("float32").num,
    "f64": np.dtype("float64").num,
    "f16": np.dtype("float16").num,
    "bf16": np.dtype("int16").num,  # a dtype of NumPy: the caller takes views
}
_FROM_FUNCTION: Final = 1  # PyUFunc_FromFuncAndData
_FROM_FUNCTION_AND_SIGNATURE: Final = 31  # PyUFunc_FromFuncAndDataAndSignature
_NO_IDENTITY: Final = -1  # PyUFunc_None

#: offsets into `PyUFuncObject` of NumPy's headers: of its counts, and of the object it keeps alive
_COUNTS: Final = 2 * ctypes.sizeof(ctypes.c_void_p)
_OBJECT: Final = 11 * ctypes.sizeof(ctypes.c_void_p)

_COMMON: Final = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int,
    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int,
]  # fmt: skip


@cache
def _table() -> Any:
    """NumPy's functions for extensions, as addresses."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # the table that NumPy's headers look up, at the same place
    address = pointer(import_module("numpy._core._multiarray_umath")._UFUNC_API, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))


@cache
def _plain() -> Callable[..., Any]:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *_COMMON)
    return make(_table()[_FROM_FUNCTION])


@cache
def _generalised() -> Callable[..., Any]:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *_COMMON, ctypes.c_char_p)
    return make(_table()[_FROM_FUNCTION_AND_SIGNATURE])


@final
@dataclass(frozen=True, slots=True)
class _Kept:
    """Data that a function of NumPy points to, with the same lifetime.

    Attributes:
        functions: the address of the code.
        data: the address that the code gets besides arrays: of a control or the pool, or null.
        kinds: the numbers of the dtypes.
        name: of the function.
        signature: the text that says which arrays have the inner axis.
        code: the owner of the code.
    """

    functions: ctypes.Array[ctypes.c_void_p]
    data: ctypes.Array[ctypes.c_void_p]
    kinds: ctypes.Array[ctypes.c_char]
    name: bytes
    signature: bytes
    code: object


def ufunc_of(of: LoopSignature, address: int, code: object, data: int | None = None) -> np.ufunc:
    """The function of NumPy that runs machine code.

    Args:
        of: the signature of the code.
        address: of its entry.
        code: the owner of the code; it lives as long as the function.
        data: the address that the entry gets besides arrays.
    """
    arrays = (*of.inputs, *of.outputs)
    kept = _Kept(
        (ctypes.c_void_p * 1)(address),
        (ctypes.c_void_p * 1)(data),
        ctypes.create_string_buffer(bytes(_TYPE_NUMBERS[a.kind] for a in arrays), len(arrays)),
        of.name.encode(),
        _signature(of).encode(),
        code,
    )
    given = (
        ctypes.addressof(kept.functions), ctypes.addressof(kept.data), ctypes.addressof(kept.kinds),
        1, len(of.inputs), len(of.outputs), _NO_IDENTITY, kept.name, b"", 0,
    )  # fmt: skip
    made = _generalised()(*given, kept.signature) if of.inner else _plain()(*given)
    _keep(made, kept)
    ufunc: np.ufunc = made
    return ufunc


def _signature(of: LoopSignature) -> str:
    """The signature of a generalised function, with the inner axis of arrays: ``(n),()->(n)``.

    A table has an axis of its own, after the inner one, so that the inner axis comes first in the
    sizes.
    """
    inputs = [
        f"({','.join(['n'] * a.inner + [f'v{i}'] * a.table)})" for i, a in enumerate(of.inputs)
    ]
    outputs = ["(n)" if a.inner else "()" for a in of.outputs]
    return f"{','.join(inputs)}->{','.join(outputs)}"


_for_ever: Final[list[_Kept]] = []


def _keep(ufunc: Any, kept: _Kept) -> None:
    """Let ``kept`` live as long as the function, in the member that NumPy has for that.

    If the layout of the function differs from the headers, ``kept`` lives for ever.
    """
    counts = (ctypes.c_int * 3).from_address(id(ufunc) + _COUNTS)
    member = ctypes.c_void_p.from_address(id(ufunc) + _OBJECT)
    if list(counts) != [ufunc.nin, ufunc.nout, ufunc.nargs] or member.value is not None:
        _for_ever.append(kept)
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    member.value = id(kept)
