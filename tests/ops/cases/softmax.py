"""Cases of softmax, cross-entropy with class indices, and `standardize`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.case import INTEGER, OpCase, Sample
from tests.ops.loops import along

_VECTORS = ("vector", "matrix", "strided", "empty")
_MATRICES = ("matrix", "strided")


def softmax(row: list[float]) -> list[float]:
    if any(x != x or x == math.inf for x in row) or all(x == -math.inf for x in row):
        return [math.nan] * len(row)
    shares = [math.exp(x - max(row)) for x in row]
    return [s / math.fsum(shares) for s in shares]


def log_softmax(row: list[float]) -> list[float]:
    if any(x != x or x == math.inf for x in row) or all(x == -math.inf for x in row):
        return [math.nan] * len(row)
    total = math.log(math.fsum(math.exp(x - max(row)) for x in row))
    return [x - max(row) - total for x in row]


def _large(s: Sample) -> Any:
    return (s.array(-1e4, 1e4),)


def classes(s: Sample, count: int, shape: tuple[int, ...], ignored: int | None = None) -> Any:
    """Labels of ``count`` classes; every other label may be the ignored one."""
    labels = s.ints(0, count, shape)
    if ignored is not None:
        labels.reshape(-1)[::2] = ignored
    return labels


def cross_entropy(
    x: Any, labels: Any, axis: int = -1, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """Cross-entropy, sample by sample."""
    rows = np.moveaxis(np.asarray(x, float), axis, -1)
    losses = np.zeros(labels.shape)
    for place in np.ndindex(*labels.shape):
        if labels[place] != ignore_index:
            losses[place] = -log_softmax(rows[place].tolist())[labels[place]]
    if reduction == "none":
        return losses
    total = math.fsum(losses.ravel())
    count = int((labels != ignore_index).sum())
    mean = total / count if count else math.nan
    return np.asarray(total if reduction == "sum" else mean)


def _cross(axis: int, ignored: int | None = None) -> Any:
    def make(s: Sample) -> Any:
        shape = (*s.shape[:axis], 3, *s.shape[axis:]) if axis >= 0 else (*s.shape, 3)
        return s.array(shape=shape), classes(s, 3, s.shape, ignored)

    return make


def _entropies(reduction: str) -> list[OpCase]:
    name, ignored = "softmax_cross_entropy", {"axis": 1, "ignore_index": 2, "reduction": reduction}
    return [
        OpCase(name, _cross(-1), cross_entropy, kwargs={"reduction": reduction}, grad=(0,),
               layouts=("0d", "vector", "matrix", "strided"), label=reduction),
        OpCase(name, _cross(1, ignored=2), cross_entropy, kwargs=ignored, grad=(0,), tolerance=4,
               layouts=_MATRICES, label=f"{reduction}-ignored"),
    ]  # fmt: skip


def standardize(x: Any, axis: Any = None, eps: float = 1e-5) -> Any:
    """Standardised lines, with Python's exact sums."""
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis) % x.ndim)
    out = np.zeros(x.shape)
    kept = [1 if i in axes else d for i, d in enumerate(x.shape)]
    means, variances = np.zeros(kept), np.zeros(kept)
    for place in np.ndindex(*kept):
        line = tuple(slice(None) if i in axes else p for i, p in enumerate(place))
        values = [float(v) for v in x[line].ravel()]
        mean = math.fsum(values) / len(values)
        var = math.fsum((v - mean) ** 2 for v in values) / len(values)
        out[line] = (x[line].astype(float) - mean) / math.sqrt(var + eps)
        means[place], variances[place] = mean, var
    return out, means, variances


CASES = [
    OpCase("softmax", lambda s: (s.array(),), along(softmax), grad=(0,), layouts=_VECTORS,
           specials=True),
    OpCase("softmax", lambda s: (s.array(),), along(softmax), kwargs={"axis": 0}, grad=(0,),
           layouts=_MATRICES, label="first"),
    OpCase("softmax", _large, along(softmax), grad=(0,), layouts=_MATRICES, label="large",
           dtypes=("float32", "float64")),
    OpCase("log_softmax", lambda s: (s.array(),), along(log_softmax), grad=(0,), layouts=_VECTORS,
           specials=True),
    OpCase("log_softmax", lambda s: (s.array(),), along(log_softmax), kwargs={"axis": 0},
           grad=(0,), layouts=_MATRICES, label="first"),
    OpCase("log_softmax", _large, along(log_softmax), grad=(0,), layouts=_MATRICES, label="large",
           dtypes=("float32", "float64")),
    *(case for reduction in ("mean", "sum", "none") for case in _entropies(reduction)),
    OpCase("softmax_cross_entropy", _cross(-1), cross_entropy, kwargs={"reduction": "sum"},
           grad=(0,), layouts=("empty",), label="empty"),
    OpCase("check_labels", lambda s: (s.ints(0, 5, s.shape, s.dtype), 5), lambda x, n: x,
           dtypes=INTEGER, no_grad="integers", exact=True),
    OpCase("check_labels", lambda s: (classes(s, 5, s.shape, -1), 5), lambda x, n: x,
           kwargs={"ignore_index": -1}, plain=True, dtypes=("int64",), no_grad="integers",
           label="ignored"),
    OpCase("standardize", lambda s: (s.array(),), standardize, grad=(0,), layouts=_MATRICES,
           tolerance=4),
    OpCase("standardize", lambda s: (s.array(),), standardize, kwargs={"axis": -1, "eps": 0.1},
           grad=(0,), layouts=("vector", "matrix", "strided"), label="last", tolerance=4),
    OpCase("standardize", lambda s: (s.array(shape=(*s.shape, 3)),), standardize,
           kwargs={"axis": (0, 2)}, grad=(0,), layouts=_MATRICES, label="several", tolerance=4),
    OpCase("standardize", lambda s: (s.array(1000, 1001),), standardize, layouts=_MATRICES,
           kwargs={"axis": 0, "eps": 1e-3}, grad=(0,), dtypes=("float64",), label="offset",
           tolerance=1e3),
]  # fmt: skip
