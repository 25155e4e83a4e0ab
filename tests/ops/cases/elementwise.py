"""Cases of arithmetic, sign, rounding, and the parts of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.case import (
    COMPLEX,
    FLOAT8,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMERIC,
    REAL,
    OpCase,
    Sample,
)
from tests.ops.loops import divided, loop

REALS = FLOATING + FLOAT8  # all floating dtypes
_INT = "the result is an integer or bool"
_FLAT = "constant almost everywhere"


def one(low: float = -3.0, high: float = 3.0) -> Any:
    """Makes one array."""
    return lambda s: (s.array(low, high),)


def two(low: float = -3.0, high: float = 3.0, second: tuple[float, float] | None = None) -> Any:
    """Makes two arrays."""
    return lambda s: (s.array(low, high), s.array(*(second or (low, high))))


def binary(name: str, reference: Any, make: Any = None, **options: Any) -> list[OpCase]:
    """A row for two arrays of one shape, and one for two that broadcast both ways."""
    make = make or two()

    def broadcast(s: Sample) -> tuple[Any, ...]:
        a, b = make(s)
        return a[:, :1], b[:1]

    narrow = {k: v for k, v in options.items() if k != "specials"}
    narrow["dtypes"] = tuple(
        d for d in options["dtypes"] if d in ("int64", "bool", "float32", "float64", "complex128")
    )
    return [
        OpCase(name, make, reference, **options),
        OpCase(name, broadcast, reference, label="broadcast", layouts=("matrix",), **narrow),
    ]


def _sign(x: Any) -> Any:
    if isinstance(x, complex):
        return x / abs(x) if x else 0j
    return x if x != x else (x > 0) - (x < 0)


def _larger(a: Any, b: Any) -> Any:
    return a + b if a != a or b != b else max(a, b)


def _smaller(a: Any, b: Any) -> Any:
    return a + b if a != a or b != b else min(a, b)


def _clip(x: Any, low: Any = None, high: Any = None, **bounds: Any) -> Any:
    low, high = bounds.get("min", low), bounds.get("max", high)
    x = x if low is None else _larger(x, low)
    return x if high is None else _smaller(x, high)


def _whole(function: Any) -> Any:
    """A reference that rounds to an integer by ``function``; infinities and NaN pass."""
    return loop(
        lambda x: x if not math.isfinite(x) else type(x)(function(x)),
        complex_=lambda z: complex(function(z.real), function(z.imag)),
    )


def _halves(s: Sample) -> tuple[Any, ...]:
    """Multiples of 1/2, so that there are ties."""
    x = s.array(-3, 3)
    wide = x.astype(complex if x.dtype.kind == "c" else float)
    return ((np.round(wide * 2) / 2).astype(x.dtype),)


def _next(a: Any, b: Any) -> Any:
    """The neighbour of ``a`` towards ``b``, by counting the bit pattern up or down."""
    bits = np.int64 if a.dtype == np.float64 else np.int32
    out = np.array(a)
    flat, towards = out.reshape(-1), np.broadcast_to(b, out.shape).reshape(-1)
    for i, (x, y) in enumerate(zip(flat.tolist(), towards.tolist(), strict=True)):
        step = 1 if (y > x) == (x > 0) else -1
        flat[i : i + 1] = (flat[i : i + 1].view(bits) + (0 if x == y else step)).view(out.dtype)
    return out


def _unbits(x: Any, nan: float = 0.0, posinf: float = 0.0, neginf: float = 0.0) -> Any:
    if isinstance(x, complex):
        return complex(*(_unbits(v, nan, posinf, neginf) for v in (x.real, x.imag)))
    return nan if x != x else {math.inf: posinf, -math.inf: neginf}.get(x, x)


def _with_lost(s: Sample) -> tuple[Any, ...]:
    """Numbers with NaN and infinities among them."""
    x = s.array().copy()
    for i, value in enumerate((math.nan, math.inf, -math.inf)):
        x.reshape(-1)[i : i + 1] = value
    return (x,)


CASES = [
    *binary("add", loop(lambda a, b: a + b), dtypes=NUMERIC + FLOAT8, grad=(0, 1), specials=True),
    OpCase("add", two(), loop(lambda a, b: a or b), dtypes=("bool",), no_grad=_INT, label="bool"),
    *binary("subtract", loop(lambda a, b: a - b), two(3, 6, (0, 3)), dtypes=NUMERIC + FLOAT8,
            grad=(0, 1), specials=True),
    *binary("multiply", loop(lambda a, b: a * b), dtypes=NUMERIC + FLOAT8, grad=(0, 1),
            specials=True),
    OpCase("multiply", two(), loop(lambda a, b: a and b), dtypes=("bool",), no_grad=_INT,
           label="bool"),
    *binary("divide", loop(divided), two(-3, 3, (1, 3)), dtypes=REALS, grad=(0, 1), specials=True),
    OpCase("divide", two(-3, 3, (1, 3)), loop(divided), dtypes=COMPLEX + INTEGER, grad=(0, 1),
           label="others"),
    *binary("floor_divide", loop(lambda a, b: a // b), two(-3, 3, (1, 3)), dtypes=REAL,
            no_grad=_FLAT),
    *binary("remainder", loop(lambda a, b: a % b), two(-5, 5, (1, 3)), dtypes=REAL, grad=(0, 1)),
    OpCase("remainder", two(-5, 5, (-3, -1)), loop(lambda a, b: a % b), grad=(0, 1),
           label="negative"),
    *binary("fmod", loop(math.fmod), two(-5, 5, (1, 3)), dtypes=REAL, grad=(0, 1)),
    OpCase("negative", one(), loop(lambda a: -a), dtypes=("int8", "int64", *INEXACT, *FLOAT8),
           grad=(0,), specials=True),
    OpCase("positive", one(), loop(lambda a: a), dtypes=NUMERIC + FLOAT8, grad=(0,), specials=True,
           exact=True),
    OpCase("reciprocal", one(0.5, 3), loop(lambda a: divided(1.0, a)), dtypes=REALS, grad=(0,),
           specials=True),
    OpCase("reciprocal", one(0.5, 3), loop(lambda a: 1 / a), dtypes=COMPLEX, grad=(0,),
           label="complex"),
    *binary("maximum", loop(_larger), dtypes=REAL + FLOAT8, grad=(0, 1), specials=True),
    *binary("minimum", loop(_smaller), dtypes=REAL + FLOAT8, grad=(0, 1), specials=True),
    OpCase("clip", lambda s: (s.array(), s.array(-2, -1), s.array(1, 2)), loop(_clip),
           dtypes=("int8", "int64", *REALS), grad=(0, 1, 2), specials=True),
    OpCase("clip", lambda s: (s.array(), s.array(-2, 2, (1, 4))), loop(_clip), dtypes=REAL,
           grad=(0, 1), layouts=("matrix",), label="lower", ops=("clip_min",)),
    OpCase("clip", lambda s: (s.array(), None, 1), lambda x, low, high: loop(_clip)(x, max=1),
           dtypes=REAL, grad=(0,), label="upper", ops=("clip_max",)),
    OpCase("clip", lambda s: (s.array(),), loop(lambda x: x), label="open", grad=(0,),
           ops=("positive",)),
    OpCase("abs", one(), loop(abs), dtypes=NUMERIC + FLOAT8, grad=(0,), specials=True),
    OpCase("sign", one(), loop(_sign), dtypes=REAL + FLOAT8, no_grad=_FLAT, specials=True),
    OpCase("sign", one(), loop(_sign), dtypes=COMPLEX, grad=(0,), label="complex"),
    *binary("copysign", loop(math.copysign), dtypes=REALS, grad=(0,), specials=True),
    *binary("hypot", loop(math.hypot), dtypes=REALS, grad=(0, 1), specials=True),
    *binary("heaviside", loop(lambda a, b: a if a != a else b if a == 0 else float(a > 0)),
            dtypes=REALS, grad=(1,), specials=True),
    OpCase("heaviside", lambda s: (s.array() * 0, s.array()), loop(lambda a, b: b), grad=(1,),
           label="0"),
    OpCase("nextafter", two(), _next, dtypes=("float32", "float64"), exact=True,
           no_grad="it has no derivative"),
    OpCase("ceil", one(), _whole(math.ceil), dtypes=REAL + FLOAT8, no_grad=_FLAT, specials=True),
    OpCase("floor", one(), _whole(math.floor), dtypes=REAL + FLOAT8, no_grad=_FLAT, specials=True),
    OpCase("trunc", one(), _whole(math.trunc), dtypes=REAL + FLOAT8, no_grad=_FLAT, specials=True),
    OpCase("round", _halves, _whole(round), dtypes=NUMERIC + FLOAT8, no_grad=_FLAT),
    OpCase("round", one(-99, 99), loop(lambda x, decimals: round(x, decimals)),
           kwargs={"decimals": 1}, dtypes=("float32", "float64"), no_grad=_FLAT, label="decimals"),
    OpCase("conj", one(), loop(lambda a: a.conjugate()), dtypes=NUMERIC, grad=(0,), specials=True),
    OpCase("real", one(), loop(lambda a: a.real), dtypes=NUMERIC, grad=(0,), specials=True),
    OpCase("imag", one(), loop(lambda a: a.imag), dtypes=NUMERIC, grad=(0,), specials=True),
    OpCase("nan_to_num", one(), loop(lambda x: x), dtypes=INEXACT, grad=(0,)),
    OpCase("nan_to_num", _with_lost, loop(_unbits),
           kwargs={"nan": 1.0, "posinf": 2.0, "neginf": -2.0},
           dtypes=("float16", "float32", "float64", *COMPLEX), label="lost",
           no_grad="checked in test_elementwise: numeric derivatives at NaN are NaN"),
    OpCase("gcd", two(0, 9), loop(math.gcd), dtypes=INTEGER, no_grad=_INT),
    OpCase("lcm", two(0, 9), loop(math.lcm), dtypes=INTEGER, no_grad=_INT),
]  # fmt: skip
