"""Random branches and loops in each other: plain, eager, traced, lowered, derivatives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.graph.verify import verify
from tests.exploring import examples
from tests.programs.control import PROGRAMS, G, JumpError, V, kinds, plain, program, reset
from tests.runtime.graphs import by_scheduler

START = np.array([[0.4, -0.3], [0.8, 0.2], [-0.6, 0.5]])


def _fresh(f: Any, *args: Any) -> Any:
    """The result from the first state on, as arrays, and the state then."""
    reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="a variable is read after it was assigned")
        found = f(*args)
    found = found.to_dense() if isinstance(found, ef.IndexedSlices) else found
    return np.asarray(found), V.numpy().tobytes(), G.state


def _same(a: Any, b: Any, tolerance: float = 0.0) -> None:
    np.testing.assert_allclose(a[0], b[0], rtol=tolerance, atol=tolerance / 1e3)
    assert a[1:] == b[1:]


#: branches in which nothing of what a drawing loop before them gives is read
_WITHOUT_A = [("write", 0)], [("op", "scale", 1, 2, 0), ("op", "mul", 1, 1, 2)], [("rule", 2)]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.integers(0, 3), st.booleans())
@example(
    [("scan", False, [("if", 0, 0.0, [("while", 1, 3, [("read", 0)], False)], [("rule", 1)])])],
    0,
    False,
)
@example([("while", 0, 3, [("write", 1), ("remat", [("rule", 0), ("draw", 1)])], True)], 1, False)
@example(
    [
        (
            "remat",
            [("remat", [("write", 0)]), ("if", 0, -0.5, [("op", "mul", 0, 0, 0)], [("write", 0)])],
        )
    ],
    0,
    False,
)
@example(
    [("remat", [("op", "mul", 0, 0, 0), ("if", 0, -0.5, [("write", 0)], [("draw", 2)])])], 0, False
)
@example([("remat", [("remat", [("map", [("write", 0)])])])], 0, False)
@example(
    [("list", 1, 3, [("one of", [("read", 0)], [("map", [("rule", 2)])], [("write", 0)])])],
    2,
    False,
)
@example([("scan", True, [("scan", True, [("draw", 0)]), ("one of", *_WITHOUT_A)])], 1, False)
def test_programs(body: Any, seed: int, python: bool) -> None:
    start = START + np.random.default_rng(seed).normal(size=START.shape) * 0.3
    try:
        expected = plain(body, start)
    except JumpError:
        return
    f, x = program(body, python), ef.tensor(start)
    traced = ef.trace(f)
    eager = _fresh(f, x)
    assert abs(float(eager[0]) - expected) < 1e-9 * max(1, abs(expected))
    _same(_fresh(traced, x), eager)
    _check_lowered(traced.graph(x), x, eager)
    slope = _fresh(ef.grad(f), x)
    for grad in (ef.grad(traced), ef.trace(ef.grad(f))):
        _same(_fresh(grad, x), slope, 1e-9)
    _check_lowered(ef.trace(ef.grad(f)).graph(x), x, slope, 1e-9)
    _same(_fresh(ef.trace(ef.grad(f, wrt=V)), x), _fresh(ef.grad(f, wrt=V), x), 1e-9)
    _same(_fresh(ef.trace(_along(f)), x), _fresh(_along(f), x), 1e-9)
    if {"write", "rule"}.isdisjoint(kinds(body)):
        _check_numeric(body, start, slope[0])
    if {"remat", "rule"} <= {*kinds(body)}:
        return  # what is no derivative has no second one: tapes see the rule, or the ops in it
    curve = _fresh(_second(f), x)
    _same(_fresh(_second(traced), x), curve, 1e-8)
    _same(_fresh(ef.trace(_second(f)), x), curve, 1e-8)


def _check_lowered(graph: ef.Graph, x: ef.Tensor, eager: Any, tolerance: float = 0.0) -> None:
    verify(graph)
    assert str(ef.Graph.parse(str(graph), dict(graph.resources))) == str(graph)
    inputs = [x.numpy()]
    lowered = by_scheduler(graph, lambda node: False)
    _same(_fresh(lambda: lowered(*inputs)[0]), eager, tolerance)
    _same(_fresh(lambda: by_scheduler(graph.optimise())(*inputs)[0]), eager, tolerance)


def _along(f: Any) -> Any:
    return lambda x: ef.jvp(f, (x,), (ef.cos(x),))[1]


def _second(f: Any) -> Any:
    return lambda x: ef.grad(lambda x: ef.sin(ef.grad(f)(x)).sum())(x)


def _check_numeric(body: Any, start: np.ndarray[Any, Any], slope: Any) -> None:
    direction = np.cos(np.arange(start.size)).reshape(start.shape)
    eps = 1e-6
    try:
        ends = [plain(body, start + direction * e) for e in (eps, -eps)]
    except JumpError:
        return
    numeric = (ends[0] - ends[1]) / (2 * eps)
    found = float((slope * direction).sum())
    assert abs(found - numeric) < 1e-5 * max(1, abs(numeric))
