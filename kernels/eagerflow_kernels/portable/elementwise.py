"""Kernels of elementwise ops."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import Array, portable

# ops that are a function of the array namespace, under the same name
for _op in (
    # arithmetic
    "add", "cbrt", "clip", "copysign", "divide", "fmod", "gcd", "heaviside", "hypot", "lcm",
    "maximum", "minimum", "multiply", "negative", "nextafter", "reciprocal", "remainder", "sign",
    "sqrt", "square", "subtract",
    # rounding and parts
    "ceil", "conj", "floor", "imag", "real", "trunc",
    # exponentials and logarithms
    "exp", "exp2", "log", "log10", "log2", "logaddexp",
    # trigonometry
    "cos", "cosh", "sin", "sinh", "tan",
    # comparison, logic, bits
    "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "greater", "greater_equal", "isfinite",
    "isinf", "isnan", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor", "nan_to_num", "not_equal", "signbit",
):  # fmt: skip
    portable(_op, _op)

# ops that are a function of the array namespace under another name
for _op in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh"):
    portable(_op, f"arc{_op[1:]}")
for _op in ("invert", "left_shift", "right_shift"):
    portable(f"bitwise_{_op}", _op)
portable("abs", "absolute")
portable("clip_max", "minimum")
portable("clip_min", "maximum")
portable("pow", "power")


@portable("cast")
def cast(xp: Any, x: Array, *, dtype: Any) -> Array:
    """Convert to ``dtype.dtype``; the imaginary part is dropped, except that bool tests it, too."""
    target = dtype.dtype
    if x.dtype.kind == "c" and target.kind not in "cb":
        x = x.real
    return x.astype(target)


@portable("positive")
def positive(xp: Any, x: Array) -> Array:
    """The same value."""
    return x


@portable("round")
def round(xp: Any, x: Array) -> Array:
    """The nearest integer, ties to even."""
    return xp.round(x) if x.dtype.kind == "c" else xp.rint(x)


@portable("rsqrt")
def rsqrt(xp: Any, x: Array) -> Array:
    """1 / sqrt(x)."""
    return xp.reciprocal(xp.sqrt(x))


@portable("floor_divide")
def floor_divide(xp: Any, x1: Array, x2: Array) -> Array:
    """The floor of the quotient; infinities as the array API requires, unlike NumPy."""
    out = xp.floor_divide(x1, x2)
    if out.dtype.kind == "f":
        out = xp.where(xp.isinf(x1) | xp.isinf(x2), xp.floor(xp.divide(x1, x2)), out)
    return out


@portable("expm1")
def expm1(xp: Any, x: Array) -> Array:
    """exp(x) - 1; infinities and NaN in complex numbers as for exp, unlike NumPy."""
    out = xp.expm1(x)
    if out.dtype.kind == "c":
        out = xp.where(xp.isfinite(x), out, xp.exp(x) - 1)
        real = out.real
        real += 0.0  # the standard requires 0, not -0, for -0 + 0j
    return out


@portable("log1p")
def log1p(xp: Any, x: Array) -> Array:
    """log(1 + x), accurate for complex numbers near 0, unlike NumPy's."""
    if x.dtype.kind != "c":
        return xp.log1p(x)
    out = xp.log1p(x)
    re, im = x.real, x.imag
    near = xp.hypot(re, im) < 0.5
    with_precision = 0.5 * xp.log1p(xp.where(near, re * (2 + re) + im * im, 0))
    out = xp.asarray(out)
    out.real = xp.where(near, with_precision, out.real)
    return out


@portable("tanh")
def tanh(xp: Any, x: Array) -> Array:
    """The hyperbolic tangent; for infinite complex numbers with the zero of the array API."""
    out = xp.asarray(xp.tanh(x))
    if x.dtype.kind == "c":
        far = xp.isinf(x.real) & xp.isfinite(x.imag)
        out.imag = xp.where(far, xp.copysign(0, x.imag), out.imag)
    return out
