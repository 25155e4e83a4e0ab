"""Cases of the activations that are ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.case import REAL, OpCase
from tests.ops.cases.elementwise_math import real
from tests.ops.loops import loop


def relu(x: Any) -> Any:
    return x if x > 0 or x != x else 0 * x if x == 0 else type(x)(0)


def elu(x: float, alpha: float = 1.0) -> float:
    return x if x > 0 else alpha * math.expm1(x)


def leaky_relu(x: float, slope: float = 0.01) -> float:
    return x if x > 0 else slope * x


def hardtanh(x: float, low: float = -1.0, high: float = 1.0) -> float:
    return x if x != x else min(max(x, low), high)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)


def silu(x: float) -> float:
    return math.nan if x == -math.inf else x * sigmoid(x)


def softplus(x: float) -> float:
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


def gelu(x: float, approximate: str = "none") -> float:
    if x == -math.inf:
        return math.nan
    if approximate == "tanh":
        return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * math.erfc(-x / math.sqrt(2))


def _apart(s: Any) -> Any:
    """An array without elements next to 0, where derivatives jump."""
    x = s.array(-3, 3)
    return (np.asarray(x + 2 * (x >= 0) - 1).astype(x.dtype),)


def _between(s: Any) -> Any:
    """An array without elements next to an integer limit, where derivatives jump."""
    x = np.round(s.array(-3, 3))
    return (np.asarray(x + 0.25).astype(x.dtype),)


CASES = [
    OpCase("relu", _apart, loop(relu), dtypes=REAL, grad=(0,), specials=True, exact=True),
    real("leaky_relu", leaky_relu, _apart),
    real("leaky_relu", leaky_relu, _apart, kwargs={"slope": 2.5}, label="steep"),
    real("leaky_relu", leaky_relu, _apart, kwargs={"slope": -0.5}, label="falling",
         specials=False),
    real("hardtanh", hardtanh, _between),
    real("hardtanh", hardtanh, _between, kwargs={"low": -2.0, "high": 0.5}, label="limits"),
    real("elu", elu, _apart),
    real("elu", elu, _apart, kwargs={"alpha": 0.3}, label="alpha"),
    real("softplus", softplus),
    real("softplus", softplus, lambda s: (s.array(-600, 600),), specials=False, label="large",
         dtypes=("float32", "float64")),
    real("silu", silu),
    real("silu", silu, lambda s: (s.array(-600, 600),), specials=False, label="large",
         dtypes=("float32", "float64")),
    real("gelu", gelu, tolerance=2),
    real("gelu", gelu, tolerance=2, kwargs={"approximate": "tanh"}, label="tanh"),
    real("gelu", gelu, lambda s: (s.array(-30, 30),), specials=False, label="large",
         dtypes=("float32", "float64")),
]  # fmt: skip
