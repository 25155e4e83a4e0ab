"""Every program in every execution mode: values, derivatives of order 1 and 2, its text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.graph.verify import verify
from eagerflow.runtime import Executable, replay
from tests.control.programs import PROGRAMS, Program
from tests.numeric import arrays, inexact, tensors

IDS = [f"{p.name}-{i}" for i, p in enumerate(PROGRAMS)]
SMOOTH = [p for p in PROGRAMS if p.floats]
SMOOTH_IDS = [f"{p.name}-{i}" for i, p in enumerate(SMOOTH)]


def same(a: Any, b: Any) -> None:
    """Both trees hold the same bits."""
    assert tree.flatten(a)[1] == tree.flatten(b)[1]
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        if type(x) is ef.Tensor:
            assert x.type == y.type
            if x.dtype.short != "list":
                assert x.numpy().tobytes() == y.numpy().tobytes()
        else:
            assert type(x) is type(y)
            assert repr(x) == repr(y)


def close(a: Any, b: Any, rtol: float = 1e-9) -> None:
    for x, y in zip(arrays(a), arrays(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_traced_is_eager(program: Program) -> None:
    args = tensors(program.args)
    eager = program.f(*args)
    traced = ef.trace(program.f)
    same(traced(*args), eager)
    same(traced(*args), eager)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_the_graph(program: Program) -> None:
    """It is well formed, has a text, and runs by itself, optimised or not, and node by node."""
    args = tensors(program.args)
    traced = ef.trace(program.f)
    expected = traced(*args)
    graph = traced.graph(*args)
    verify(graph)
    verify(graph.optimise())
    again = ef.Graph.parse(str(graph))
    verify(again)
    assert str(again) == str(graph)
    inputs = [x for x in args if isinstance(x, (ef.Tensor, int, float))]
    if len(graph.inputs) != len(inputs):
        return  # some numbers are static
    wanted = [x for x in tree.leaves(expected) if type(x) is ef.Tensor]
    lists = [x.dtype.short == "list" for x in wanted]
    for variant in (graph, graph.optimise()):
        outputs = replay(variant, inputs)
        same([x for x in outputs if type(x) is ef.Tensor][: len(lists)], wanted)
        raw = Executable(variant)(*[getattr(x, "_data", x) for x in inputs])
        assert len(raw) == len(outputs)


def _scalar(program: Program) -> Any:
    """The program as a function of its floating arguments that gives a number."""

    def f(*floats: ef.Tensor) -> Any:
        rest = iter(floats)
        args = [next(rest) if inexact(x) else x for x in program.args]
        leaves = [x for x in tree.leaves(program.f(*args)) if type(x) is ef.Tensor]
        weights = [1.0, 0.5, -2.0]
        smooth = [x for x in leaves if x.dtype.is_floating]
        return sum((ef.sin(x) * w).sum() for x, w in zip(smooth, weights, strict=False))

    return f


def _floats(program: Program) -> list[ef.Tensor]:
    return [ef.tensor(x) for x in program.args if inexact(x)]


@pytest.mark.parametrize("program", SMOOTH, ids=SMOOTH_IDS)
def test_gradients(program: Program) -> None:
    f, xs = _scalar(program), _floats(program)
    argnums = tuple(range(len(xs)))
    grad = ef.grad(f, argnums)
    expected = grad(*xs)
    close(ef.grad(ef.trace(f), argnums)(*xs), expected)
    traced = ef.trace(grad)
    close(traced(*xs), expected)
    graph = traced.graph(*xs)
    verify(graph)
    assert str(ef.Graph.parse(str(graph))) == str(graph)
    eps = 1e-6
    for i, x in enumerate(xs):
        direction = np.cos(np.arange(x.size, dtype=float)).reshape(x.shape)
        plus, minus = [f(*xs[:i], x + ef.tensor(direction * e), *xs[i + 1 :]) for e in (eps, -eps)]
        numeric = float(plus - minus) / (2 * eps)
        assert abs(float((expected[i] * ef.tensor(direction)).sum()) - numeric) < 1e-5 * max(
            1, abs(numeric)
        )


@pytest.mark.parametrize("program", SMOOTH, ids=SMOOTH_IDS)
def test_second_order(program: Program) -> None:
    f, xs = _scalar(program), _floats(program)
    argnums = tuple(range(len(xs)))

    def twice(f: Any) -> Any:
        def along(*xs: Any) -> Any:
            gs = ef.grad(f, argnums)(*xs)
            return sum((ef.cos(g) * g).sum() for g in gs)

        return ef.grad(along, argnums)

    expected = twice(f)(*xs)
    close(twice(ef.trace(f))(*xs), expected)
    close(ef.trace(twice(f))(*xs), expected)


@pytest.mark.parametrize("program", SMOOTH, ids=SMOOTH_IDS)
def test_forward_mode(program: Program) -> None:
    f, xs = _scalar(program), _floats(program)
    ts = [ef.cos(x) for x in xs]
    expected = ef.jvp(f, xs, ts)
    close(ef.jvp(ef.trace(f), xs, ts), expected)
    close(ef.trace(lambda xs, ts: ef.jvp(f, xs, ts))(xs, ts), expected)
    # forward over reverse
    along = ef.jvp(ef.grad(f), xs, ts)
    close(ef.trace(lambda xs, ts: ef.jvp(ef.grad(f), xs, ts))(xs, ts), along)
