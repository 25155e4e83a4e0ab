"""Public functions with results equal to NumPy functions to the last bit, by name.

`tracing/numpy_functions.py` maps these names to NumPy functions.
"""

from __future__ import annotations

from typing import Final

#: NumPy's name by the name of the public function, where the names differ
RENAMED: Final = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "conj": "conjugate",
    "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "pow": "power",
}  # fmt: skip
SAME_NAMES: Final = """
    add bitwise_and bitwise_or bitwise_xor cbrt ceil copysign cos cosh divide equal exp exp2 floor
    floor_divide fmod gcd greater greater_equal heaviside hypot isfinite isinf isnan lcm less
    less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    maximum minimum multiply negative nextafter not_equal positive remainder sign signbit sin sinh
    sqrt square subtract tan tanh trunc
"""
#: codes of dtypes in which results differ
REFUSED: Final = {"floor_divide": "efd", "sum": "e", "prod": "e", "mean": "e", "std": "eF",
                   "var": "eF", "cumsum": "e", "cumprod": "e"}  # fmt: skip

#: functions whose results share memory, by name: NumPy's positional parameters, with capitals for
#: operands of one dtype, and after the colon the parameters taken by name
VIEWS: Final = """
    reshape a shape / ravel a / transpose a axes / squeeze a : axis / expand_dims a : axis
    swapaxes a axis1 axis2 / moveaxis a source destination / flip m : axis
"""
#: functions that return a scalar for a result without axes
REDUCTIONS: Final = """
    all a : axis keepdims / any a : axis keepdims / argmax a : axis / argmin a : axis
    count_nonzero a : axis / max a : axis keepdims / mean a : axis keepdims
    min a : axis keepdims / prod a : axis keepdims / std a : axis keepdims
    sum a : axis keepdims / var a : axis keepdims / dot A B
"""
OTHERS: Final = """
    clip A A_MIN A_MAX / concatenate ARRAYS : axis / copy a / cumprod a : axis / cumsum a : axis
    diff a : n axis / flatten a / full_like a fill_value / hstack ARRAYS / ones_like a
    outer A B / repeat a repeats : axis / roll a shift : axis / round a / stack ARRAYS : axis
    take a indices : axis / tile a reps / vstack ARRAYS / where condition X Y / zeros_like a
"""
#: functions for which NumPy computes with integers in double precision
IN_DOUBLE: Final = frozenset({"mean", "std", "var"})
TOTALS: Final = frozenset({"sum", "prod", "cumsum", "cumprod"})
