"""`prune` in branches and loops: unread values go, and all other results keep every bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import TensorIndexError, TraceError
from eagerflow.graph import Graph, Node
from eagerflow.graph.passes import optimise, prune
from eagerflow.graph.verify import verify

# mypy: disable-error-code="no-untyped-def"

X = ef.sin(ef.arange(6.0) + 1).reshape(3, 2)


def traced(f: Callable[..., Any], *args: Any) -> Graph:
    """The graph before all passes."""
    graph = ef.trace(f).graph(*args)
    return graph if graph.origin is None else graph.origin.graph


def pruned(f: Callable[..., Any], *args: Any) -> Graph:
    """The graph after `prune`, which gives the same bits, and of which it finds no more."""
    graph = traced(f, *args)
    result, report = prune(graph)
    assert report.changes
    verify(result)
    assert prune(result)[0] is result
    fed = dict(zip(graph.inputs, args, strict=False))
    expected = graph.run(graph.outputs, fed)
    got = result.run(result.outputs, dict(zip(result.inputs, args, strict=False)))
    for a, b in zip(got, expected, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return result


def loop_of(graph: Graph) -> Node:
    (node,) = [n for n in graph.nodes if any(n.subgraphs())]
    return node


def ops(graph: Graph) -> list[str]:
    """The ops of a graph and of what is inside it."""
    inner = [op for node in graph.nodes for _, part in node.subgraphs() for op in ops(part)]
    return [node.op for node in graph.nodes] + inner


def test_rows_that_nobody_reads_are_not_stacked() -> None:
    def f(xs):
        return ef.scan(lambda c, x: (c + x, (ef.exp(c), ef.tanh(c))), ef.zeros(2), xs)

    graph = pruned(lambda xs: (f(xs)[0], f(xs)[1][1])[0], X)
    assert len(loop_of(graph).outputs) == 1
    assert "exp" not in ops(graph)
    graph = pruned(lambda xs: f(xs)[1][1], X)
    assert [str(v.spec) for v in loop_of(graph).outputs] == ["f32[2]@cpu:0", "f32[3,2]@cpu:0"]
    assert ("exp" in ops(graph), "tanh" in ops(graph)) == (False, True)


def test_the_report_says_what_went() -> None:
    def f(xs):
        return ef.scan(lambda c, x: (c + x, ef.exp(c)), ef.zeros(2), xs)[0]

    text = str(prune(traced(f, X))[1])
    assert "&scan = scan lost 1 unread result" in text
    assert "in &scan: dropped %exp = exp, which is not needed" in text


def test_a_carry_for_itself_alone_goes() -> None:
    """Also in a circle, and with the parts of ``xs`` and the operands that it took."""

    def f(xs, w):
        def iteration(c, x):
            a, b, kept = c
            return (b + x.sum() * w, a, kept * 2), None

        return ef.scan(iteration, (w, w, ef.tensor(1.0)), xs)[0][2]

    graph = pruned(f, X, ef.tensor(3.0))
    node = loop_of(graph)
    # `kept`, and the 2
    assert (len(node.inputs), node.attrs["carry"], ops(graph).count("multiply")) == (2, 2, 1)

    def g(x, n):
        return ef.while_loop(
            lambda i, y, z: i < n, lambda i, y, z: (i + 1, ef.sin(y) + z, z + 1), (0, x, x)
        )[2]

    graph = pruned(g, ef.tensor(0.5), 4)
    assert len(loop_of(graph).outputs) == len(loop_of(graph).inputs) == 4  # i, z, n, 1
    assert "sin" not in ops(graph)


def test_what_the_condition_reads_stays() -> None:
    def f(x):
        return ef.while_loop(
            lambda y, z: y < 3, lambda y, z: (y + ef.exp(y), z + 1), (x, ef.tensor(0))
        )[1]

    graph = traced(f, ef.tensor(0.5))
    assert prune(graph)[0] is graph


def test_effects_stay_with_what_they_need() -> None:
    v, printed = ef.Variable(0.0), ef.Variable(0.0)

    def f(xs):
        def iteration(c, x):
            v.assign_add(c)
            return (c + x.sum()), ef.exp(c) * printed

        ef.scan(iteration, ef.tensor(1.0), xs)
        return xs

    graph = pruned(f, X)
    assert (len(loop_of(graph).outputs), ops(graph).count("exp")) == (1, 0)
    v.assign(0.0)
    ef.trace(f)(X)
    traced = float(v)
    v.assign(0.0)
    f(X)
    assert float(v) == traced


def test_loops_without_a_result() -> None:
    """What is left has an effect in each iteration, and nothing is carried."""
    v = ef.Variable(0)

    @ef.trace
    def f(n):
        def iteration(c, _):
            v.assign_add(2)
            return c + 1, None

        ef.scan(iteration, ef.tensor(0), None, length=5)
        ef.cond(n > 0, lambda: (v.assign_add(100), n)[1], lambda: n)

    f(ef.tensor(1))
    assert int(v) == 110
    f(ef.tensor(-1))
    assert int(v) == 120
    graph = f.graph(ef.tensor(1))
    assert [len(n.outputs) for n in graph.nodes if any(n.subgraphs())] == [1, 0]  # the 2


def test_branches_lose_results_and_operands() -> None:
    def f(x, y):
        a, _ = ef.cond(
            x.sum() > 0, lambda: (x * 2, ef.exp(y)), lambda: (x, ef.while_loop(
                lambda z: z.sum() < 9, lambda z: z + 1, y))
        )  # fmt: skip
        return a

    for sign in (1, -1):
        graph = pruned(f, sign * ef.ones(3), ef.zeros(4))
        assert len(loop_of(graph).inputs) == 3  # the predicate, x, the 2
        assert {"exp", "while_loop"}.isdisjoint(ops(graph))
    graph = pruned(
        lambda i, x: ef.switch(i, [lambda: (x, x * 2), lambda: (-x, ef.sin(x))])[0],
        ef.tensor(1), ef.ones(3),
    )  # fmt: skip
    assert ops(graph) == ["switch", "negative"]


def test_in_each_other() -> None:
    """A result of the inner loop that the outer one needs only for what nobody reads."""

    def f(xs):
        def outer(c, x):
            a, b = c
            (s, t), rows = ef.scan(lambda d, y: ((d[0] + y, d[1] * y), d), (a, b), x)
            return (s, t), (rows[0], ef.sin(t))

        return ef.scan(outer, (ef.tensor(0.0), ef.tensor(1.0)), xs)[1][0]

    graph = pruned(f, X)
    assert ("sin" in ops(graph), "multiply" in ops(graph)) == (False, False)


def test_what_tells_a_size_stays() -> None:
    """A name that stands for another size in each iteration, told by what is else not read."""

    def grown(x, n):
        def body(y, z, i):
            y = ef.concat([y, x])
            return y, z + ef.ones(y.shape).sum(), i + 1

        return ef.while_loop(lambda y, z, i: i < n, body, (x, ef.tensor(0.0), 0))

    f = ef.trace(lambda x, n: grown(x, n)[1])
    assert float(f(ef.ones(2), 3)) == 4 + 6 + 8
    g = ef.trace(lambda x, n: ef.zeros(grown(x, n)[0].shape))
    assert g(ef.ones(2), 3).shape == (8,)

    @ef.trace
    def named(x):
        y = x[x > 0]
        return ef.scan(lambda c, _: (c + 1, ef.zeros(y.shape)), 0, None, length=3)[1]

    assert named(ef.tensor([1.0, -1.0, 2.0])).shape == (3, 2)


def test_shared_calls_stay_shared() -> None:
    def block(x, w):
        ef.exp(x)
        return ef.tanh(x @ w), ef.scan(lambda c, r: (c + r, c), x[0], x)[0]

    def f(x, w):
        for _ in range(3):
            x, _ = ef.call(block, x, w)
        return x

    graph = pruned(f, ef.ones((2, 2)), ef.eye(2))
    bodies = {id(n.attrs["body"]) for n in graph.nodes if n.op == "call"}
    assert (len(bodies), "exp" in ops(graph)) == (1, False)


def test_locals_are_found_after_others_went() -> None:
    @ef.trace
    def f(x):
        a, b, c = ef.while_loop(  # noqa: RUF059 - they are looked for by name
            lambda a, b, c: b < 5, lambda a, b, c: (a * 2, b + 1, c + b), (x, x, x)
        )
        return c

    f(ef.tensor(3.0))
    graph = f.graph(ef.tensor(3.0))
    values = graph.run([f.value("b"), f.value("c")], {graph.inputs[0]: ef.tensor(3.0)})
    assert list(map(float, values)) == [5.0, 10.0]
    with pytest.raises(TraceError, match="no value of its own for 'a'"):
        f.value("a")


def test_no_error_of_what_is_not_computed() -> None:
    """As of nodes without a loop (docs/decisions/0011): who does not ask is not told."""

    def f(xs, i):
        return ef.scan(lambda c, x: (c + x.sum(), xs[i]), ef.tensor(0.0), xs)

    with pytest.raises(TensorIndexError):
        ef.trace(f)(X, ef.tensor(7))
    assert ef.trace(lambda xs, i: f(xs, i)[0])(X, ef.tensor(7)).shape == ()


@pytest.mark.parametrize("last", [True, False])
def test_gradients_keep_every_bit(last: bool) -> None:
    layer = ef.nn.LSTM(2, 3)

    def loss(x):
        outputs, (h, _) = layer(x)
        return (h * h).sum() if last else (outputs[-1] * outputs[-1]).sum()

    x = ef.stack([X, X * 2])
    graph = traced(ef.value_and_grad(loss, wrt=layer.trainable), x)
    expected = graph.run(graph.outputs, {graph.inputs[0]: x})
    made, _ = optimise(graph)
    results = made.run(made.outputs, {made.inputs[0]: x})
    for a, b in zip(results, expected, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    forward = next(n for n in made.nodes if n.op == "scan")
    rows = len(forward.outputs) - forward.attrs["carry"]
    assert rows == (0 if last else 1)
