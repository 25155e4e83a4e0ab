"""Errors of the native functions of one float32, against float64.

Run: ``python -m tests.kernels.native.single_precision exp log``. It prints the largest error among
all 2**32 numbers; that takes some minutes for each function. Without names it takes all functions.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

import numpy as np
from scipy import special

from eagerflow_kernels.native.callable_ops import native_ufunc
from eagerflow_kernels.native.op_rules import name_of
from tests.kernels.native.compiling import same

Array = np.ndarray[Any, Any]
Formula = Callable[[Array], Array]

COUNT: Final = 2**32
#: the error of results that are the floats nearest to the exact ones
ROUNDED: Final = 0.5
_CHUNK: Final = 2**16  # numbers that are computed at once; they stay in the cache
#: the last number before the largest: the distance from that to the next one would overflow
_BEFORE_LARGEST: Final = np.nextafter(np.finfo(np.float32).max, np.float32(0))


@final
@dataclass(frozen=True)
class Function:
    """A native function with its formula in float64.

    Attributes:
        name: of the op.
        exact: the formula; NumPy's and SciPy's errors are negligible beside an ulp of float32.
        limit: the largest error, in ulps.
        parity: odd and even functions are so to the last bit; half of all numbers are compared.
        attributes: arguments of the rule of the op.
        numbers: further arguments, the same for all numbers.
        size: a formula of the size of the largest term, in whose ulps errors count: where terms
            cancel the result has few digits, or none. By default the size of the result.
    """

    name: str
    exact: Formula
    limit: float = 2.0
    parity: Literal["odd", "even", "none"] = "none"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    numbers: tuple[np.float32, ...] = ()
    size: Formula | None = None

    @property
    def called(self) -> str:
        """The name with attributes, such as ``silu_f32_1``."""
        return name_of(self.name, "f32", **self.attributes)

    def values(self, x: Array) -> Array:
        """The results of the native kernel."""
        made: Array = native_ufunc(self.name, "f32", **self.attributes)(x, *self.numbers)
        return made

    @property
    def count(self) -> int:
        """How many bit patterns are compared, from 0: those without sign are half of all."""
        return COUNT if self.parity == "none" else COUNT // 2


@final
@dataclass(frozen=True)
class Error:
    """The largest error among some numbers.

    Attributes:
        ulps: the error; `ROUNDED` if all results are the nearest floats.
        at: the number that has it.
    """

    ulps: float
    at: float


def largest_error(function: Function, chunks: Iterable[Array]) -> Error:
    """The largest error among numbers.

    Raises:
        AssertionError: NaN or infinity in other places than in float64, or no symmetry.
    """
    worst = Error(ROUNDED, 0.0)
    for x in chunks:
        with np.errstate(all="ignore"):
            one = _error_of_chunk(function, x)
        if one.ulps > worst.ulps:
            worst = one
    return worst


def _error_of_chunk(function: Function, x: Array) -> Error:
    values, wide = function.values(x), x.astype(np.float64)
    if function.parity != "none":
        assert same(function.values(-x), values if function.parity == "even" else -values), x[0]
    exact = function.exact(wide)
    nearest = exact.astype(np.float32)
    differs = values.view(np.uint32) != nearest.view(np.uint32)
    x, values, exact, nearest = (each[differs] for each in (x, values, exact, nearest))
    assert np.array_equal(np.isnan(values), np.isnan(exact)), (function.called, x)
    assert np.array_equal(np.isinf(values), np.isinf(nearest)), (function.called, x)
    finite = np.isfinite(nearest)
    if not finite.any():
        return Error(ROUNDED, 0.0)
    x, values, exact, nearest = (each[finite] for each in (x, values, exact, nearest))
    sizes = np.abs(nearest)
    if function.size is not None:
        sizes = np.maximum(sizes, function.size(x.astype(np.float64)).astype(np.float32))
    unit = np.spacing(np.minimum(sizes, _BEFORE_LARGEST)).astype(np.float64)
    errors = np.abs(values.astype(np.float64) - exact) / unit
    at = int(np.argmax(errors))
    return Error(float(errors[at]), float(x[at]))


def every(end: int, step: int = 1) -> Iterator[Array]:
    """Each ``step``-th of the numbers whose bit patterns are below ``end``, in chunks."""
    for first in range(0, end, _CHUNK * step):
        stop = min(first + _CHUNK * step, end)
        yield np.arange(first, stop, step, dtype=np.uint32).view(np.float32)


def one_of_each(block: int, end: int, rng: np.random.Generator) -> Iterator[Array]:
    """A random one of each ``block`` neighbours: as many of each exponent and each sign."""
    for first in range(0, end, _CHUNK * block):
        starts = np.arange(first, min(first + _CHUNK * block, end), block, dtype=np.uint32)
        yield (starts + rng.integers(0, block, len(starts), dtype=np.uint32)).view(np.float32)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    made: Array = np.where(x < 0, e, 1) / (1 + e)
    return made


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _silu_slope(x: Array) -> Array:
    made: Array = _sigmoid(x) * (1 + x * _sigmoid(-x))
    return made


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu(x: Array) -> Array:
    made: Array = x * special.ndtr(x)
    return made


def _of_bell(x: Array) -> Array:
    """What the derivative of GELU adds to the normal distribution function."""
    x = np.clip(x, -40, 40)
    made: Array = x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return made


def _gelu_slope(x: Array) -> Array:
    made: Array = special.ndtr(x) + _of_bell(x)
    return made


def _gelu_by_tanh(x: Array) -> Array:
    made: Array = x * _sigmoid(2 * _SCALE * (x + _CUBIC * x**3))
    return made


def _steepness(x: Array) -> Array:
    return _SCALE * (1 + 3 * _CUBIC * x * x)


def _gelu_by_tanh_slope(x: Array) -> Array:
    x = np.clip(x, -30, 30)
    s = _sigmoid(2 * _SCALE * (x + _CUBIC * x**3))
    made: Array = s + 2 * x * s * (1 - s) * _steepness(x)
    return made


def _of_tanh_slope(x: Array) -> Array:
    """The size of 1 + tanh, or of what is multiplied by 1 - tanh**2, which is 0 beyond 10."""
    x = np.clip(np.abs(x), 0, 10)
    made: Array = np.maximum(1, x * _steepness(x) / 2)
    return made


def _with_order(
    name: str, formulas: tuple[Formula, Formula], sizes: tuple[Formula | None, Formula], **more: str
) -> list[Function]:
    """A function and its derivative."""
    pairs = enumerate(zip(formulas, sizes, strict=True))
    return [
        Function(name, exact, attributes={**more, "order": order}, size=size)
        for order, (exact, size) in pairs
    ]


_SCALE: Final = math.sqrt(2 / math.pi)
_CUBIC: Final = 0.044715
_SLOPE: Final = np.float32(0.01)
_ALPHA: Final = np.float32(1.5)
_ENDS: Final = np.float32(-1.5), np.float32(2.5)
_ALMOST: Final = 0.51  # computed in float64, and rounded

_FUNCTIONS: Final = (
    Function("negative", np.negative, ROUNDED),
    Function("abs", np.abs, ROUNDED),
    Function("square", np.square, ROUNDED, "even"),
    Function("reciprocal", np.reciprocal, ROUNDED, "odd"),
    Function("sqrt", np.sqrt, ROUNDED),
    Function("rsqrt", lambda x: 1 / np.sqrt(x)),
    Function("sign", np.sign, ROUNDED),
    Function("round", np.round, ROUNDED),
    Function("floor", np.floor, ROUNDED),
    Function("ceil", np.ceil, ROUNDED),
    Function("trunc", np.trunc, ROUNDED),
    Function("relu", lambda x: np.maximum(x, 0), ROUNDED),
    Function("leaky_relu", lambda x: np.where(x > 0, x, x * _SLOPE), ROUNDED, numbers=(_SLOPE,)),
    Function("hardtanh", lambda x: np.clip(x, *_ENDS), ROUNDED, numbers=_ENDS),
    Function("elu", lambda x: np.where(x > 0, x, np.expm1(x) * _ALPHA), numbers=(_ALPHA,)),
    *_with_order("silu", (_silu, _silu_slope), (None, lambda x: np.abs(_silu(x)))),
    *_with_order("gelu", (_gelu, _gelu_slope), (None, _of_bell), approximate="none"),
    # half of x (1 + tanh), which has no digits left where tanh is almost -1
    *_with_order(
        "gelu", (_gelu_by_tanh, _gelu_by_tanh_slope), (np.abs, _of_tanh_slope), approximate="tanh"
    ),
    Function("exp", np.exp, 1.0),
    Function("expm1", np.expm1, 1.1),
    Function("exp2", np.exp2),
    Function("log", np.log, 1.0),
    Function("log1p", np.log1p, 1.5),
    Function("log2", np.log2),
    Function("log10", np.log10, _ALMOST),
    Function("sigmoid", _sigmoid, 1.0),
    Function("softplus", _softplus),
    Function("erf", special.erf, 1.0, "odd"),
    Function("erfc", special.erfc),
    Function("sin", np.sin, parity="odd"),
    Function("cos", np.cos, parity="even"),
    Function("tan", np.tan, parity="odd"),
    Function("asin", np.arcsin, _ALMOST, "odd"),
    Function("acos", np.arccos, _ALMOST),
    Function("atan", np.arctan, _ALMOST, "odd"),
    Function("sinh", np.sinh, _ALMOST, "odd"),
    Function("cosh", np.cosh, parity="even"),
    Function("tanh", np.tanh, 1.0, "odd"),
    Function("asinh", np.arcsinh, _ALMOST, "odd"),
    Function("acosh", np.arccosh, _ALMOST),
    Function("atanh", np.arctanh, _ALMOST, "odd"),
    Function("cbrt", np.cbrt, _ALMOST, "odd"),
)


FUNCTIONS: Final[dict[str, Function]] = {f.called: f for f in _FUNCTIONS}


def main() -> None:
    """Print a table of the largest errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of functions, such as exp, silu_f32_1")
    parser.add_argument("--step", type=int, default=1, help="take each STEP-th number only")
    options = parser.parse_args()
    print("| function | largest error | at | limit | time |\n|---|---|---|---|---|")
    for called, function in FUNCTIONS.items():
        if options.names and not {called, function.name} & {*options.names}:
            continue
        start = time.perf_counter()
        error = largest_error(function, every(function.count, options.step))
        spent = time.perf_counter() - start
        print(
            f"| {called} | {error.ulps:.4f} ulp | {error.at.hex()} | {function.limit} | "
            f"{spent:.0f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
