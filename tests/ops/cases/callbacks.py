"""Cases of `py_call`, which calls a Python function; `print` is tested in test_callbacks."""

from __future__ import annotations

from tests.ops.case import ALL, BYTES, OpCase, Sample

_NO_GRADIENT = "what a Python function does has no derivative"


def _reversed(x):
    return x[::-1]


def _both(x, y):
    return [y, x]


def _one(s: Sample):
    x = s.array()
    return _reversed, x, x  # the second x stands for the type of the result


def _two(s: Sample):
    x, y = s.array(), s.array(shape=(2,), dtype="int64")
    return _both, [y, x], x, y


CASES = [
    OpCase("py_call", _one, lambda f, kind, x: x[::-1], dtypes=ALL + BYTES, exact=True,
           no_grad=_NO_GRADIENT, layouts=("empty", "vector", "matrix", "strided")),
    OpCase("py_call", _two, lambda f, kinds, x, y: [y, x], exact=True, no_grad=_NO_GRADIENT,
           label="tree"),
]  # fmt: skip
