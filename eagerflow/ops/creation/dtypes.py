"""Dtypes: conversion of arrays, promotion, kinds and limits. Moves: `device_moves`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import ml_dtypes

from eagerflow.core.interpreter import BASE, use
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.errors import DTypeError, TensorValueError
from eagerflow.ops.creation.arrays import zeros
from eagerflow.ops.creation.device_moves import to_device
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.ops.rules.promotion import cast, is_python_number, promoted_dtype
from eagerflow.ops.rules.type_rules import COMPLEX, FLOATING, INTEGER, NUMERIC
from eagerflow.types import DTYPES, DType, DTypeLike, as_dtype, promote_dtypes

# the package has no types
_finfo: Any = ml_dtypes.finfo
_iinfo: Any = ml_dtypes.iinfo

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

# --- conversion -----------------------------------------------------------------------------


def astype(
    x: TensorLike, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike = None
) -> Tensor:
    """``x`` with another dtype.

    Floats are rounded towards zero to become integers; nonzero numbers become True.

    Args:
        x: any dtype.
        dtype: dtype of the result.
        copy: whether to copy even if ``x`` has the dtype.
        device: device of the result; by default that of ``x``.

    Raises:
        DTypeError: complex numbers are converted to a real dtype.

    >>> ef.astype(ef.tensor([1.7, -1.7]), ef.int32)
    Tensor([ 1, -1], i32[2]@cpu:0)
    """
    before = tensor_of(x)
    wanted = as_dtype(dtype)
    if before.dtype.is_complex and not (wanted.is_complex or wanted.category == "bool"):
        raise DTypeError(
            f"astype: complex numbers do not become {wanted.name}",
            given=str(before.type),
            hint="take ef.real(x), ef.imag(x) or ef.abs(x) first",
        )
    result = cast(before, wanted)
    if device is not None:
        result = to_device(result, device)
    if copy and result is before:
        result = functions["copy"](result)
    return result


# --- inspection -----------------------------------------------------------------------------


def _dtype_of(value: Any) -> DType:
    """The dtype of an array, or the dtype that ``value`` names."""
    if isinstance(value, DType):
        return value
    if isinstance(value, AbstractArray):
        return value.dtype
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type):
        # a dtype of NumPy has a shape as well, but no dtype
        return as_dtype(value.dtype)
    return as_dtype(value)


def result_type(*arrays_and_dtypes: TensorLike | DTypeLike) -> DType:
    """The dtype that arrays, dtypes and Python numbers promote to together.

    Args:
        arrays_and_dtypes: at least one array or dtype. Python numbers are weak: they change only
            the kind.

    Raises:
        DTypeError: there is no common dtype, or there is neither an array nor a dtype.

    >>> ef.result_type(ef.int8, ef.tensor([1], dtype=ef.int16), 3)
    int16
    """
    weak: list[Any] = [v for v in arrays_and_dtypes if is_python_number(v)]
    strong = [_dtype_of(v) for v in arrays_and_dtypes if not is_python_number(v)]
    if not strong:
        raise DTypeError("result_type: needs at least one array or dtype")
    joint = promote_dtypes(*strong)
    if not weak:
        return joint
    # promotion reads only dtypes, so tensors without data stand for them, outside of any trace
    with use(BASE):
        stand_in = zeros((), dtype=joint, device="null:0")
    return promoted_dtype([stand_in, *weak])


def can_cast(from_: TensorLike | DTypeLike, to: DTypeLike, /) -> bool:
    """Whether a dtype converts to another by promotion.

    Args:
        from_: a dtype or an array.
        to: a dtype.

    >>> ef.can_cast(ef.int8, ef.int16), ef.can_cast(ef.int16, ef.int8)
    (True, False)
    """
    target = as_dtype(to)
    try:
        return promote_dtypes(_dtype_of(from_), target) is target
    except DTypeError:
        return False


_KINDS: Final[dict[str, frozenset[str]]] = {
    **{kind: frozenset({kind}) for kind in ("bool", "signed integer", "unsigned integer")},
    "integral": INTEGER,
    "real floating": FLOATING,
    "complex floating": COMPLEX,
    "numeric": NUMERIC,
}


def dtypes_of(kind: Any) -> frozenset[DType]:
    """The set of dtypes of a kind, of several kinds, or of dtypes given as such.

    Raises:
        TensorValueError: the kind is unknown.
    """
    if isinstance(kind, tuple):
        return frozenset(d for one in kind for d in dtypes_of(one))
    if not isinstance(kind, str):
        return frozenset({as_dtype(kind)})
    if kind not in _KINDS:
        raise TensorValueError(f"{kind!r} is not a kind of dtype", expected=", ".join(_KINDS))
    return frozenset(d for d in DTYPES.values() if d.category in _KINDS[kind])


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Whether a dtype is of a kind.

    The 16- and 8-bit floats are ``"real floating"``.

    Args:
        dtype: a dtype.
        kind: a dtype; ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
            ``"real floating"``, ``"complex floating"`` or ``"numeric"``; or a tuple of such.

    Raises:
        TensorValueError: the kind is unknown.

    >>> ef.isdtype(ef.uint8, "integral"), ef.isdtype(ef.uint8, (ef.int8, "real floating"))
    (True, False)
    """
    return as_dtype(dtype) in dtypes_of(kind)


@final
@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a floating dtype, or of the components of a complex dtype.

    Attributes:
        bits: number of bits per element.
        eps: the distance from 1.0 to the next larger number.
        max: the largest finite number.
        min: the smallest finite number.
        smallest_normal: the smallest positive number with full precision.
        dtype: the real dtype.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@final
@dataclass(frozen=True, slots=True)
class IntInfo:
    """The limits of an integer dtype.

    Attributes:
        bits: number of bits per element.
        max: the largest number.
        min: the smallest number.
        dtype: the dtype.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: TensorLike | DTypeLike, /) -> FloatInfo:
    """The limits of a floating or complex dtype.

    Args:
        type: a dtype or an array.

    Raises:
        DTypeError: the dtype is neither floating nor complex.

    >>> ef.finfo(ef.float32).max
    3.4028234663852886e+38
    """
    dtype = _dtype_of(type)
    if not dtype.is_inexact:
        raise DTypeError(f"finfo: {dtype.name} is not a floating dtype")
    if dtype.is_complex:
        dtype = DTYPES["float64" if dtype.itemsize == 16 else "float32"]
    info = _finfo(dtype.dtype)
    eps, most, least, normal = map(float, (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(8 * dtype.itemsize, eps, most, least, normal, dtype)


def iinfo(type: TensorLike | DTypeLike, /) -> IntInfo:
    """The limits of an integer dtype.

    Args:
        type: a dtype or an array.

    Raises:
        DTypeError: the dtype is not an integer dtype.

    >>> ef.iinfo(ef.int8).max
    127
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo: {dtype.name} is not an integer dtype")
    info = _iinfo(dtype.dtype)
    return IntInfo(info.bits, int(info.max), int(info.min), dtype)
