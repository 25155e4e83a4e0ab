"""Elementwise ops: sign, magnitude, rounding, the parts of complex numbers."""

from __future__ import annotations

from typing import Any

from eagerflow.core.op import Op, bind, define, functions
from eagerflow.core.op_records.op_facts import ELEMENTWISE, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.ops.elementwise.arithmetic import positive
from eagerflow.ops.elementwise.logic import isfinite
from eagerflow.ops.rules.gradients import conjugate as _conjugate
from eagerflow.ops.rules.gradients import safe_quotient, sum_to_like, where
from eagerflow.ops.rules.promotion import cast, known_number, pair, promote_floating
from eagerflow.ops.rules.remedies import SLOPE_OF_ROOT
from eagerflow.ops.rules.type_rules import (
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMERIC,
    binary,
    check_kind,
    elementwise,
    real_dtype,
    unary,
)
from eagerflow.types import TensorType

__all__ = [
    "abs",
    "absolute",
    "ceil",
    "conj",
    "conjugate",
    "copysign",
    "floor",
    "gcd",
    "heaviside",
    "hypot",
    "imag",
    "lcm",
    "nan_to_num",
    "nextafter",
    "real",
    "round",
    "sign",
    "trunc",
]

# --- sign and magnitude ---------------------------------------------------------------------


@of_family(ELEMENTWISE)
def _magnitude_type(x: TensorType) -> TensorType:
    check_kind(x, NUMERIC)
    return x.like(dtype=real_dtype(x.dtype))


_abs = define(
    "abs",
    infer=_magnitude_type,
    vjp=(lambda g, out, x: g * sign(x),),
    saved="inputs",
    fails_on="nothing",
    ieee=True,
    idempotent=True,
)


def abs(x: TensorLike, /) -> Tensor:
    """The magnitude of each element; its derivative is 0 at 0.

    Args:
        x: numeric; for complex numbers, the result is real.

    >>> ef.abs(ef.tensor([1.0, -2.0]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    return bind(_abs, tensor_of(x))


absolute = abs


def _sign_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor | None:
    """For complex x, the sign rotates with the component of the change perpendicular to x."""
    if not x.dtype.is_complex:
        return None
    along = real(_conjugate(g) * out) * out
    return safe_quotient(g - along, abs(x))


_sign = unary("sign", NUMERIC, _sign_vjp)


def sign(x: TensorLike, /) -> Tensor:
    """-1, 0 or 1 for negative, zero and positive elements; for complex numbers x / abs(x).

    Args:
        x: numeric.

    >>> ef.sign(ef.tensor([3.0, 0.0, -2.0]))
    Tensor([ 1.,  0., -1.], f32[3]@cpu:0)
    """
    return bind(_sign, tensor_of(x))


_copysign = binary(
    "copysign", FLOATING, lambda g, out, x1, x2: sum_to_like(g * (sign(x1) * sign(out)), x1), None
)


def copysign(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The magnitude of ``x1`` with the sign of ``x2``.

    Args:
        x1: floating, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.copysign(ef.tensor([1.0, 2.0]), ef.tensor([-3.0, 0.0]))
    Tensor([-1.,  2.], f32[2]@cpu:0)
    """
    return bind(_copysign, *promote_floating(x1, x2))


def _part(x: Tensor, hypotenuse: Tensor) -> Tensor:
    """The quotient x / hypotenuse, 0 where both are 0."""
    return x / where(hypotenuse == 0, 1.0, hypotenuse)


_hypot = binary(
    "hypot",
    FLOATING,
    lambda g, out, x1, x2: sum_to_like(g * _part(x1, out), x1),
    lambda g, out, x1, x2: sum_to_like(g * _part(x2, out), x2),
    gradient_remedy=SLOPE_OF_ROOT,
)


def hypot(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """sqrt(x1**2 + x2**2), without overflow; its derivative is 0 at 0.

    Args:
        x1: floating, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.hypot(ef.tensor([3.0, 6.0]), ef.tensor([4.0, 8.0]))
    Tensor([ 5., 10.], f32[2]@cpu:0)
    """
    return bind(_hypot, *promote_floating(x1, x2))


_heaviside = binary(
    "heaviside",
    FLOATING,
    None,
    lambda g, out, x1, x2: sum_to_like(where(x1 == 0, g, 0.0), x2),
    saved="inputs",
)


def heaviside(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """0 where ``x1`` is negative, 1 where it is positive, ``x2`` where it is 0.

    Args:
        x1: floating, integers count as float32; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.heaviside(ef.tensor([-3.0, 0.0, 2.0]), 0.5)
    Tensor([0. , 0.5, 1. ], f32[3]@cpu:0)
    """
    return bind(_heaviside, *promote_floating(x1, x2))


_nextafter = define(
    "nextafter", infer=elementwise(FLOATING), nondifferentiable=True, precision="exact"
)


def nextafter(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The next number after ``x1`` in its dtype, towards ``x2``.

    Args:
        x1: floating; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.nextafter(ef.tensor(1.0), 2.0) - 1.0
    Tensor(1.1920929e-07, f32[]@cpu:0)
    """
    return bind(_nextafter, *pair(x1, x2))


# --- rounding -------------------------------------------------------------------------------

_ceil = define("ceil", infer=elementwise(FLOATING), vjp=(None,), idempotent=True)


def ceil(x: TensorLike, /) -> Tensor:
    """Each element rounded towards positive infinity.

    Args:
        x: real; integers are returned unchanged.

    >>> ef.ceil(ef.tensor([1.2, -1.2]))
    Tensor([ 2., -1.], f32[2]@cpu:0)
    """
    return _rounded(_ceil, x)


_floor = define("floor", infer=elementwise(FLOATING), vjp=(None,), idempotent=True)


def floor(x: TensorLike, /) -> Tensor:
    """Each element rounded towards negative infinity.

    Args:
        x: real; integers are returned unchanged.

    >>> ef.floor(ef.tensor([1.2, -1.2]))
    Tensor([ 1., -2.], f32[2]@cpu:0)
    """
    return _rounded(_floor, x)


_trunc = define("trunc", infer=elementwise(FLOATING), vjp=(None,), idempotent=True)


def trunc(x: TensorLike, /) -> Tensor:
    """Each element rounded towards zero.

    Args:
        x: real; integers are returned unchanged.

    >>> ef.trunc(ef.tensor([1.7, -1.7]))
    Tensor([ 1., -1.], f32[2]@cpu:0)
    """
    return _rounded(_trunc, x)


_round = define("round", infer=elementwise(INEXACT), vjp=(None,), idempotent=True)


def round(x: TensorLike, /, decimals: int = 0) -> Tensor:
    """Each element rounded to the nearest integer, ties to even.

    Args:
        x: numeric; integers stay integers. For complex numbers, both parts are rounded.
        decimals: number of digits after the point to round to; -1 rounds to tens.

    >>> ef.round(ef.tensor([1.5, 2.5, -1.7]))
    Tensor([ 2.,  2., -2.], f32[3]@cpu:0)
    """
    x = tensor_of(x)
    if x._lane.dtype.is_integer and decimals:
        return positive(x) if decimals > 0 else _rounded_integer(x, 10**-decimals)
    if decimals > 0:
        return _rounded(_round, x * 10.0**decimals) / 10.0**decimals
    if decimals < 0:
        return _rounded(_round, x / 10.0**-decimals) * 10.0**-decimals
    return _rounded(_round, x)


def _rounded(op: Op, x: TensorLike) -> Tensor:
    tensor = tensor_of(x)
    if tensor._lane.dtype.is_integer:
        return positive(tensor)
    return bind(op, tensor)


def _rounded_integer(x: Tensor, step: int) -> Tensor:
    """Integers rounded to multiples of ``step``, ties to even multiples, without a float."""
    bits = 8 * x.dtype.itemsize - (x.dtype.category == "signed integer")
    if step >= 2**bits:
        return x * 0
    count = x // step
    rest = x - count * step
    missing = step - rest  # not 2 * rest, which may be past the range
    up = (rest > missing) | ((rest == missing) & (count % 2 == 1))
    return (count + cast(up, x.dtype)) * step


# --- parts of complex numbers ---------------------------------------------------------------

_conj = unary("conj", COMPLEX, lambda g, out, x: conj(g), saved="none", involution=True)


def conj(x: TensorLike, /) -> Tensor:
    """The complex conjugate of each element.

    Args:
        x: numeric; for a real ``x``, the same values.

    >>> ef.conj(ef.tensor([1 + 2j]))
    Tensor([1.-2.j], c64[1]@cpu:0)
    """
    tensor = tensor_of(x)
    if not tensor._lane.dtype.is_complex:
        return positive(tensor)
    return bind(_conj, tensor)


conjugate = conj


@of_family({"saved": "none", "fails_on": "nothing", "elementwise": True, "storage": "either"})
def _part_type(x: TensorType) -> TensorType:
    check_kind(x, COMPLEX)
    return x.like(dtype=real_dtype(x.dtype))


_real = define("real", infer=_part_type, vjp=(lambda g, out, x: cast(g, x.dtype),))


def real(x: TensorLike, /) -> Tensor:
    """The real part of each element.

    Args:
        x: any dtype; if it is not complex, the same values.

    >>> ef.real(ef.tensor([1 + 2j]))
    Tensor([1.], f32[1]@cpu:0)
    """
    tensor = tensor_of(x)
    dtype = tensor._lane.dtype
    if dtype.is_complex:
        return bind(_real, tensor)
    # of bools, too: Python asks hasattr(x, "real") of protocols, as xarray does of each array
    return positive(tensor) if dtype.is_integer or dtype.is_inexact else functions["copy"](tensor)


_imag = define("imag", infer=_part_type, vjp=(lambda g, out, x: cast(g, x.dtype) * 1j,))


def imag(x: TensorLike, /) -> Tensor:
    """The imaginary part of each element.

    Args:
        x: numeric; for a real ``x``, zeros.

    >>> ef.imag(ef.tensor([1 + 2j]))
    Tensor([2.], f32[1]@cpu:0)
    """
    tensor = tensor_of(x)
    if not tensor._lane.dtype.is_complex:
        return functions["zeros_like"](tensor)
    return bind(_imag, tensor)


# --- NaN and infinities ---------------------------------------------------------------------


def _finite_part(g: Tensor, x: Tensor) -> Tensor:
    """``g`` where ``x`` is finite, for each part of complex numbers."""
    if not x.dtype.is_complex:
        return where(isfinite(x), g, 0.0)
    parts = [where(isfinite(part(x)), part(g), 0.0) for part in (real, imag)]
    return parts[0] + cast(parts[1], x.dtype) * 1j


_nan_to_num = unary(
    "nan_to_num", INEXACT, lambda g, out, x, **replacements: _finite_part(g, x), saved="inputs"
)


def nan_to_num(
    x: TensorLike,
    /,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Replace NaN and infinities by numbers.

    Args:
        x: numeric; integers are returned unchanged. Parts of complex numbers are replaced
            separately.
        nan: replacement of NaN.
        posinf: replacement of infinity; by default the largest number of the dtype.
        neginf: replacement of negative infinity; by default the smallest number of the dtype.

    >>> ef.nan_to_num(ef.tensor([1.0, float("nan"), float("-inf")]), neginf=-9.0)
    Tensor([ 1.,  0., -9.], f32[3]@cpu:0)
    """
    tensor = tensor_of(x)
    if not tensor._lane.dtype.is_inexact:
        return positive(tensor)
    limits: Any = functions["finfo"](tensor._lane.dtype)
    largest = float(limits.max)
    return bind(
        _nan_to_num,
        tensor,
        nan=known_number(nan),
        posinf=largest if posinf is None else known_number(posinf),
        neginf=-largest if neginf is None else known_number(neginf),
    )


# --- divisors -------------------------------------------------------------------------------

_gcd = define("gcd", infer=elementwise(INTEGER), vjp=(None, None))


def gcd(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The greatest common divisor of two arrays, element by element.

    Args:
        x1: integer; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.gcd(ef.tensor([12, 7]), 18)
    Tensor([6, 1], i64[2]@cpu:0)
    """
    return bind(_gcd, *pair(x1, x2))


_lcm = define("lcm", infer=elementwise(INTEGER), vjp=(None, None))


def lcm(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The least common multiple of two arrays, element by element.

    Args:
        x1: integer; broadcasts against ``x2``.
        x2: likewise; both promote to one dtype.

    >>> ef.lcm(ef.tensor([4, 7]), 6)
    Tensor([12, 42], i64[2]@cpu:0)
    """
    return bind(_lcm, *pair(x1, x2))
