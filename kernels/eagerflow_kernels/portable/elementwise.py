"""Kernels of the elementwise ops."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import portable

__all__: list[str] = []

Array = Any  # of whatever namespace xp is

# ops that are a function of the array namespace, under the same name or another
for _op, _function in {
    # arithmetic
    "abs": "absolute",
    "add": "add",
    "cbrt": "cbrt",
    "clip": "clip",
    "clip_max": "minimum",
    "clip_min": "maximum",
    "copysign": "copysign",
    "divide": "divide",
    "fmod": "fmod",
    "gcd": "gcd",
    "heaviside": "heaviside",
    "hypot": "hypot",
    "lcm": "lcm",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "multiply",
    "negative": "negative",
    "nextafter": "nextafter",
    "pow": "power",
    "reciprocal": "reciprocal",
    "remainder": "remainder",
    "sign": "sign",
    "sqrt": "sqrt",
    "square": "square",
    "subtract": "subtract",
    # rounding and parts
    "ceil": "ceil",
    "conj": "conj",
    "floor": "floor",
    "imag": "imag",
    "real": "real",
    "trunc": "trunc",
    # exponentials and logarithms
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "log10": "log10",
    "log2": "log2",
    "logaddexp": "logaddexp",
    # trigonometry
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "cos": "cos",
    "cosh": "cosh",
    "sin": "sin",
    "sinh": "sinh",
    "tan": "tan",
    # comparison, logic, bits
    "bitwise_and": "bitwise_and",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "right_shift",
    "bitwise_xor": "bitwise_xor",
    "equal": "equal",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "isfinite": "isfinite",
    "isinf": "isinf",
    "isnan": "isnan",
    "less": "less",
    "less_equal": "less_equal",
    "logical_and": "logical_and",
    "logical_not": "logical_not",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "not_equal": "not_equal",
    "signbit": "signbit",
}.items():
    portable(_op, _function)


@portable("cast")
def cast(xp: Any, x: Array, *, dtype: Any) -> Array:
    """Convert to ``dtype.dtype``; the imaginary part is dropped, but counts for bool."""
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
    """To the nearest integer, ties to even."""
    return xp.round(x) if x.dtype.kind == "c" else xp.rint(x)


@portable("rsqrt")
def rsqrt(xp: Any, x: Array) -> Array:
    """1 / sqrt(x)."""
    return xp.reciprocal(xp.sqrt(x))


@portable("floor_divide")
def floor_divide(xp: Any, x1: Array, x2: Array) -> Array:
    """The floor of the quotient; infinities as the array API demands, unlike NumPy."""
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
        real += 0.0  # the standard wants 0, not -0, for -0 + 0j
    return out


@portable("log1p")
def log1p(xp: Any, x: Array) -> Array:
    """log(1 + x); complex numbers near 0 keep their precision, which NumPy's own do not."""
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
    """The hyperbolic tangent; of infinite complex numbers with the zero that the array API asks."""
    out = xp.asarray(xp.tanh(x))
    if x.dtype.kind == "c":
        far = xp.isinf(x.real) & xp.isfinite(x.imag)
        out.imag = xp.where(far, xp.copysign(0, x.imag), out.imag)
    return out


@portable("nan_to_num")
def nan_to_num(xp: Any, x: Array, *, nan: float, posinf: Any, neginf: Any) -> Array:
    """NaN and infinities replaced."""
    return xp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)
