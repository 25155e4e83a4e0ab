"""Cases of the sorting, searching and set ops; references sort Python numbers."""

from __future__ import annotations

import bisect

import numpy as np

from tests.ops.case import ALL, FLOAT8, FLOATING, OpCase, Sample

DTYPES = ALL + FLOAT8
AXED = ("empty", "vector", "matrix", "strided")
MATRICES = ("matrix", "strided")


def _rank(value):
    """The sort key of a number: NaN is the largest, complex numbers compare by real parts first."""
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    return *(v != v for v in parts), *(0 if v != v else v for v in parts)


def _order(line, descending=False):
    """The stable order of a list."""
    indices = sorted(range(len(line)), key=lambda i: _rank(line[i]))
    if descending:
        indices = sorted(range(len(line) - 1, -1, -1), key=lambda i: _rank(line[i]))[::-1]
    return indices


def _lines(x, axis, per_line, size, dtype=None):
    """``per_line`` applied to each line along an axis, as a list of ``size`` elements."""
    moved = np.moveaxis(x, axis, -1)
    out = np.empty((*moved.shape[:-1], size), dtype or x.dtype)
    for p in np.ndindex(*moved.shape[:-1]):
        out[p] = per_line(moved[p])
    return np.moveaxis(out, -1, axis)


def _argsort(x, *, axis=-1, descending=False, stable=True):
    return _lines(x, axis, lambda v: _order(v.tolist(), descending), x.shape[axis], int)


def _sort(x, *, axis=-1, descending=False, stable=True):
    return _lines(x, axis, lambda v: v[_order(v.tolist(), descending)], x.shape[axis])


def _topk(x, k, *, axis=-1, largest=True):
    order = _lines(x, axis, lambda v: _order(v.tolist(), largest)[:k], k, int)
    return np.take_along_axis(x, order, axis), order


def _searchsorted(x1, x2, *, side="left", sorter=None):
    line = x1 if sorter is None else x1[sorter]
    line = [_rank(v) for v in line.tolist()]
    find = bisect.bisect_left if side == "left" else bisect.bisect_right
    positions = [find(line, _rank(v)) for v in x2.ravel().tolist()]
    return np.array(positions, int).reshape(x2.shape)


def _unique_all(x):
    groups = {}
    nans = []
    for i, v in enumerate(x.ravel().tolist()):
        if v != v:
            nans.append([i])
        else:
            groups.setdefault(v, []).append(i)
    occurrences = [groups[v] for v in sorted(groups, key=_rank)]
    occurrences += sorted(nans, key=lambda places: _rank(x.ravel()[places[0]].item()))
    inverse = np.empty(x.size, int)
    for n, places in enumerate(occurrences):
        inverse[places] = n
    first = np.array([places[0] for places in occurrences], int)
    counts = np.array([len(places) for places in occurrences], int)
    return x.ravel()[first], first, inverse.reshape(x.shape), counts


def _unique_counts(x):
    values, _, _, counts = _unique_all(x)
    return values, counts


def _unique_inverse(x):
    values, _, inverse, _ = _unique_all(x)
    return values, inverse


def _isin(x1, x2, *, invert=False):
    others = x2.ravel().tolist()
    membership = [any(v == w for w in others) != invert for v in x1.ravel().tolist()]
    return np.array(membership, bool).reshape(x1.shape)


def _apart(s: Sample, shape=None):
    """Values so far apart that a numeric derivative does not change their order."""
    x = s.array(shape=shape)
    if x.dtype.kind in "fc" and not s.special:
        x[...] = 0.25 * s.rng.permutation(x.size).reshape(x.shape) - 1 + 0.02 * x
    return x


def _one(s: Sample):
    return (_apart(s),)


def _ties(s: Sample):
    return (s.array(-1.5, 1.5),)


def _long(s: Sample):
    return _apart(s, (2, 700)), 5


def _long_ties(s: Sample):
    x = s.array(-3, 3, shape=(2, 700))
    return np.round(x, 1) if x.dtype.kind == "f" else x, 5


def _searched(s: Sample):
    line = s.array(shape=(6,))
    return line[_order(line.tolist())], s.array()


_numbers = "the result does not depend on values of a floating dtype"

CASES = [
    OpCase("sort", _one, _sort, dtypes=DTYPES, grad=(0,), exact=True, layouts=AXED, specials=True),
    OpCase("sort", _one, _sort, kwargs={"axis": 0, "descending": True}, dtypes=DTYPES, grad=(0,),
           exact=True, layouts=AXED, specials=True, label="descending"),
    OpCase("sort", _one, _sort, kwargs={"axis": -2, "stable": False}, dtypes=DTYPES, grad=(0,),
           exact=True, layouts=MATRICES, label="unstable"),
    OpCase("argsort", _ties, _argsort, dtypes=DTYPES, no_grad=_numbers, layouts=AXED,
           specials=True),
    OpCase("argsort", _ties, _argsort, kwargs={"axis": 0, "descending": True}, dtypes=DTYPES,
           no_grad=_numbers, layouts=AXED, specials=True, label="descending"),
    OpCase("argsort", lambda s: (s.rng.permutation(12).reshape(3, 4).astype(float),), _argsort,
           kwargs={"stable": False}, dtypes=("float64",), no_grad=_numbers, layouts=("matrix",),
           label="unstable"),
    OpCase("argsort", lambda s: (s.array(-9, 9, shape=(60, 100)),), _argsort, kwargs={"axis": 0},
           dtypes=FLOATING, no_grad=_numbers, layouts=("matrix",), specials=True, label="many"),
    OpCase("argsort", lambda s: (np.round(s.array(-9, 9, shape=(60, 100))),), _argsort,
           kwargs={"descending": True}, dtypes=FLOATING[:3], no_grad=_numbers,
           layouts=("matrix",), label="many descending"),
    OpCase("topk", lambda s: (_apart(s), 2), _topk, dtypes=DTYPES, grad=(0,),
           exact=True, ops=("topk_indices", "take_along_axis"), layouts=AXED[1:], specials=True),
    OpCase("topk", lambda s: (_apart(s), 3), _topk, kwargs={"axis": 0, "largest": False},
           dtypes=DTYPES, grad=(0,), exact=True, ops=("topk_indices", "take_along_axis"),
           layouts=MATRICES, specials=True, label="smallest"),
    OpCase("topk", _long, _topk, dtypes=FLOATING, grad=(0,), exact=True, ops=("topk_indices",),
           layouts=MATRICES, second=False, specials=True, label="long"),
    OpCase("topk", _long_ties, _topk, kwargs={"largest": False}, dtypes=("uint8", "float32"),
           no_grad="values that tie", exact=True, ops=("topk_indices",), layouts=MATRICES,
           label="long ties"),
    OpCase("topk", lambda s: (s.array(), 0), _topk, dtypes=("float32",), exact=True,
           no_grad="there are no elements", ops=("topk_indices",), layouts=AXED, label="none"),
    OpCase("searchsorted", _searched, _searchsorted, dtypes=DTYPES, no_grad=_numbers,
           specials=True),
    OpCase("searchsorted", _searched, _searchsorted, kwargs={"side": "right"}, dtypes=DTYPES,
           no_grad=_numbers, specials=True, label="right"),
    OpCase("unique_all", _one, _unique_all, dtypes=DTYPES, grad=(0,), exact=True, specials=True),
    OpCase("unique_counts", _one, _unique_counts, dtypes=DTYPES, grad=(0,), exact=True,
           specials=True),
    OpCase("unique_inverse", _one, _unique_inverse, dtypes=DTYPES, grad=(0,), exact=True,
           ops=("unique_all",), specials=True),
    OpCase("unique_all", _ties, _unique_all, dtypes=DTYPES, no_grad="values that tie",
           exact=True, label="ties"),
    OpCase("unique_values", _one, lambda x: _unique_all(x)[0], dtypes=DTYPES, grad=(0,),
           exact=True, specials=True),
    OpCase("isin", lambda s: (s.array(), s.array(shape=(2, 3))), _isin, dtypes=DTYPES,
           no_grad=_numbers, specials=True),
    OpCase("isin", lambda s: (s.array(), s.array(shape=(0,))), _isin, kwargs={"invert": True},
           dtypes=DTYPES, no_grad=_numbers, ops=("logical_not",), label="empty"),
]  # fmt: skip
