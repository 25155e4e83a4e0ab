"""What ops compute as NumPy does, to the last bit, and in which dtypes: `UFUNCS`, `FUNCTIONS`.

`tests/tracing/test_arrays.py` compares all of it with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor

#: by the name of the public function the name that NumPy has for it, where that is another one
_RENAMED: Final = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "conj": "conjugate",
    "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "pow": "power",
}  # fmt: skip
_SAME_NAMES: Final = """
    add bitwise_and bitwise_or bitwise_xor cbrt ceil copysign cos cosh divide equal exp exp2 floor
    floor_divide fmod gcd greater greater_equal heaviside hypot isfinite isinf isnan lcm less
    less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    maximum minimum multiply negative nextafter not_equal positive remainder sign signbit sin sinh
    sqrt square subtract tan tanh trunc
"""
#: the public functions for NumPy's, which compute the same in the dtypes of NumPy's loops
UFUNCS: Final[dict[Any, str]] = {
    getattr(np, _RENAMED.get(name, name)): name for name in (*_RENAMED, *_SAME_NAMES.split())
}
#: the codes of dtypes in which they do not
REFUSED: Final = {"floor_divide": "efd", "sum": "e", "prod": "e", "mean": "e", "std": "eF",
                   "var": "eF", "cumsum": "e", "cumprod": "e"}  # fmt: skip
#: exponents of ``array ** number`` for which NumPy and the op do the same, by kind of dtype
_POWERS: Final[dict[str, Iterable[int]]] = {"i": range(64), "u": range(64), "f": (1, 2)}

_VIEWS: Final = """
    reshape a shape / ravel a / transpose a axes / squeeze a : axis / expand_dims a : axis
    swapaxes a axis1 axis2 / moveaxis a source destination / flip m : axis
"""
_REDUCTIONS: Final = """
    all a : axis keepdims / any a : axis keepdims / argmax a : axis / argmin a : axis
    count_nonzero a : axis / max a : axis keepdims / mean a : axis keepdims
    min a : axis keepdims / prod a : axis keepdims / std a : axis keepdims
    sum a : axis keepdims / var a : axis keepdims / dot A B
"""
_OTHERS: Final = """
    clip A A_MIN A_MAX / concatenate ARRAYS : axis / copy a / cumprod a : axis / cumsum a : axis
    diff a : n axis / flatten a / full_like a fill_value / hstack ARRAYS / ones_like a
    outer A B / repeat a repeats : axis / roll a shift : axis / round a / stack ARRAYS : axis
    take a indices : axis / tile a reps / vstack ARRAYS / where condition X Y / zeros_like a
"""


class Counterpart(NamedTuple):
    """A public function for one of NumPy.

    Attributes:
        name: of it.
        operands: NumPy's names of the parameters that it takes by position.
        common: the positions of those that are brought to one dtype.
        options: the names of those that it takes by name.
        views: whether NumPy's result shares memory with the array.
        reduces: whether NumPy gives a scalar for a result without axes.
    """

    name: str
    operands: tuple[str, ...]
    common: tuple[bool, ...]
    options: tuple[str, ...]
    views: bool
    reduces: bool


def _counterparts() -> Iterator[Counterpart]:
    """Those of the tables: names of parameters in capitals are of operands of one dtype."""
    for table in (_VIEWS, _REDUCTIONS, _OTHERS):
        for row in table.replace("\n", "/").split("/"):
            if not row.strip():
                continue
            first, _, options = row.partition(":")
            name, *names = first.split()
            yield Counterpart(
                name, tuple(n.lower() for n in names), tuple(n.isupper() for n in names),
                tuple(options.split()), table is _VIEWS, table is _REDUCTIONS,
            )  # fmt: skip


METHODS: Final = {one.name: one for one in _counterparts()}
FUNCTIONS: Final[dict[Any, Counterpart]] = {
    getattr(np, name): one for name, one in METHODS.items() if hasattr(np, name)
}
#: in which NumPy computes the mean of integers, and what it makes of that
_IN_DOUBLE: Final = frozenset({"mean", "std", "var"})
_TOTALS: Final = frozenset({"sum", "prod", "cumsum", "cumprod"})


def accumulator(name: str, dtype: Any) -> Any:
    """The dtype in which NumPy's function of this name computes."""
    if name in _TOTALS:
        return np.sum(np.zeros(1, dtype)).dtype
    return np.dtype("f8") if name in _IN_DOUBLE and dtype.kind in "biu" else dtype


def takes_power(dtype: Any, exponent: Any) -> bool:
    """Whether ``array ** exponent``, a number, is what the op gives: NumPy has ways for some."""
    known = exponent in _POWERS.get(dtype.kind, ())
    return known and (dtype.kind == "f" or type(exponent) is int)


def cast(x: Tensor, dtype: Any) -> Tensor:
    """The elements in a dtype of NumPy."""
    return x if x.dtype.dtype == dtype else functions["astype"](x, dtype)


def _mean(x: Tensor, **options: Any) -> Tensor:
    """NumPy divides by a number of double precision."""
    total = functions["sum"](x, **options)
    count = x.size if total.size == 0 else x.size // total.size
    wide = np.dtype("c16" if x.dtype.is_complex else "f8")
    return cast(cast(total, wide) / count, x.dtype.dtype)


_COMPOSED: Final[dict[str, Callable[..., Tensor]]] = {
    "mean": _mean,
    "flatten": lambda x: functions["copy"](functions["ravel"](x)),
}


def function_of(name: str) -> Callable[..., Tensor]:
    """The public function of that name, or what is composed of some."""
    return _COMPOSED.get(name) or functions[name]
