"""Cases of the normalisations of `nn.functional`, against exact sums in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import eagerflow as ef
from tests.ops.case import OpCase, Sample
from tests.ops.cases.functional_activations import WIDE
from tests.ops.cases.softmax import standardize

_MATRICES = ("matrix", "strided")


def _line_up(x: Any, ndim: int) -> Any:
    return np.reshape(x, (-1, *(1,) * (ndim - 2)))


def _layer(x: Any, shape: Any, weight: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5) -> Any:
    count = 1 if isinstance(shape, int) else len(shape)
    return standardize(x, tuple(range(-count, 0)), eps)[0] * weight + bias


def _rms(x: Any, shape: Any, weight: Any = 1.0, eps: float | None = None) -> Any:
    eps = float(np.finfo(x.dtype).eps) if eps is None else eps
    square = [math.fsum(v * v for v in row) / len(row) for row in x.astype(float)]
    return x / np.sqrt(np.array(square) + eps)[:, None] * weight


def _batch(x: Any, mean: Any, var: Any, weight: Any = 1.0, bias: Any = 0.0, **kwargs: Any) -> Any:
    weight, bias = _line_up(weight, x.ndim), _line_up(bias, x.ndim)
    if kwargs.get("training"):
        axes = (0, *range(2, x.ndim))
        return standardize(x, axes, kwargs.get("eps", 1e-5))[0] * weight + bias
    spread = np.sqrt(_line_up(var, x.ndim).astype(float) + 1e-5)
    return (x - _line_up(mean, x.ndim)) / spread * weight + bias


def _instance(x: Any, mean: Any, var: Any, weight: Any = 1.0, bias: Any = 0.0) -> Any:
    out = standardize(x, tuple(range(2, x.ndim)))[0]
    return out * _line_up(weight, x.ndim) + _line_up(bias, x.ndim)


def _group(x: Any, groups: int, weight: Any = 1.0, bias: Any = 0.0) -> Any:
    parts = np.split(x, groups, axis=1)
    out = [standardize(part, tuple(range(1, x.ndim)))[0] for part in parts]
    return np.concatenate(out, axis=1) * _line_up(weight, x.ndim) + _line_up(bias, x.ndim)


def _local(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    out = np.zeros(x.shape)
    for n, c in np.ndindex(*x.shape[:2]):
        low, high = max(c - size // 2, 0), min(c + (size - 1) // 2, x.shape[1] - 1)
        square = sum(x[n, i].astype(float) ** 2 for i in range(low, high + 1))
        out[n, c] = x[n, c] / (k + alpha / size * square) ** beta
    return out


def _picture(s: Sample) -> Any:
    """Samples with two channels and an axis of three places."""
    return s.array(shape=(s.shape[0], 2, 3))


def _affine(s: Sample, count: int = 2) -> Any:
    return s.array(0.5, 2, (count,)), s.array(shape=(count,))


def _row(name: str, make: Any, reference: Any, label: str, grad: Any, **kwargs: Any) -> OpCase:
    return OpCase(f"nn.functional.{name}", make, reference, kwargs=kwargs, dtypes=WIDE, grad=grad,
                  layouts=_MATRICES, label=label, tolerance=8)  # fmt: skip


CASES = [
    _row("layer_norm", lambda s: (s.array(shape=(*s.shape[:1], 4)), 4), _layer, "", (0,)),
    _row("layer_norm", lambda s: (s.array(shape=(*s.shape[:1], 4)), (4,), *_affine(s, 4)), _layer,
         "affine", (0, 2, 3), eps=0.1),
    _row("layer_norm", lambda s: (_picture(s), (2, 3), s.array(0.5, 2, (2, 3))), _layer, "axes",
         (0, 2)),
    _row("rms_norm", lambda s: (s.array(0.5, 2, (*s.shape[:1], 4)), 4), _rms, "", (0,)),
    _row("rms_norm", lambda s: (s.array(0.5, 2, (*s.shape[:1], 4)), (4,), s.array(0.5, 2, (4,))),
         _rms, "weight", (0, 2), eps=0.1),
    _row("batch_norm", lambda s: (s.array(shape=(s.shape[0], 2)), None, None), _batch, "training",
         (0,), training=True),
    _row("batch_norm", lambda s: (_picture(s), None, None, *_affine(s)), _batch, "affine",
         (0, 3, 4), training=True, eps=0.1),
    _row("batch_norm",
         lambda s: (_picture(s), ef.Variable(ef.zeros(2)), ef.Variable(ef.ones(2)), *_affine(s)),
         _batch, "variables", (0, 3, 4), training=True),
    _row("batch_norm",
         lambda s: (_picture(s), s.array(shape=(2,)), s.array(0.5, 2, (2,)), *_affine(s)),
         _batch, "eval", (0, 1, 2, 3, 4)),
    _row("instance_norm", lambda s: (_picture(s), None, None), _instance, "", (0,)),
    _row("instance_norm", lambda s: (_picture(s), None, None, *_affine(s)), _instance, "affine",
         (0, 3, 4)),
    _row("group_norm", lambda s: (s.array(shape=(s.shape[0], 4, 3)), 2), _group, "", (0,)),
    _row("group_norm", lambda s: (s.array(shape=(s.shape[0], 4, 3)), 2, *_affine(s, 4)), _group,
         "affine", (0, 2, 3)),
    _row("local_response_norm", lambda s: (s.array(shape=(s.shape[0], 5, 3)), 3), _local, "", (0,)),
    _row("local_response_norm", lambda s: (s.array(shape=(s.shape[0], 5, 3)), 4), _local, "even",
         (0,), alpha=0.5, beta=0.5, k=2.0),
]  # fmt: skip
