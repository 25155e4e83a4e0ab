"""Cases of the elementwise ops."""

from __future__ import annotations

import cmath
import math

import numpy as np

from tests.ops.case import ALL, FLOATING, INEXACT, NUMERIC, OpCase, Sample


def _loop(function, *, real=None):
    """A reference that applies a Python function to each element, independent of NumPy's."""

    def reference(*arrays):
        arrays = np.broadcast_arrays(*arrays)
        out = [
            (function if isinstance(v[0], complex) or real is None else real)(*v)
            for v in zip(*(a.ravel().tolist() for a in arrays), strict=True)
        ]
        dtype = complex if arrays[0].dtype.kind == "c" else float
        return np.array(out, dtype=dtype).reshape(arrays[0].shape)

    return reference


def _pair(s: Sample):
    return s.array(), s.array()


def _broadcast_pair(s: Sample):
    return s.array(shape=(3, 1)), s.array(shape=(1, 4))


CASES = [
    OpCase("add", _pair, _loop(lambda a, b: a + b), dtypes=NUMERIC, grad=(0, 1)),
    OpCase("add", _broadcast_pair, _loop(lambda a, b: a + b), dtypes=INEXACT, grad=(0, 1),
           layouts=("matrix",), label="broadcast"),
    OpCase("multiply", _pair, _loop(lambda a, b: a * b), dtypes=NUMERIC, grad=(0, 1)),
    OpCase("divide", lambda s: (s.array(), s.array(1, 3)), _loop(lambda a, b: a / b),
           dtypes=INEXACT, grad=(0, 1)),
    OpCase("negative", lambda s: (s.array(),), _loop(lambda a: -a), dtypes=INEXACT, grad=(0,)),
    OpCase("conj", lambda s: (s.array(),), _loop(lambda a: a.conjugate()), dtypes=INEXACT,
           grad=(0,)),
    OpCase("exp", lambda s: (s.array(),), _loop(cmath.exp, real=math.exp), dtypes=INEXACT,
           grad=(0,)),
]  # fmt: skip

_ = ALL, FLOATING
