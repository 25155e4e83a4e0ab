"""Cases of the segment ops; references go row by row."""

from __future__ import annotations

import numpy as np

from tests.ops.case import INEXACT, INTEGER, NUMERIC, REAL, OpCase, Sample

MATRICES = ("matrix", "strided")


def _groups(values, ids, count):
    flat = values.reshape(ids.size, *values.shape[ids.ndim :])
    count = max(ids.ravel().tolist(), default=-1) + 1 if count is None else count
    return [[v for v, i in zip(flat, ids.ravel().tolist(), strict=True) if i == s]
            for s in range(count)], flat  # fmt: skip


def _reduced(combine, empty):
    def reference(values, ids, count=None):
        groups, flat = _groups(values, ids, count)
        out = np.empty((len(groups), *flat.shape[1:]), flat.dtype)
        for s, rows in enumerate(groups):
            out[s] = empty(flat.dtype) if not rows else rows[0]
            for row in rows[1:]:
                out[s] = combine(out[s], row)
        return out

    return reference


def _limit(sign):
    def worst(dtype):
        if dtype.kind == "f":
            return sign * np.inf
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min

    return worst


_sum = _reduced(lambda a, b: a + b, lambda dtype: 0)
_max = _reduced(np.maximum, _limit(-1))
_min = _reduced(np.minimum, _limit(1))


def _mean(values, ids, count=None):
    groups, flat = _groups(values, ids, count)
    zero = np.zeros(flat.shape[1:])
    return np.array([sum(rows) / len(rows) if rows else zero for rows in groups])


def _bincount(x, weights=None, minlength=0):
    size = max([minlength, *(i + 1 for i in x.tolist())])
    out = np.zeros(size, int if weights is None else weights.dtype)
    for i, w in zip(x.tolist(), [1] * len(x) if weights is None else weights, strict=True):
        out[i] += w
    return out


def _rows(s: Sample):
    return s.array(shape=(6, 2)), s.ints(0, 5, (6,)), 6


def _plain(s: Sample):
    return s.array(shape=(5,)), s.ints(1, 4, (5,), "int32")


def _front(s: Sample):
    return s.array(shape=(2, 3, 2)), s.ints(0, 3, (2, 3)), 3


def _none(s: Sample):
    return s.array(shape=(0, 2)), np.zeros(0, int), 2


def _many(s: Sample):
    return s.array(shape=(300, 100)), s.ints(0, 50, (300,)), 51


def _full(s: Sample):
    x = s.array(shape=(6, 2))
    if x.dtype == float:  # so far apart that a numeric derivative does not change the order
        x[...] = 0.25 * s.rng.permutation(12).reshape(6, 2) - 1 + 0.02 * x
    return x, s.rng.permutation([0, 1, 2, 2, 1, 0])


WAYS = {"rows": _rows, "plain": _plain, "front": _front, "none": _none, "full": _full}


def _all(name, reference, dtypes, smooth=tuple(WAYS), **options):
    """A row for each way to give segments; where some are empty, there may be no derivative."""
    return [
        OpCase(name, make, reference, dtypes=dtypes, layouts=MATRICES, label=label,
               **({"grad": (0,)} if label in smooth else {"no_grad": "infinite"}), **options)
        for label, make in WAYS.items()
    ]  # fmt: skip


CASES = [
    *_all("segment_sum", _sum, NUMERIC),
    OpCase("segment_sum", _many, _sum, dtypes=("float32", "int16", "complex128"),
           no_grad="as of the small rows", layouts=("matrix",), tolerance=4, label="many"),
    *_all("segment_max", _max, REAL, smooth=("full",), exact=True),
    *_all("segment_min", _min, REAL, smooth=("full",), exact=True),
    *_all("segment_mean", _mean, INEXACT + INTEGER, ops=("segment_sum",)),
    OpCase("bincount", lambda s: (s.array(0, 5, shape=(7,)),), _bincount, dtypes=INTEGER,
           no_grad="a count has no gradient", ops=("segment_sum",), layouts=MATRICES),
    OpCase("bincount", lambda s: (s.ints(0, 5, (7,)), s.array(shape=(7,)), 8), _bincount,
           dtypes=NUMERIC, grad=(1,), ops=("segment_sum",), layouts=MATRICES, label="weights"),
    OpCase("bincount", lambda s: (np.zeros(0, int),), _bincount, dtypes=("int64",),
           no_grad="a count has no gradient", ops=("segment_sum",), layouts=("empty",),
           label="none"),
]  # fmt: skip
