"""Cases of functions based on searches and segments: bins, interpolation, partitions."""

from __future__ import annotations

import numpy as np

from tests.ops.case import ALL, INEXACT, INTEGER, OpCase, Sample

MATRICES = ("matrix", "strided")
FLOATS = ("float32", "float64")
_count = "a count has no gradient"


def _edges(s: Sample):
    return np.array([-2.0, -0.5, 1.0, 1.5], s.dtype)


def _points(s: Sample):
    """Positions to evaluate at (some outside of the range), the points, the values."""
    points = np.array([-2.0, -1.0, 0.25, 2.0], s.dtype)
    return s.array(-3, 3), points, s.array(shape=(4,))


def _interp(x, xp, fp, left=None, right=None):
    return np.interp(x, xp, fp, left, right).astype(fp.dtype)


def _on_points(s: Sample):
    points = np.array([-1.0, 0.0, 0.0, 2.0], s.dtype)
    return np.array([-1.0, 0.0, 2.0, 2.5, -4.0, np.nan, 1.0], s.dtype), points, points * 3


def _partition(x, partitions, count):
    rows = x.reshape(partitions.size, *x.shape[partitions.ndim :])
    parts = [[r for r, p in zip(rows, partitions.ravel().tolist(), strict=True) if p == i]
             for i in range(count)]  # fmt: skip
    return [np.array(part).reshape(len(part), *rows.shape[1:]) for part in parts]


def _stitch(indices, data, *, size=None):
    pairs = [
        (int(i), row)
        for index, part in zip(indices, data, strict=True)
        for i, row in zip(
            index.ravel(), part.reshape(index.size, *part.shape[index.ndim :]), strict=True
        )
    ]
    size = max((i + 1 for i, _ in pairs), default=0) if size is None else size
    out = np.zeros((size, *data[0].shape[indices[0].ndim :]), data[0].dtype)
    for i, row in pairs:
        out[i] = row
    return out


def _stitched(s: Sample):
    return (
        [np.array([4, 0]), np.array([[1, 2], [0, 1]])],
        [s.array(shape=(2, 3)), s.array(shape=(2, 2, 3))],
    )


CASES = [
    OpCase("histogram", lambda s: (s.array(),), lambda x, **kw: np.histogram(x, **kw),
           dtypes=FLOATS + INTEGER, no_grad=_count, ops=("searchsorted", "segment_sum")),
    # the edges, though not the counts, change with the smallest and the largest element
    OpCase("histogram", lambda s: (s.array(), 4), lambda x, bins: np.histogram(x, bins),
           dtypes=("float64",), grad=(0,), ops=("histogram_width",), layouts=("matrix",),
           label="edges"),
    OpCase("histogram", lambda s: (s.array(), 4, (-2.0, 2.0)),
           lambda x, bins, limits: np.histogram(x, bins, limits), dtypes=FLOATS, no_grad=_count,
           ops=("searchsorted", "segment_sum"), label="limits"),
    OpCase("histogram", lambda s: (s.array(), _edges(s), None, True),
           lambda x, bins, limits, density: np.histogram(x, bins, density=density), dtypes=FLOATS,
           no_grad=_count, ops=("searchsorted", "segment_sum"), layouts=MATRICES, label="density"),
    OpCase("histogram", lambda s: (s.array(), _edges(s), None, False, s.array()),
           lambda x, bins, limits, density, weights: np.histogram(x, bins, weights=weights),
           dtypes=FLOATS, grad=(4,), ops=("searchsorted", "segment_sum"), label="weights"),
    OpCase("interp", _points, _interp, dtypes=INEXACT[1:3], grad=(0, 1, 2),
           ops=("searchsorted", "take")),
    OpCase("interp", _points, _interp, kwargs={"left": 7, "right": -7.0}, dtypes=FLOATS,
           grad=(0, 1, 2), ops=("searchsorted", "take"), label="outside"),
    OpCase("interp", _on_points, _interp, dtypes=FLOATS, no_grad="on the points there is a kink",
           ops=("searchsorted", "take"), layouts=("vector",), label="points"),
    OpCase("interp", lambda s: (s.array(), np.ones(1, s.dtype), s.array(shape=(1,))), _interp,
           dtypes=FLOATS, grad=(2,), ops=("searchsorted", "take"), label="one point"),
    OpCase("dynamic_partition", lambda s: (s.array(shape=(5, 2)), s.ints(-1, 3, (5,)), 3),
           _partition, dtypes=ALL, grad=(0,), exact=True, ops=("take",), layouts=MATRICES),
    OpCase("dynamic_partition", lambda s: (s.array(shape=(2, 3, 2)), s.ints(0, 2, (2, 3)), 2),
           _partition, dtypes=ALL, grad=(0,), exact=True, ops=("take",), layouts=MATRICES,
           label="axes"),
    OpCase("dynamic_stitch", _stitched, _stitch, dtypes=ALL, grad=(1,), exact=True,
           ops=("index_update",), layouts=MATRICES),
    OpCase("dynamic_stitch", _stitched, _stitch, kwargs={"size": 7}, dtypes=ALL, grad=(1,),
           exact=True, ops=("index_update",), layouts=MATRICES, label="size"),
]  # fmt: skip
