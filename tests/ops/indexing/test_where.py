"""`where` on CPU, which works on bits where there are many elements, against NumPy's bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import eagerflow as ef
from tests.each import check_each

SHAPES = [
    ((50, 40), (50, 40), (50, 40)),
    ((50, 40), (50, 40), ()),
    ((50, 40), (), (50, 40)),
    ((50, 40), (), ()),
    ((50, 40), (50, 1), (1, 40)),
    ((50, 40), (3, 50, 40), ()),
    ((50, 40), (), (3, 50, 40)),
    ((5, 4), (5, 4), (5, 4)),
]
DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "uint32",
    "int64",
    "complex64",
    "bool",
)


def test_is_numpys_where() -> None:
    check_each(itertools.product(SHAPES, DTYPES, [0.0, -0.0, 9.0]), _is_numpys)


def _is_numpys(shapes: Any, dtype: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    condition, x1, x2 = (rng.normal(size=shape) for shape in shapes)
    kind = getattr(ef, dtype).dtype
    for one, two in ((9 * x1, scale * abs(x2)), (scale * abs(x1), 9 * x2)):
        a, b = np.asarray(one).astype(kind), np.asarray(two).astype(kind)
        got = ef.where(ef.tensor(condition > 0), ef.tensor(a), ef.tensor(b)).numpy()
        want = np.where(condition > 0, a, b)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        assert got.tobytes() == want.tobytes()


def test_specials_and_strides() -> None:
    values = np.resize(np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 1.0], np.float32), (60, 60))
    condition = np.random.default_rng(0).random((60, 60)) > 0.5
    for x in (values, values.T, values[::-1, ::-1]):
        for c in (condition, condition.T):
            got = ef.where(ef.tensor(c), ef.asarray(x), ef.asarray(values)).numpy()
            assert got.tobytes() == np.where(c, x, values).tobytes()
