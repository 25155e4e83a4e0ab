"""`remat`: the same gradients with less memory, no effect twice."""

from __future__ import annotations

import re
import weakref

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.autodiff.graph_recorder import Recorder
from eagerflow.errors import GradientError
from eagerflow.runtime import replay
from eagerflow.source import capture

X = ef.tensor([0.5, 1.0, 2.0], dtype=ef.float64)


def block(x):
    return ef.exp(ef.sin(x) * x) * 2


def same(f, g, *args):
    for a, b in zip(
        ef.grad(f, tuple(range(len(args))))(*args),
        ef.grad(g, tuple(range(len(args))))(*args),
        strict=True,
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_value_and_gradient_are_the_same() -> None:
    again = ef.remat(block)
    np.testing.assert_array_equal(again(X).numpy(), block(X).numpy())
    same(lambda x: again(x).sum(), lambda x: block(x).sum(), X)


def slope(f):
    return lambda x: ef.grad(lambda x: f(x).sum())(x) * x


def test_second_and_third_derivatives() -> None:
    again = ef.remat(block)
    f, g = again, block
    for _ in range(2):
        f, g = slope(f), slope(g)
        same(lambda x, f=f: f(x).sum(), lambda x, g=g: g(x).sum(), X)


def test_under_forward_mode() -> None:
    again, t = ef.remat(block), ef.ones(3, dtype=ef.float64)
    want = ef.jvp(block, (X,), (t,))[1]
    np.testing.assert_allclose(ef.jvp(again, (X,), (t,))[1].numpy(), want.numpy(), rtol=1e-12)
    for outer in (again, block):
        slope = ef.grad(lambda x, f=outer: f(x).sum())
        forward_reverse = ef.jvp(slope, (X,), (t,))[1]
        reverse_forward = ef.grad(lambda x, f=outer: ef.jvp(f, (x,), (t,))[1].sum())(X)
        np.testing.assert_allclose(forward_reverse.numpy(), reverse_forward.numpy(), rtol=1e-12)


def test_trees_and_keyword_arguments() -> None:
    @ef.remat
    def f(tree, *, scale, text):
        return {"a": tree["x"] * scale, "n": len(text), "b": [tree["x"].sum(), tree["k"]]}

    result = f({"x": X, "k": 7}, scale=X, text="ab")
    assert (result["n"], result["b"][1]) == (2, 7)
    gradient = ef.grad(lambda x: f({"x": x, "k": 7}, scale=x, text="ab")["a"].sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), 2 * X.numpy())


def test_the_python_code_runs_once() -> None:
    calls = []

    @ef.remat
    def f(x):
        calls.append(float(x.sum()))
        return x * x if calls[-1] > 0 else x

    np.testing.assert_array_equal(ef.grad(lambda x: f(x).sum())(X).numpy(), 2 * X.numpy())
    assert calls == [3.5]


def test_what_is_closed_over_has_its_gradient() -> None:
    def loss(remat):
        def f(x, y):
            inner = remat(lambda a: ef.sin(a * y) * a + y)
            return inner(x).sum() + inner(y).sum()

        return f

    same(loss(ef.remat), loss(lambda f: f), X, X * 2)
    same(loss(ef.remat), loss(lambda f: f), X, X)


def test_the_argument_closed_over_as_well() -> None:
    same(lambda x: ef.remat(lambda a: a * x)(x).sum(), lambda x: (x * x).sum(), X)
    same(lambda x: ef.remat(lambda a, b: a * a * b)(x, x).sum(), lambda x: (x**3).sum(), X)


def test_what_it_gives_back_may_be_what_it_got() -> None:
    same(lambda x: ef.remat(lambda a: (a, x, a))(x)[2].sum() * 2, lambda x: x.sum() * 2, X)
    same(lambda x: ef.remat(lambda a: x)(1.0).sum() * 3, lambda x: x.sum() * 3, X)


def test_variables_within() -> None:
    w, b = ef.Variable([1.0, 2.0, 3.0]), ef.Variable([0.5, 0.5, 0.5])

    @ef.remat
    def f(x):
        return ef.sin(x * w) * w + b

    gradient = ef.grad(lambda x: (f(x) * f(x + 1)).sum(), wrt=(w, b))(2.0)
    plain = ef.grad(lambda x: (f.__wrapped__(x) * f.__wrapped__(x + 1)).sum(), wrt=(w, b))(2.0)
    for got, want in zip(gradient, plain, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def test_a_value_that_was_read_is_not_read_again() -> None:
    w = ef.Variable(3.0)
    with ef.GradientTape() as tape:
        y = ef.remat(lambda x: x * w * w)(ef.tensor(2.0))
    w.assign(100.0)
    assert float(tape.gradient(y, w)) == 12.0


def test_a_gather_within_is_sparse() -> None:
    table = ef.Variable(ef.ones((4, 2)))
    rows = ef.remat(lambda i: ef.take(table, i, axis=0) * 2)
    gradient = ef.grad(lambda: rows(ef.tensor([1, 1])).sum(), wrt=table)()
    assert isinstance(gradient, ef.IndexedSlices)
    np.testing.assert_array_equal(gradient.numpy()[:2], [[0, 0], [4, 4]])


def test_random_draws_are_the_same_and_are_drawn_once() -> None:
    generator = ef.random.Generator(seed=7)

    @ef.remat
    def dropout(x):
        mask = ef.random.uniform(x.shape, dtype=x.dtype, generator=generator) > 0.5
        return ef.where(mask, x * x, 0.0)

    x = ef.ones(1000) * 3
    value, gradient = ef.value_and_grad(lambda x: dropout(x).sum())(x)
    kept = gradient.numpy() != 0
    assert 300 < kept.sum() < 700
    assert float(value) == 9.0 * kept.sum()
    after = ef.random.uniform((3,), generator=generator)
    generator = ef.random.Generator(seed=7)
    dropout(x)
    np.testing.assert_array_equal(
        after.numpy(), ef.random.uniform((3,), generator=generator).numpy()
    )


def test_assignments_within_happen_once() -> None:
    steps = ef.Variable(0.0, trainable=False)

    @ef.remat
    def f(x):
        steps.assign_add(1.0)
        return x * x

    np.testing.assert_array_equal(ef.grad(lambda x: f(x).sum())(X).numpy(), 2 * X.numpy())
    assert float(steps) == 1.0


def test_in_place_updates_within_and_of_what_is_closed_over() -> None:
    total = ef.zeros(3, dtype=ef.float64)

    @ef.remat
    def f(x):
        x += 1.0
        x[0] = x[1]
        total[...] = total + x
        return x * x * total

    def plain(x):
        y = ef.stack([x[1] + 1.0, x[1] + 1.0, x[2] + 1.0])
        return y * y * y

    got = ef.grad(lambda x: f(x).sum())(X)
    np.testing.assert_allclose(got.numpy(), ef.grad(lambda x: plain(x).sum())(X).numpy())
    np.testing.assert_array_equal(total.numpy(), [2.0, 2.0, 3.0])


def test_it_nests() -> None:
    inner = ef.remat(ef.sin)
    outer = ef.remat(lambda x: inner(inner(x) * x) + x)
    same(lambda x: outer(x).sum(), lambda x: (ef.sin(ef.sin(x) * x) + x).sum(), X)


def test_a_custom_rule_within_is_used() -> None:
    calls = []

    @ef.custom_vjp
    def f(x):
        return x * 2

    def fwd(x):
        calls.append(1)
        return x * 2, x

    f.defvjp(fwd, lambda x, g: (g * x * 100,))
    w = ef.Variable([1.0, 1.0, 1.0], dtype=ef.float64)
    gradient = ef.grad(lambda x: ef.remat(lambda x: f(x * w))(x).sum())(X)
    np.testing.assert_array_equal(gradient.numpy(), X.numpy() * 100)
    by_w = ef.grad(lambda: ef.remat(lambda x: f(x * w))(X).sum(), wrt=w)()
    np.testing.assert_array_equal(by_w.numpy(), X.numpy() ** 2 * 100)
    assert len(calls) == 2  # one for each of the two runs, none for the recomputation


def test_a_gradient_within() -> None:
    def slope(x):
        return ef.grad(lambda x: (x * x * x).sum())(x)

    same(lambda x: (ef.remat(slope)(x) * x).sum(), lambda x: (3 * x**3).sum(), X)


def test_ways_without_derivative_are_seen_through() -> None:
    with pytest.raises(GradientError, match="argument 0 reaches the result only through greater"):
        ef.grad(lambda x: ef.remat(lambda x: (x > 1).astype(ef.float32))(x).sum())(X)
    f = ef.remat(lambda x, y: ef.where(x > 1, y, 0.0))
    np.testing.assert_array_equal(ef.grad(lambda y: f(X, y).sum())(X).numpy(), [0, 0, 1])
    with pytest.raises(GradientError, match="argument 0 reaches the result only through greater"):
        ef.grad(lambda x, y: f(x, y).sum())(X, X)
    np.testing.assert_array_equal(ef.grad(lambda x: f(x, X).sum() + x.sum())(X).numpy(), [1, 1, 1])


def test_a_block_without_results_within() -> None:
    shown = []

    def outer(x):
        ef.remat(lambda y: shown.append(float((y * x).sum())))(x)
        return ef.sin(x)

    same(lambda x: ef.remat(outer)(x).sum(), lambda x: ef.sin(x).sum(), X)
    assert len(shown) == 1


def test_what_a_block_within_leaves_outside_is_a_value_from_outside() -> None:
    made = []

    def outer(x):
        ef.remat(lambda y: made.append(ef.exp(y)))(x)
        return ef.sin(x) * made[0]

    got = ef.grad(lambda x: ef.remat(outer)(x).sum())(X)
    np.testing.assert_allclose(got.numpy(), (ef.cos(X) * ef.exp(X)).numpy())


# --- recomputed ops ------------------------------------------------------------------------------


class Seen(ef.core.interpreter.AbstractInterpreter):
    """An interpreter that records the ops that run, with their lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def bind(self, op, inputs, attrs):
        source = capture(2)
        assert source is not None
        self.lines.append((op.name, source.text))
        return self.below.bind(op, inputs, attrs)

    def count(self, name: str) -> int:
        return sum(op == name for op, _ in self.lines)


def seen(f) -> Seen:
    monitor = Seen()
    with ef.core.monitors.monitored(monitor):
        ef.grad(lambda x: ef.remat(f)(x).sum())(X)
    return monitor


def test_only_what_the_results_need_runs_again() -> None:
    def f(x):
        unused = ef.tan(x)
        inner = ef.remat(lambda y: (ef.tanh(y), ef.exp(y))[1])
        ef.remat(lambda y: ef.cosh(y * unused))(x)
        return inner(ef.sin(x))

    runs = seen(f)
    assert [runs.count(name) for name in ("tan", "tanh", "cosh")] == [1, 1, 1]
    assert runs.count("sin") == 2
    assert runs.count("exp") == 3  # for the outer function once more, and for the inner one


def test_ops_that_run_again_have_the_lines_of_the_function() -> None:
    def f(x):
        y = ef.atan(x)
        inner = ef.remat(lambda z: ef.sinh(z))
        return inner(y)

    lines = [(op, line) for op, line in seen(f).lines if op in ("atan", "sinh")]
    assert lines.count(("atan", "y = ef.atan(x)")) == 2
    assert lines.count(("sinh", "inner = ef.remat(lambda z: ef.sinh(z))")) == 3
    assert len(lines) == 5


def test_the_graph_that_runs_again() -> None:
    w = ef.Variable([3.0])
    x = ef.tensor([2.0])
    recorder = Recorder([x])
    with ef.core.interpreter.installed(recorder):
        y = ef.remat(lambda a: ef.exp(a) * w)(ef.negative(x))
        ef.sin(y)
    graph, held = recorder.finish([y])
    lines = [line.partition(" # ")[0] for line in str(graph).splitlines()]
    lines = [re.sub(", composite=.*, own=", ", own=", line) for line in lines]
    assert lines == [
        "graph(%x: f32[1]@cpu:0, %x_1: f32[1]@cpu:0) {",
        "  %negative = negative(%x) : f32[1]",
        '  %call = call(%negative, %x_1) {forward=graph "<lambda>"'
        "(%x: f32[1]@cpu:0, %x_1: f32[1]@cpu:0) {",
        "    %exp = exp(%x) : f32[1]",
        "    %multiply = multiply(%exp, %x_1) : f32[1]",
        "    return %multiply, %x, %x_1, %x_1",
        "  }, own=1} : f32[1]",
        "  return %call",
        "}",
    ]
    assert [float(value) for value in held] == [3.0]
    w.assign([100.0])
    np.testing.assert_array_equal(replay(graph, [x, *held])[0].numpy(), y.numpy())


# --- memory --------------------------------------------------------------------------------------


class Watched:
    """A counter of the live results of ``exp``, and of their maximum at a time."""

    def __init__(self) -> None:
        self.alive: list[weakref.ref] = []
        self.most = 0

    def exp(self, x):
        y = ef.exp(x)
        self.alive = [*(r for r in self.alive if r() is not None), weakref.ref(y._data)]
        self.most = max(self.most, len(self.alive))
        return y


def test_intermediate_values_are_not_kept() -> None:
    def run(wrap):
        watched = Watched()

        @wrap
        def layer(x):
            for _ in range(5):
                x = watched.exp(-x)
            return x

        def deep(x):
            for _ in range(4):
                x = layer(x)
            return x.sum()

        with ef.GradientTape(persistent=True) as tape:
            tape.watch(X)
            y = deep(X)
        held = sum(r() is not None for r in watched.alive)
        return held, tape.gradient(y, X).numpy()

    held, gradient = run(lambda f: f)
    assert held == 20
    few, same_gradient = run(ef.remat)
    assert few == 3  # the inputs of the layers but the first
    np.testing.assert_allclose(gradient, same_gradient, rtol=1e-12)


def test_recomputed_values_are_let_go_one_block_at_a_time() -> None:
    counted = []
    kept: list[weakref.ref] = []

    class Counting(ef.core.interpreter.AbstractInterpreter):
        def bind(self, op, inputs, attrs):
            result = self.below.bind(op, inputs, attrs)
            if op.name == "exp":
                kept[:] = [*(r for r in kept if r() is not None), weakref.ref(result._data)]
                counted.append(len(kept))
            return result

    def layer(x):
        for _ in range(5):
            x = ef.exp(-x)
        return x

    def deep(x, layer):
        for _ in range(6):
            x = layer(x)
        return x.sum()

    most = {}
    for name, one in (("plain", layer), ("remat", ef.remat(layer))):
        counted.clear()
        with ef.core.monitors.monitored(Counting()):
            ef.grad(deep)(X, one)
        most[name] = max(counted)
    assert most["plain"] == 30
    assert most["remat"] <= 6 + 5 + 1
