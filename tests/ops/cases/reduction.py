"""Cases of reductions, statistics, and functions along an axis."""

from __future__ import annotations

import cmath
import itertools
import math
import operator
import statistics
from typing import Any

import numpy as np

from tests.ops.case import (
    ALL,
    BOOL,
    FLOAT8,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMERIC,
    REAL,
    OpCase,
    Sample,
)
from tests.ops.loops import along, reducing

_TRUTH = "the result is bool"
_INDEX = "the result is an index"
_VECTORS = ("vector", "matrix", "strided")
_MATRICES = ("matrix", "strided")
_FULL = ("0d", *_VECTORS)


def _array(s: Sample) -> tuple[Any, ...]:
    return (s.array(),)


def _positive(s: Sample) -> tuple[Any, ...]:
    return (s.array(0.5, 2),)


def _zeros(s: Sample) -> tuple[Any, ...]:
    """Numbers with a zero or two in some rows."""
    x = s.array(0.5, 2).copy()
    x[0, 1], x[1, :2] = 0, 0
    return (x,)


def _distinct(s: Sample) -> tuple[Any, ...]:
    """Numbers that are distinct and not near each other."""
    size = math.prod(s.shape)
    return (s.rng.permutation(size).reshape(s.shape).astype(s.array().dtype),)


def _lost(s: Sample) -> tuple[Any, ...]:
    """Numbers with some NaN among them."""
    x = s.array().copy()
    x.reshape(-1)[::3] = math.nan
    return (x,)


def reduction(
    name: str, make: Any, function: Any, empty: Any = None, **options: Any
) -> list[OpCase]:
    """Rows over all axes, one axis, several axes, and with the axes kept."""
    reference = reducing(function, empty=empty)
    options.setdefault("layouts", _FULL if empty is None else ("empty", *_FULL))
    some = dict(options, layouts=_MATRICES)
    cube = dict(options, layouts=("matrix",), dtypes=_few(options["dtypes"]))
    return [
        OpCase(name, make, reference, **options),
        OpCase(name, make, reference, kwargs={"axis": 0}, label="axis", **some),
        OpCase(name, make, reference, kwargs={"axis": -1, "keepdims": True}, label="kept", **some),
        OpCase(name, lambda s: (make(_like(s, (2, 3, 4)))), reference, kwargs={"axis": (2, 0)},
               label="axes", **cube),
    ]  # fmt: skip


def _few(dtypes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(d for d in dtypes if d in ("bool", "int32", "float32", "float64", "complex128"))


def _like(s: Sample, shape: tuple[int, ...]) -> Sample:
    return Sample(s.rng, s.dtype, shape, s.strided, s.special)


def _sum(row: list[Any]) -> Any:
    if any(isinstance(v, complex) for v in row):
        return complex(math.fsum(v.real for v in row), math.fsum(v.imag for v in row))
    return math.fsum(row) if any(isinstance(v, float) for v in row) else sum(row)


def _mean(row: list[Any]) -> Any:
    return _sum(row) / len(row)


def _var(row: list[Any], correction: float = 0.0) -> float:
    centre = _mean(row)
    return math.fsum(abs(v - centre) ** 2 for v in row) / (len(row) - correction)


def _std(row: list[Any], correction: float = 0.0) -> float:
    return math.sqrt(_var(row, correction))


def _extreme(better: Any) -> Any:
    def function(row: list[Any]) -> Any:
        best = row[0]
        for v in row:
            if best == best and (v != v or better(v, best)):
                best = v
        return best

    return function


_largest, _smallest = _extreme(operator.gt), _extreme(operator.lt)


def _position(row: list[Any], extreme: Any) -> int:
    best = extreme(row)
    return next(i for i, v in enumerate(row) if v == best or v != v)


def _logsumexp(row: list[Any]) -> Any:
    if any(isinstance(v, complex) for v in row):
        return cmath.log(sum(cmath.exp(v) for v in row))
    return math.log(math.fsum(math.exp(v) for v in row))


def _median(row: list[Any]) -> float:
    return math.nan if any(v != v for v in row) else float(statistics.median(row))


def _quantile(row: list[Any], q: float) -> float:
    ordered = sorted(row)
    place = q * (len(row) - 1)
    low = math.floor(place)
    high = min(low + 1, len(row) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def _quantiles(x: Any, q: Any, axis: int) -> Any:
    return np.stack([reducing(_quantile)(x, axis, q=float(v)) for v in np.atleast_1d(q)])


def _average(x: Any, axis: Any = None, *, weights: Any) -> Any:
    return np.sum(x * weights, axis=axis) / np.sum(np.broadcast_to(weights, x.shape), axis=axis)


def _running(function: Any) -> Any:
    return along(lambda row: list(itertools.accumulate(row, function)))


def _flat(function: Any) -> Any:
    return lambda x: np.array(list(itertools.accumulate(x.ravel().tolist(), function)))


def _recurrence(a: list[Any], b: list[Any]) -> list[Any]:
    out = [b[0]]
    for factor, term in zip(a[1:], b[1:], strict=True):
        out.append(factor * out[-1] + term)
    return out


def _diff(n: int = 1) -> Any:
    def function(row: list[Any]) -> list[Any]:
        for _ in range(n):
            row = [b != a if isinstance(a, bool) else b - a for a, b in itertools.pairwise(row)]
        return row

    return lambda x, axis=-1, **options: along(function)(x, axis=axis)


def _padded(x: Any, *, prepend: Any, append: Any) -> Any:
    ends = [np.full((*x.shape[:-1], 1), v, dtype=x.dtype) for v in (1, 2)]
    return _diff()(np.concatenate([ends[0], x, ends[1]], axis=-1))


SUMS = [
    *reduction("sum", _array, _sum, 0, dtypes=ALL + FLOAT8, grad=(0,)),
    *reduction("prod", _positive, math.prod, 1, dtypes=ALL + FLOAT8, grad=(0,), tolerance=2),
    OpCase("prod", _zeros, reducing(math.prod), kwargs={"axis": 1}, dtypes=INEXACT, grad=(0,),
           layouts=("matrix",), label="zeros"),
    OpCase("sum", _array, lambda x, dtype: reducing(_sum)(x), kwargs={"dtype": "float64"},
           dtypes=NUMERIC[:-2], grad=(0,), label="f64"),
    OpCase("sum", _array, lambda x, dtype: reducing(_sum)(x), kwargs={"dtype": "int8"},
           dtypes=BOOL + INTEGER, no_grad="integers", label="i8", layouts=_FULL),
    OpCase("prod", _array, lambda x, dtype: reducing(math.prod)(x), kwargs={"dtype": "float32"},
           dtypes=INTEGER, no_grad="integers", label="f32", layouts=("0d", "vector")),
    *reduction("mean", _array, _mean, dtypes=INEXACT + FLOAT8 + ("int32",), grad=(0,)),
    *reduction("logsumexp", _array, _logsumexp, dtypes=INEXACT + FLOAT8, grad=(0,)),
    OpCase("logsumexp", _array, reducing(_logsumexp, empty=-math.inf), layouts=("empty",),
           no_grad="there is nothing to differentiate by", label="empty"),
]  # fmt: skip

EXTREMES = [
    *reduction("max", _distinct, _largest, dtypes=REAL + BOOL + FLOAT8, grad=(0,)),
    *reduction("min", _distinct, _smallest, dtypes=REAL + BOOL + FLOAT8, grad=(0,)),
    OpCase("max", _array, reducing(_largest), kwargs={"axis": 0}, dtypes=("float32", "float64"),
           no_grad="checked in the row without special values", label="special", specials=True,
           layouts=_MATRICES),
    OpCase("min", _array, reducing(_smallest), kwargs={"axis": 0}, dtypes=("float32", "float64"),
           no_grad="checked in the row without special values", label="special", specials=True,
           layouts=_MATRICES),
    OpCase("argmax", _array, reducing(lambda row: _position(row, _largest)), dtypes=REAL + BOOL,
           layouts=_FULL, no_grad=_INDEX, specials=True),
    OpCase("argmin", _array, reducing(lambda row: _position(row, _smallest)), dtypes=REAL + BOOL,
           layouts=_FULL, no_grad=_INDEX, specials=True),
    OpCase("argmax", _array, reducing(lambda row: _position(row, _largest)),
           kwargs={"axis": -1, "keepdims": True}, dtypes=REAL, layouts=_MATRICES, no_grad=_INDEX,
           label="kept"),
    OpCase("argmin", _array, reducing(lambda row: _position(row, _smallest)), kwargs={"axis": 0},
           dtypes=REAL, layouts=_MATRICES, no_grad=_INDEX, label="axis"),
    *reduction("ptp", _distinct, lambda row: max(row) - min(row), dtypes=FLOATING, grad=(0,),
               ops=("max", "min")),
]  # fmt: skip

LOGIC = [
    *reduction(
        "all", _array, lambda row: all(bool(v) for v in row), True, dtypes=ALL, no_grad=_TRUTH
    ),
    *reduction(
        "any", _array, lambda row: any(bool(v) for v in row), False, dtypes=ALL, no_grad=_TRUTH
    ),
    *reduction(
        "count_nonzero",
        _array,
        lambda row: sum(bool(v) for v in row),
        0,
        dtypes=ALL + FLOAT8,
        no_grad=_INDEX,
    ),
]

STATISTICS = [
    *reduction("var", _array, _var, dtypes=INEXACT + FLOAT8, grad=(0,)),
    *reduction("std", _array, _std, dtypes=INEXACT + FLOAT8, grad=(0,), layouts=_VECTORS),
    OpCase("var", _array, reducing(_var), kwargs={"correction": 1}, dtypes=INEXACT, grad=(0,),
           layouts=_VECTORS, label="correction"),
    OpCase("std", _array, reducing(_std), kwargs={"correction": 1.5, "axis": 0}, dtypes=INEXACT,
           grad=(0,), layouts=_MATRICES, label="correction"),
    *reduction("median", _distinct, _median, dtypes=(*FLOATING, "int32"), grad=(0,),
               ops=("sort",)),
    OpCase("quantile", lambda s: (*_distinct(s), s.array(0, 1, shape=(3,), dtype="float64"), 0),
           _quantiles, dtypes=("float32", "float64"), grad=(0, 1), layouts=_VECTORS,
           ops=("sort",), tolerance=4),
    OpCase("average", lambda s: (s.array(), None), lambda x, axis: reducing(_mean)(x),
           dtypes=INEXACT, grad=(0,), layouts=_FULL, ops=("mean",)),
    OpCase("average", _array, _average, kwargs={"weights": 2.0}, dtypes=INEXACT, grad=(0,),
           layouts=_FULL, ops=("sum",), label="weights", plain=False),
    *reduction("nansum", _lost, lambda row: _sum([v for v in row if v == v]), 0.0,
               dtypes=FLOATING[:3], no_grad="numeric derivatives at NaN are NaN", ops=("sum",)),
    *reduction("nanmean", _lost, lambda row: (lambda r: _sum(r) / len(r) if r else math.nan)(
        [v for v in row if v == v]), dtypes=FLOATING[:3], layouts=_VECTORS,
        no_grad="numeric derivatives at NaN are NaN", ops=("sum",)),
    *reduction("nanmax", _lost, lambda row: max((v for v in row if v == v), default=math.nan),
               dtypes=FLOATING[:3], no_grad="numeric derivatives at NaN are NaN", ops=("max",)),
    *reduction("nanmin", _lost, lambda row: min((v for v in row if v == v), default=math.nan),
               dtypes=FLOATING[:3], no_grad="numeric derivatives at NaN are NaN", ops=("min",)),
]  # fmt: skip

ALONG = [
    OpCase("cumulative_sum", _array, _running(operator.add), kwargs={"axis": -1}, dtypes=NUMERIC,
           grad=(0,), layouts=_VECTORS),
    OpCase("cumulative_sum", _array, _running(operator.add), kwargs={"axis": 0}, dtypes=INEXACT,
           grad=(0,), layouts=_MATRICES, label="axis"),
    OpCase("cumulative_sum", _array,
           lambda x, include_initial: np.concatenate([[0], _running(operator.add)(x)]),
           kwargs={"include_initial": True}, dtypes=NUMERIC, grad=(0,), layouts=("vector",),
           label="initial"),
    OpCase("cumulative_prod", _array, _running(operator.mul), kwargs={"axis": -1}, dtypes=NUMERIC,
           grad=(0,), layouts=_VECTORS),
    OpCase("cumulative_prod", _zeros, _running(operator.mul), kwargs={"axis": 1}, dtypes=INEXACT,
           grad=(0,), layouts=("matrix",), label="zeros"),
    OpCase("cumulative_prod", _array,
           lambda x, include_initial: np.concatenate([[1], _running(operator.mul)(x)]),
           kwargs={"include_initial": True}, dtypes=NUMERIC, grad=(0,), layouts=("vector",),
           label="initial"),
    OpCase("cumsum", _array, _flat(operator.add), dtypes=NUMERIC, grad=(0,),
           ops=("cumulative_sum",), layouts=_FULL),
    OpCase("cumprod", _array, _flat(operator.mul), dtypes=NUMERIC, grad=(0,), layouts=_FULL,
           ops=("cumulative_prod",)),
    OpCase("linear_recurrence", lambda s: (s.array(), s.array()), along(_recurrence),
           dtypes=INEXACT, grad=(0, 1), layouts=_VECTORS, tolerance=4),
    OpCase("linear_recurrence", lambda s: (s.array(-1, 1, (13, 2)), s.array(-1, 1, (13, 2))),
           along(_recurrence), kwargs={"axis": 0}, dtypes=INEXACT, grad=(0, 1),
           layouts=_MATRICES, label="axis"),
    OpCase("cummax", _distinct, _running(lambda a, b: _largest([a, b])), dtypes=REAL, grad=(0,),
           layouts=_VECTORS, ops=("running_argmax",)),
    OpCase("cummin", _distinct, _running(lambda a, b: _smallest([a, b])), dtypes=REAL, grad=(0,),
           layouts=_VECTORS, ops=("running_argmin",)),
    OpCase("cummax", _array, _running(lambda a, b: _largest([a, b])), kwargs={"axis": 0},
           dtypes=("float32", "float64"), layouts=_MATRICES, ops=("running_argmax",),
           specials=True, no_grad="checked in the row without special values", label="special"),
    OpCase("cummin", _array, _running(lambda a, b: _smallest([a, b])), kwargs={"axis": 0},
           dtypes=("float32", "float64"), layouts=_MATRICES, ops=("running_argmin",),
           specials=True, no_grad="checked in the row without special values", label="special"),
    OpCase("diff", lambda s: (s.array(),), _diff(), dtypes=BOOL + INEXACT + ("int64",), grad=(0,),
           layouts=_VECTORS, ops=("subtract",)),
    OpCase("diff", lambda s: (s.array(),), _diff(2), kwargs={"n": 2, "axis": 0}, dtypes=INEXACT,
           grad=(0,), layouts=_MATRICES, ops=("subtract",), label="twice", plain=False),
    OpCase("diff", lambda s: (s.array(),), _padded,
           kwargs={"prepend": [1.0], "append": [2.0]}, dtypes=("float32", "float64"), grad=(0,),
           layouts=("vector",), ops=("subtract",), label="padded"),
]  # fmt: skip


def _sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    lead = x.ndim - len(shape)
    for place in np.ndindex(*x.shape):
        kept = tuple(0 if n == 1 else i for i, n in zip(place[lead:], shape, strict=True))
        out[kept] = out[kept] + x[place]
    return out


SUM_TO = [
    OpCase("sum_to", lambda s: (s.array(), s.shape), _sum_to, dtypes=FLOAT8 + INEXACT,
           grad=(0,)),
    OpCase("sum_to", lambda s: (s.array(), s.shape[1:]), _sum_to, dtypes=INEXACT,
           grad=(0,), layouts=_VECTORS, label="leading"),
    OpCase("sum_to", lambda s: (s.array(), (1, *s.shape[1:])), _sum_to, dtypes=INEXACT,
           grad=(0,), layouts=_VECTORS, label="first"),
    OpCase("sum_to", lambda s: (s.array(shape=(2, 3, 4)), (1, 4)), _sum_to, dtypes=INEXACT,
           grad=(0,), layouts=_MATRICES, label="both"),
]  # fmt: skip

CASES = SUMS + SUM_TO + EXTREMES + LOGIC + STATISTICS + ALONG
