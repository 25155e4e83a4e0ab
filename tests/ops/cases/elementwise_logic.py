"""Cases of comparison, logic, bit operations, predicates of numbers, and closeness."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.case import (
    ALL,
    BOOL,
    BYTES,
    COMPLEX,
    FLOAT8,
    FLOATING,
    INTEGER,
    REAL,
    OpCase,
    Sample,
)
from tests.ops.cases.elementwise import REALS, binary, one, two
from tests.ops.loops import loop

_TRUTH = "the result is bool"
_WHOLE = "integers have no derivative"


def _some_equal(s: Sample) -> tuple[Any, ...]:
    """Numbers of which about half are equal."""
    a, b = s.array(), s.array()
    return a, np.where(s.rng.random(a.shape) < 0.5, a, b).astype(a.dtype)


def compared(name: str, function: Any, dtypes: tuple[str, ...]) -> list[OpCase]:
    """The rows of a comparison function."""
    return binary(name, loop(function), _some_equal, dtypes=dtypes, no_grad=_TRUTH, specials=True)


def logical(name: str, function: Any) -> list[OpCase]:
    """The rows of a logical function of two arrays."""
    reference = loop(lambda a, b: function(bool(a), bool(b)))
    return binary(name, reference, two(-1, 1), dtypes=ALL, no_grad=_TRUTH)


def bits(name: str, function: Any, dtypes: tuple[str, ...] = BOOL + INTEGER) -> list[OpCase]:
    """The rows of a function on bits."""
    return binary(name, loop(function), two(0, 4), dtypes=dtypes, no_grad=_WHOLE)


def question(name: str, function: Any, dtypes: tuple[str, ...] = ALL + FLOAT8) -> OpCase:
    """The row of a predicate of one number."""
    return OpCase(name, one(), loop(function), dtypes=dtypes, no_grad=_TRUTH, specials=True)


def _parts(function: Any) -> Any:
    return lambda x: function(x.real) or function(x.imag) if isinstance(x, complex) else function(x)


def _close(a: float, b: float, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    if a != a or b != b or math.inf in (abs(a), abs(b)):
        return a == b
    return abs(a - b) <= atol + rtol * abs(b)


def _nearly(s: Sample) -> tuple[Any, ...]:
    """Pairs of numbers of which some differ a little, some a lot."""
    a, b = _some_equal(s)
    return a, b + np.where(s.rng.random(a.shape) < 0.5, 0, 0.05).astype(b.dtype)


CASES = [
    *compared("equal", lambda a, b: a == b, ALL + FLOAT8 + BYTES),
    *compared("not_equal", lambda a, b: a != b, ALL + FLOAT8 + BYTES),
    *compared("less", lambda a, b: a < b, BOOL + REAL),
    *compared("less_equal", lambda a, b: a <= b, BOOL + REAL),
    *compared("greater", lambda a, b: a > b, BOOL + REAL),
    *compared("greater_equal", lambda a, b: a >= b, BOOL + REAL),
    *logical("logical_and", lambda a, b: a and b),
    *logical("logical_or", lambda a, b: a or b),
    *logical("logical_xor", lambda a, b: a != b),
    question("logical_not", lambda a: not a),
    *bits("bitwise_and", lambda a, b: a & b),
    *bits("bitwise_or", lambda a, b: a | b),
    *bits("bitwise_xor", lambda a, b: a ^ b),
    *bits("bitwise_left_shift", lambda a, b: a << b, INTEGER),
    *bits("bitwise_right_shift", lambda a, b: a >> b, INTEGER),
    OpCase("bitwise_right_shift", two(-9, 9, (0, 4)), loop(lambda a, b: a >> b),
           dtypes=("int8", "int64"), no_grad=_WHOLE, label="negative"),
    OpCase("bitwise_invert", one(), loop(lambda a: not a), dtypes=BOOL, no_grad=_TRUTH,
           label="bool"),
    OpCase("bitwise_invert", one(), loop(lambda a: ~a), dtypes=("int8", "int64"), no_grad=_WHOLE),
    OpCase("bitwise_invert", one(0, 9), loop(lambda a: 255 - a), dtypes=("uint8",), no_grad=_WHOLE,
           label="unsigned"),
    question("isfinite", lambda x: math.isfinite(abs(x))),
    question("isinf", _parts(math.isinf)),
    question("isnan", _parts(math.isnan)),
    question("signbit", lambda x: math.copysign(1, x) < 0, REALS),
    OpCase("isclose", _nearly, loop(_close), dtypes=FLOATING + COMPLEX, no_grad=_TRUTH,
           ops=("less_equal",), specials=True),
    OpCase("isclose", _nearly, loop(_close), kwargs={"rtol": 0.1, "atol": 0.0},
           dtypes=("float64", "int64"), no_grad=_TRUTH, ops=("less_equal",), label="wide"),
    OpCase("allclose", _nearly, lambda a, b: np.asarray(all(loop(_close)(a, b).ravel().tolist())),
           no_grad=_TRUTH, ops=("all",)),
    OpCase("array_equal", _some_equal, lambda a, b: np.asarray(a.tolist() == b.tolist()),
           no_grad=_TRUTH, ops=("all",)),
]  # fmt: skip
