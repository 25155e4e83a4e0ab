"""Cases of functions under NumPy's names; the references are NumPy's own functions."""

from __future__ import annotations

import numpy as np

from tests.ops.case import ALL, COMPLEX, INEXACT, INTEGER, OpCase, Sample

AXED = ("empty", "vector", "matrix", "strided")
FULL = ("vector", "matrix", "strided")
MATRICES = ("matrix", "strided")
FLOATS = ("float32", "float64")
_count = "an integer has no gradient"


def _one(s: Sample):
    return (s.array(),)


def _two(s: Sample):
    return ([s.array(), s.array()],)


def _holes(s: Sample):
    x = s.array()
    x[..., ::2][x[..., ::2] > 0] = np.nan
    return (x,)


def _edges(s: Sample):
    return s.array(), np.array([-2, 0, 1, 2]).astype(s.dtype)


def _nanvar(x, *, axis=None, correction=0.0, keepdims=False):
    with np.errstate(all="ignore"):
        kept = np.sum(~np.isnan(x), axis=axis, keepdims=True)
        off = x - np.nansum(x, axis=axis, keepdims=True) / kept
        total = np.nansum(np.abs(off) ** 2, axis=axis, keepdims=keepdims)
        free = np.sum(~np.isnan(x), axis=axis, keepdims=keepdims) - correction
        return np.where(free > 0, total / free, np.nan).astype(x.real.dtype)


def _nanstd(x, **kwargs):
    return np.sqrt(_nanvar(x, **kwargs))


def _trapezoid(y, x=None, dx=1.0, axis=-1):
    return np.trapezoid(y, x, dx, axis).astype(y.dtype)


def _lines(s: Sample):
    return s.array(), np.cumsum(s.array(0.5, 2.0, (s.shape[-1],))).astype(s.dtype)


def _cov(x, y=None, *, rowvar=True, correction=1.0):
    return np.cov(x, y, rowvar=rowvar, ddof=int(correction)).astype(x.dtype)


_RANK = "whether the result has axes depends on the size"

CASES = [
    OpCase("concatenate", _two, lambda arrays: np.concatenate(arrays), dtypes=ALL, grad=(0,),
           layouts=AXED, ops=("concat",), exact=True),
    OpCase("concatenate", lambda s: (*_two(s), -1), np.concatenate, dtypes=ALL, grad=(0,),
           layouts=AXED, ops=("concat",), exact=True, label="axis"),
    OpCase("dstack", _two, np.dstack, dtypes=ALL, grad=(0,), ops=("concat",), exact=True),
    OpCase("transpose", _one, np.transpose, dtypes=ALL, grad=(0,), ops=("permute_dims",),
           exact=True),
    OpCase("transpose", lambda s: (s.array(), (1, 0)), np.transpose, dtypes=ALL, grad=(0,),
           layouts=MATRICES, ops=("permute_dims",), exact=True, label="axes"),
    OpCase("divmod", lambda s: (s.array(), s.array(1, 4)), np.divmod, dtypes=FLOATS + INTEGER,
           no_grad="floor_divide and remainder have their own rows",
           ops=("floor_divide", "remainder")),
    OpCase("geomspace", lambda s: (-1.0, -1000.0), np.geomspace, kwargs={"num": 7},
           dtypes=("float32",), no_grad="takes no array", layouts=("0d",), ops=("linspace",)),
    OpCase("geomspace", lambda s: (2, 32), np.geomspace, kwargs={"num": 4, "endpoint": False},
           dtypes=("float32",), no_grad="takes no array", layouts=("0d",), ops=("linspace",),
           label="open"),
    OpCase("trapezoid", _one, _trapezoid, dtypes=INEXACT[1:3] + COMPLEX, grad=(0,), layouts=AXED,
           ops=("sum",)),
    OpCase("trapezoid", _lines, _trapezoid, dtypes=FLOATS, grad=(0, 1), layouts=FULL,
           ops=("sum",), tolerance=4, label="points"),
    OpCase("trapezoid", lambda s: (s.array(), np.sort(s.array(), 0), 1.0, 0), _trapezoid,
           dtypes=FLOATS, grad=(0, 1), layouts=MATRICES, ops=("sum",), tolerance=4, label="axis"),
    OpCase("percentile", lambda s: (s.array(), 30), np.percentile, dtypes=FLOATS, grad=(0,),
           layouts=FULL, ops=("order_statistics",), tolerance=4),
    OpCase("percentile", lambda s: (s.array(), np.array([0.0, 12.5, 100.0]), -1), np.percentile,
           dtypes=("float64",), grad=(0,), layouts=FULL, ops=("sort",), tolerance=4, label="axis"),
    OpCase("cov", _one, _cov, dtypes=FLOATS + COMPLEX, grad=(0,), layouts=FULL, ops=("matmul",),
           tolerance=4, specialises=_RANK),
    OpCase("cov", lambda s: (s.array(), s.array()), _cov, dtypes=FLOATS, grad=(0, 1),
           layouts=FULL, ops=("matmul", "concat"), tolerance=4, label="two",
           specialises=_RANK),
    OpCase("cov", _one, _cov, kwargs={"rowvar": False, "correction": 0.0}, dtypes=FLOATS,
           grad=(0,), layouts=MATRICES, ops=("matmul",), tolerance=4, label="columns",
           specialises=_RANK),
    OpCase("nanvar", _holes, _nanvar, dtypes=FLOATS, no_grad="see test_numpy_names",
           layouts=FULL, ops=("sum",), tolerance=4),
    OpCase("nanvar", _one, _nanvar, kwargs={"axis": 0, "correction": 1.0, "keepdims": True},
           dtypes=FLOATS + COMPLEX, grad=(0,), layouts=FULL, ops=("sum",), tolerance=4,
           label="axis"),
    OpCase("nanstd", _holes, _nanstd, dtypes=FLOATS, no_grad="see test_numpy_names",
           layouts=FULL, ops=("sum",), tolerance=4),
    OpCase("nanstd", _one, _nanstd, kwargs={"axis": -1}, dtypes=FLOATS, grad=(0,), layouts=FULL,
           ops=("sum",), tolerance=4, label="axis"),
    OpCase("digitize", _edges, np.digitize, dtypes=FLOATS + INTEGER[:4], no_grad=_count,
           ops=("searchsorted",), exact=True),
    OpCase("digitize", lambda s: (*_edges(s), True), np.digitize, dtypes=FLOATS + INTEGER[:4],
           no_grad=_count, ops=("searchsorted",), exact=True, label="right"),
    OpCase("unique", _one, np.unique, dtypes=("int64", "float64"), grad=(0,), layouts=FULL,
           ops=("unique_values",), exact=True),
    OpCase("unique", lambda s: (s.array(), True, True, True), np.unique, dtypes=("int64",),
           no_grad=_count, layouts=FULL, ops=("unique_all",), exact=True, label="all"),
    OpCase("array", lambda s: (s.array(),), np.array, dtypes=ALL, grad=(0,), ops=("copy",),
           exact=True),
    OpCase("around", lambda s: (s.array(), 1), np.around, dtypes=FLOATS,
           no_grad="constant almost everywhere", ops=("round",)),
    OpCase("invert", _one, np.invert, dtypes=("bool", "int64", "uint8"), no_grad=_count,
           ops=("bitwise_invert",), exact=True),
]  # fmt: skip
