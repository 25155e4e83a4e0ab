"""Equal loop-carried values are merged into one of them; all other values stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.passes import cse, optimise, prune
from eagerflow.graph.verify import verify

# mypy: disable-error-code="no-untyped-def"

X = ef.sin(ef.arange(5.0) + 1)


def carries(f: Callable[..., Any], *args: Any) -> int:
    """How many values the one loop of ``f`` carries, optimised; the results stay."""
    traced = ef.trace(f).graph(*args)
    graph: Graph = traced if traced.origin is None else traced.origin.graph
    best, _ = optimise(graph)
    verify(best)
    assert cse(best)[0] is best
    assert prune(best)[0] is best
    fed = [dict(zip(g.inputs, args, strict=False)) for g in (graph, best)]
    expected, got = graph.run(graph.outputs, fed[0]), best.run(best.outputs, fed[1])
    for a, b in zip(got, expected, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    (loop,) = [n for n in best.nodes if n.op in ("scan", "while_loop")]
    body = loop.attrs["body"]
    ends = body.outputs[: loop.attrs.get("carry", len(loop.inputs))]
    return sum(a is not b for a, b in zip(body.inputs, ends, strict=False))


def scanned(iteration, start):
    return lambda xs: ef.scan(lambda c, x: (iteration(c, x), None), start(), xs)[0]


def zeros(count: int):
    return lambda: tuple(ef.zeros(()) for _ in range(count))


def test_two_sums_of_one() -> None:
    assert carries(scanned(lambda c, x: (c[0] + x, c[1] + x, c[2] * x), zeros(3)), X) == 2


def test_values_that_depend_on_each_other() -> None:
    def iteration(c, x):
        a, b, p, q = c
        return b + x, ef.tanh(a), q + x, ef.tanh(p)

    assert carries(scanned(iteration, zeros(4)), X) == 2


def test_all_that_is_equal_is_one() -> None:
    assert carries(scanned(lambda c, x: tuple(v * x + 1 for v in c), zeros(5)), X) == 1


def test_what_differs_later_stays_apart() -> None:
    def iteration(c, x):
        a, b, p, q = c
        return a + x, b + x, p + a, q + b * x  # p and q differ from the second iteration on

    assert carries(scanned(iteration, zeros(4)), X) == 3

    def swapped(c, x):
        a, b, d = c
        return b, d, a + x

    assert carries(scanned(swapped, zeros(3)), X) == 3


def test_what_starts_apart_stays_apart() -> None:
    def start():
        return ef.zeros(()), ef.ones(()), -ef.zeros(())  # -0 is another value than 0

    assert carries(scanned(lambda c, x: tuple(v + x for v in c), start), X) == 3


def test_the_test_of_a_while_reads_the_first() -> None:
    def f(xs):
        def body(i, a, b):
            return i + 1, a + xs[i], b + xs[i]

        return ef.while_loop(lambda i, a, b: (i < 5) & (b < 9), body, (0, 0.0, 0.0))

    assert carries(f, X) == 2


def test_draws_are_never_the_same() -> None:
    generator = ef.random.Generator(0)

    def iteration(c, x):
        return c[0] + generator.normal(()), c[1] + generator.normal(())

    best, _ = optimise(ef.trace(scanned(iteration, zeros(2))).graph(X))
    (loop,) = [n for n in best.nodes if n.op == "scan"]
    assert loop.attrs["carry"] >= 2


def test_sums_of_what_the_last_iteration_gave() -> None:
    def f(xs):
        c, ys = ef.scan(lambda c, x: ((c[0] * x, c[1] * x), c[0] - c[1]), zeros(2)(), xs)
        return c[0] + c[1], ys

    assert carries(f, X) == 1


def test_loops_in_loops() -> None:
    def iteration(c, x):
        inner = ef.scan(lambda d, y: ((d[0] + y, d[1] + y), None), (c[0], c[1]), X)[0]
        return inner[0] * x, inner[1] * x

    def f(xs):
        return ef.scan(lambda c, x: (iteration(c, x), None), zeros(2)(), xs)[0]

    # a carry of the inner loop is equal to another if those of the outer one are, and the reverse
    assert carries(f, X) == 1


def test_biases_with_one_gradient() -> None:
    w, a, b = ef.Variable(0.5), ef.Variable(0.0), ef.Variable(0.0)

    def loss(xs):
        h = ef.tensor(0.0)
        for x in xs:
            h = ef.tanh(x * w + a + h + b)
        return h

    step = ef.trace(ef.value_and_grad(loss, wrt=[w, a, b]))
    _, (_, first, second) = step(X)
    assert float(first) == float(second) != 0
    back = [n for n in step.graph(X).nodes if n.op == "scan"][-1]
    assert sum(str(v.type) == "f32[]@cpu:0" for v in back.attrs["body"].outputs) <= 3
