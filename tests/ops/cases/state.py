"""Cases of the ops of variables, as methods: the variable comes first among the arguments."""

from __future__ import annotations

import math

import numpy as np

import eagerflow as ef
from tests.ops.case import NUMERIC, OpCase, Sample, np_dtype

CONSTANT = "assignments are not differentiated through"
SHAPE = "a variable keeps its shape"


def _start(shape, dtype):
    """The initial value of the variable."""
    kind = np_dtype(dtype) if isinstance(dtype, str) else dtype
    return (np.arange(math.prod(shape)) % 7).reshape(shape).astype(kind)


def _variable(s: Sample):
    return ef.Variable(_start(s.shape, s.dtype))


def _variable_and_value(s: Sample):
    return _variable(s), s.array()


def _rows(s: Sample):
    """Arguments with row indices that may repeat; repeats are computed in a way of their own."""
    rows = s.ints(-s.shape[0], s.shape[0], (3,))
    return _variable(s), rows, s.array(shape=(3, *s.shape[1:]))


def _distinct_rows(s: Sample):
    return _variable(s), np.array([2, -3]), s.array(shape=(2, *s.shape[1:]))


def _one_by_one(combine):
    def reference(variable, rows, values):
        out = _start(variable.shape, values.dtype)
        for row, value in zip(rows.tolist(), values, strict=True):
            out[row] = combine(out[row], value)
        return out

    return reference


def _case(name, make, reference, op, **more):
    return OpCase(
        f"Variable.{name}", make, reference, no_grad=CONSTANT, ops=(op,), dtypes=NUMERIC, **more
    )


_WITH_ROWS = ("vector", "matrix", "strided")

CASES = [
    _case(
        "numpy", lambda s: (_variable(s),),
        lambda v: _start(v.shape, v.dtype.dtype), "read", exact=True,
        untraceable="it gives an array of NumPy",
    ),
    OpCase(
        "add", _variable_and_value, lambda v, x: _start(v.shape, x.dtype) + x, dtypes=NUMERIC,
        no_grad="of variables, tested where tapes are", ops=("read", "add"), label="variable",
    ),
    _case("assign", _variable_and_value, lambda v, x: x, "assign", exact=True, fixed=SHAPE),
    _case(
        "assign_add", _variable_and_value, lambda v, x: _start(v.shape, x.dtype) + x, "assign_add"
    ),
    _case(
        "assign_sub", _variable_and_value, lambda v, x: _start(v.shape, x.dtype) - x, "assign_sub"
    ),
    _case(
        "scatter_update", _rows, _one_by_one(lambda a, b: b), "variable_scatter_update",
        exact=True, layouts=_WITH_ROWS,
    ),
    _case(
        "scatter_add", _rows, _one_by_one(lambda a, b: a + b), "variable_scatter_add",
        layouts=_WITH_ROWS, label="repeated",
    ),
    _case(
        "scatter_add", _distinct_rows, _one_by_one(lambda a, b: a + b), "variable_scatter_add",
        layouts=_WITH_ROWS, label="distinct",
    ),
]  # fmt: skip
