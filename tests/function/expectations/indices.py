"""Objects with `__index__`, and maxima and minima of numbers."""

from __future__ import annotations

import operator

import numpy as np

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


class Index:
    def __init__(self, n: int) -> None:
        self.n = n

    def __index__(self) -> int:
        return self.n


class Cfg:
    k = 3


@program(traces=2)
def ones_index(trace: Trace) -> Steps:
    o = Index(1)
    f = trace(lambda x: x * float(np.ones(20)[o]))
    yield f(x)
    o.n = 2
    yield f(x)


@program(traces=3, reports=("traced 3 times",))
def ones_index_arg(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * float(np.arange(20)[Index(k)]))
    yield f(x, 1)
    yield f(x, 2)
    yield f(x, 3)


@program(traces=2)
def np_zeros_index(trace: Trace) -> Steps:
    f = trace(lambda x, k: x + np.zeros(Index(k), np.float32).sum() + len(np.ones(Index(k))))
    yield f(x, 1)
    yield f(x, 2)


@program(traces=2)
def list_index_arg(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * [1.0, 2.0, 3.0][Index(k)])
    yield f(x, 1)
    yield f(x, 2)


@program(traces=2)
def np_range_index(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * len(range(Index(k))))
    yield f(x, 1)
    yield f(x, 2)


@program(traces=2)
def operator_index(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * operator.index(Index(k)))
    yield f(x, 1)
    yield f(x, 2)


@program(traces=1)
def max_captured(trace: Trace) -> Steps:
    c = Cfg()
    c.k = 3
    f = trace(lambda x: x * max(c.k, 1))
    for k in (3, 4, 5, -1):
        c.k = k
        yield f(x)


@program(traces=1)
def max_arg(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * max(k, 1))
    for k in (3, 4, 5, -1):
        yield f(x, k)


@program(traces=1)
def min_float(trace: Trace) -> Steps:
    f = trace(lambda x, k: x * min(k, 0.5))
    for k in (0.3, 0.4, 0.7):
        yield f(x, k)


@program(traces=1)
def clamp(trace: Trace) -> Steps:
    st = {"step": 0}

    def f(x):
        st["step"] += 1
        return x * min(1.0, st["step"] / 3)

    f = trace(f)
    for _ in range(6):
        yield f(x), st


@program(traces=1)
def warmup(trace: Trace) -> Steps:
    @trace
    def f(x, step):
        return x * max(0.1, min(1.0, step / 3))

    for i in range(6):
        yield f(x, i)
