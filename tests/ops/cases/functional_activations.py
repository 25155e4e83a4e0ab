"""Cases of the activations of `nn.functional`, against formulas on Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import OpCase, Sample
from tests.ops.cases.activations import elu, gelu, relu, sigmoid, silu, softplus
from tests.ops.cases.elementwise import one
from tests.ops.cases.softmax import log_softmax, softmax
from tests.ops.loops import along, loop

WIDE = ("float32", "float64")
_VECTORS = ("vector", "matrix", "strided")
_MATRICES = ("matrix", "strided")


def _clear(*kinks: float) -> Callable[[Sample], Any]:
    """Makes an array without elements next to points where derivatives jump."""

    def make(s: Sample) -> Any:
        x = s.array(-5, 5)
        for kink in kinks:
            x = np.where(abs(x - kink) < 0.05, kink + 0.2, x)
        return (np.asarray(x).astype(s.array().dtype),)

    return make


def plain(name: str, function: Any, make: Any = None, label: str = "", **kwargs: Any) -> OpCase:
    """A row for an elementwise function that is a composition."""
    more = {"kwargs": kwargs, "label": label, "specials": True, "tolerance": 2}
    name = f"nn.functional.{name}"
    return OpCase(name, make or one(), loop(function), dtypes=WIDE, grad=(0,), **more)


def _clamp(x: float, low: float, high: float) -> float:
    return x if x != x else min(max(x, low), high)


def _celu(x: float, alpha: float = 1.0) -> float:
    return x if x > 0 else alpha * math.expm1(x / alpha)


def _softplus(x: float, beta: float = 1.0, threshold: float = 20.0) -> float:
    return x if beta * x > threshold else softplus(beta * x) / beta


def _softsign(x: float) -> float:
    return math.nan if math.isinf(x) else x / (1 + abs(x))


def _hardswish(x: float) -> float:
    return math.nan if x == -math.inf else x * _clamp(x + 3, 0, 6) / 6


def _mish(x: float) -> float:
    return math.nan if x == -math.inf else x * math.tanh(softplus(x))


def _hardshrink(x: float, lambd: float = 0.5) -> float:
    return 0.0 if abs(x) <= lambd else x


def _softshrink(x: float, lambd: float = 0.5) -> float:
    return 0.0 if abs(x) <= lambd else x - math.copysign(lambd, x)


def _threshold(x: Any, threshold: float, value: float) -> Any:
    return np.array([value if v <= threshold else v for v in x.ravel()]).reshape(x.shape)


def _prelu(x: Any, weight: Any) -> Any:
    out = np.array(x, float)
    for place in np.ndindex(*x.shape):
        slope = weight[place[1]] if weight.size > 1 else weight.reshape(-1)[0]
        out[place] = x[place] if x[place] > 0 else x[place] * slope
    return out


def _glu(x: Any, axis: int = -1) -> Any:
    a, b = np.split(np.asarray(x, float), 2, axis)
    return a / (1 + np.exp(-b))


def _normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Any:
    size = (np.abs(np.asarray(x, float)) ** p).sum(axis, keepdims=True) ** (1 / p)
    return x / np.maximum(size, eps)


def _rows(name: str, row: Any, label: str = "", **kwargs: Any) -> OpCase:
    return OpCase(f"nn.functional.{name}", one(), along(row), kwargs=kwargs, dtypes=WIDE, grad=(0,),
                  layouts=_VECTORS, label=label)  # fmt: skip


CASES = [
    plain("relu", relu, _clear(0)),
    plain("relu6", lambda x: _clamp(x, 0, 6), _clear(0, 6)),
    plain("hardtanh", lambda x, min_val=-1, max_val=1: _clamp(x, min_val, max_val), _clear(-1, 1)),
    plain("hardtanh", lambda x, min_val, max_val: _clamp(x, min_val, max_val), _clear(-2, 0.5),
          "limits", min_val=-2.0, max_val=0.5),
    plain("leaky_relu", lambda x: x if x > 0 else 0.01 * x, _clear(0)),
    plain("leaky_relu", lambda x, negative_slope: x if x > 0 else negative_slope * x, _clear(0),
          "slope", negative_slope=0.3),
    OpCase("nn.functional.prelu", lambda s: (*_clear(0)(s), s.array(0.1, 0.5, (1,))), _prelu,
           dtypes=WIDE, grad=(0, 1), layouts=_VECTORS),
    OpCase("nn.functional.prelu", lambda s: (*_clear(0)(s), s.array(0.1, 0.5, s.shape[1:])),
           _prelu, dtypes=WIDE, grad=(0, 1), layouts=_MATRICES, label="channels"),
    OpCase("nn.functional.threshold", lambda s: (*_clear(0.5)(s), 0.5, -7.0), _threshold,
           dtypes=WIDE, grad=(0,)),
    plain("hardsigmoid", lambda x: _clamp(x + 3, 0, 6) / 6, _clear(-3, 3)),
    plain("hardswish", _hardswish, _clear(-3, 3)),
    plain("hardshrink", _hardshrink, _clear(-0.5, 0.5)),
    plain("softshrink", _softshrink, _clear(-0.5, 0.5)),
    plain("elu", elu, _clear(0)),
    plain("elu", elu, _clear(0), "alpha", alpha=0.5),
    plain("selu", lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772), _clear(0)),
    plain("celu", _celu, _clear(0)),
    plain("celu", _celu, _clear(0), "alpha", alpha=0.5),
    plain("gelu", gelu),
    plain("gelu", gelu, None, "tanh", approximate="tanh"),
    plain("silu", silu),
    plain("mish", _mish),
    plain("softplus", _softplus),
    plain("softplus", _softplus, _clear(1), "beta", beta=3.0, threshold=3.0),
    plain("softsign", _softsign, _clear(0)),
    plain("tanh", math.tanh),
    plain("tanhshrink", lambda x: x - math.tanh(x)),
    plain("sigmoid", sigmoid),
    plain("logsigmoid", lambda x: -softplus(-x)),
    OpCase("nn.functional.glu", lambda s: (s.array(shape=(*s.shape, 4)),), _glu, dtypes=WIDE,
           grad=(0,), layouts=_VECTORS),
    OpCase("nn.functional.glu", lambda s: (s.array(shape=(s.shape[0], 6, *s.shape[1:])),), _glu,
           kwargs={"axis": 1}, dtypes=WIDE, grad=(0,), layouts=_MATRICES, label="axis"),
    _rows("softmax", softmax),
    _rows("log_softmax", log_softmax),
    _rows("softmin", lambda row: softmax([-x for x in row])),
    OpCase("nn.functional.softmax", lambda s: (s.array(dtype="float32"),),
           lambda x: along(softmax)(x.astype(float)), kwargs={"axis": -1, "dtype": "float64"},
           plain=True, dtypes=("float64",), layouts=_VECTORS, label="dtype",
           no_grad="checked in the other row"),
    OpCase("nn.functional.normalize", lambda s: (s.array(0.2, 3),), _normalize, dtypes=WIDE,
           grad=(0,), layouts=_MATRICES),
    OpCase("nn.functional.normalize", lambda s: (s.array(0.2, 3),), _normalize, dtypes=WIDE,
           kwargs={"p": 3.0, "axis": 0}, grad=(0,), layouts=_VECTORS, label="cubes"),
]  # fmt: skip
