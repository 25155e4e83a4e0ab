"""`while_loop`: the carry, effects in bodies, memory of gradients, errors of iterations."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorValueError, TraceError
from eagerflow.runtime import Executable

# mypy: disable-error-code="no-untyped-def"


def both(f: Any) -> list[Any]:
    return [f, ef.trace(f)]


def test_arguments_of_the_functions() -> None:
    """The elements of a tuple or a list are separate, anything else is one."""
    for f in both(lambda x: ef.while_loop(lambda a, b: a < 3, lambda a, b: [a + 1, b * 2], [0, x])):
        count, doubled = f(ef.tensor(1.0))
        assert (count, float(doubled)) == (3, 8.0)
    for f in both(
        lambda x: ef.while_loop(
            lambda s: s["i"] < 3, lambda s: {"i": s["i"] + 1, "x": s["x"] * 2}, {"i": 0, "x": x}
        )
    ):
        assert float(f(ef.tensor(1.0))["x"]) == 8.0
    for f in both(lambda x: ef.while_loop(lambda a: a < 9, lambda a: a * 2, (x,))):
        (x,) = f(ef.tensor(1.0))
        assert float(x) == 16.0


def test_no_iterations() -> None:
    for f in both(lambda x: ef.while_loop(lambda y, n: y > 5, lambda y, n: (y / 0, n + 1), (x, 7))):
        same, seven = f(ef.tensor(1.0))
        assert (float(same), seven) == (1.0, 7)


def test_at_most_so_many_iterations() -> None:
    def f(x, most):
        return ef.while_loop(lambda y: y < 100, lambda y: y * 2, x, max_iterations=most)

    for most, expected in ((3, 8.0), (0, 1.0), (50, 128.0)):
        for g in both(lambda x, most=most: f(x, most)):
            assert float(g(ef.tensor(1.0))) == expected
    for wrong in (-1, True, 2.5, "3"):
        with pytest.raises(TensorValueError, match="max_iterations is not an int, or too small"):
            f(ef.tensor(1.0), wrong)
    with pytest.raises(TensorValueError, match="parallel_iterations is not an int, or too small"):
        ef.while_loop(lambda x: x < 1, lambda x: x + 1, 0, parallel_iterations=0)


def test_a_number_of_iterations_that_only_the_graph_knows() -> None:
    for call in (
        lambda n: ef.while_loop(lambda x: True, lambda x: x + 1, 0, max_iterations=n),
        lambda n: ef.scan(lambda c, _: (c, c), 0.0, None, length=n),
    ):
        with pytest.raises(TraceError, match="is a tensor, which is known only when the graph"):
            ef.trace(call)(ef.tensor(2))


def test_conditions() -> None:
    for f in both(lambda x: ef.while_loop(lambda y: y, lambda y: y - 1, x)):
        with pytest.raises(DTypeError, match="while_loop: cond is no bool"):
            f(ef.tensor(1.0))
    for f in both(lambda x: ef.while_loop(lambda y: y > 0, lambda y: y - 1, x)):
        with pytest.raises(ShapeError, match="while_loop: cond has axes"):
            f(ef.ones(2))


def test_numbers_stay_pythons_own() -> None:
    """Beyond 64 bits, and with the errors that Python has."""

    def factorial(n):
        return ef.while_loop(lambda i, p: i <= n, lambda i, p: (i + 1, p * i), (1, 1))[1]

    def divide(n):
        return ef.while_loop(lambda i, x: i > -2, lambda i, x: (i - 1, x / i), (n, 1.0))[1]

    for f in both(factorial):
        assert f(30) == 265252859812191058636308480000000
    for f in both(divide):
        with pytest.raises(ZeroDivisionError):
            f(2)


def test_a_number_may_become_a_tensor() -> None:
    """Its first value counts as one of the dtype that an iteration gives."""
    for f in both(
        lambda xs: ef.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + xs[i]), (0, 0))[1]
    ):
        assert (
            f(ef.tensor([0.5, 1.0, 2.0], dtype=ef.float16)).type
            == ef.tensor(0, dtype=ef.float16).type
        )
        with pytest.raises(TraceError, match="an iteration changes the type of the carry"):
            f(ef.ones((3, 2)))


def test_a_tensor_stays_one_where_an_iteration_gives_a_number() -> None:
    for f in both(lambda x: ef.while_loop(lambda i: i < 3, lambda i: 7, x)):
        assert f(ef.tensor(0.0, dtype=ef.float16)).type == ef.tensor(0.0, dtype=ef.float16).type
    for f in both(lambda x: ef.while_loop(lambda p, i: p, lambda p, i: (False, i + 1), (x, 0))):
        flag, iterations = f(ef.tensor(True))
        assert (flag.dtype, bool(flag), iterations) == (ef.bool, False, 1)


def test_what_no_iteration_changes_stays_static() -> None:
    @ef.trace
    def f(x, n):
        def body(i, n, x, axis):
            return i + 1, n, x * n, axis

        return ef.while_loop(lambda i, n, x, axis: i < 2, body, (0, n, x, "rows"))

    assert (f(ef.tensor(1.0), 3)[1], float(f(ef.tensor(1.0), 3)[2])) == (3, 9.0)
    assert len(f.graph(ef.tensor(1.0), 3).inputs) == 2


def test_sizes_may_change() -> None:
    def f(x, n):
        y, k, _ = ef.while_loop(
            lambda y, k, i: i < n,
            lambda y, k, i: (ef.concat([y, x]), k + y.shape[0], i + 1),
            (x[:0], 0, 0),
        )
        return y, k, y.shape[0] + 1, ef.ones(y.shape)

    for n in (0, 1, 4):
        for a, b in zip(f(ef.ones(2), n), ef.trace(f)(ef.ones(2), n), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_errors_name_both_lines() -> None:
    def float64(x):
        return x.astype(ef.float64)

    def wider(x):
        return ef.expand_dims(x, axis=0)

    def pair(x):
        return {"a": x}

    for body, words in (
        (float64, "f64[2]@cpu:0 after an iteration"),
        (wider, "f32[1,2]@cpu:0 after an iteration"),
        (pair, "changes the structure of the carry"),
        (lambda x: 3, "the int 3 after an iteration"),
    ):
        for f in both(lambda x, body=body: ef.while_loop(lambda x: x.sum() < 5, body, x * 1.0)):
            with pytest.raises(TraceError) as caught:
                f(ef.ones(2))
            text = str(caught.value)
            assert words in text
            assert "test_loops.py" in text
    with pytest.raises(TraceError) as caught:
        ef.trace(lambda x: ef.while_loop(lambda x: x.sum() < 5, float64, x * 1.0))(ef.ones(2))
    text = str(caught.value)
    assert "x.astype(ef.float64)" in text
    assert "float64, x * 1.0))(ef.ones(2))" in text
    with pytest.raises(TraceError, match=r"the float 0\.5 after an iteration"):
        ef.while_loop(lambda n: n < 3, lambda n: n + 0.5, 0)


def test_python_cannot_have_a_number_that_iterations_change() -> None:
    def use(what):
        def body(i, x):
            what(i, x)
            return i + 1, x

        return lambda x: ef.while_loop(lambda i, x: i < 3, body, (0, x))

    for what in (lambda i, x: range(i), lambda i, x: [1, 2, 3][i]):
        with pytest.raises(TraceError, match="which differs from iteration to iteration"):
            ef.trace(use(what))(ef.ones(3))


def test_errors_tell_the_iteration() -> None:
    def f(x, i):
        def body(n, y):
            def inner(m, y):
                wrong = n * 10 + m == 37
                return m + 1, ef.cond(wrong, lambda: ef.take(y, i, axis=0), lambda: y)

            return n + 1, ef.while_loop(lambda m, y: m < 10, inner, (0, y))[1]

        return ef.while_loop(lambda n, y: n < 5, body, (0, x))[1]

    args = (ef.ones(3), ef.tensor([0, 1, 7]))
    ways = [f, ef.trace(f), lambda x, i: ef.grad(lambda x: ef.trace(f)(x, i).sum())(x)]
    for way in ways:
        with pytest.raises(ef.errors.TensorIndexError) as caught:
            way(*args)
        notes = "\n".join(caught.value.__notes__)
        inner, outer = notes.find("in iteration 7 (counted"), notes.find("in iteration 3 (counted")
        assert -1 < inner < outer
        assert "ef.take(y, i, axis=0)" in str(caught.value)
    with ef.config(check_nan=True), pytest.raises(ef.errors.NonFiniteError) as error:
        ef.trace(lambda x: ef.while_loop(lambda y: y < 1e38, lambda y: y * y * 1e30, x))(
            ef.tensor(2.0)
        )
    assert "in iteration 1 (counted from 0)" in "\n".join(error.value.__notes__)


def test_effects_in_bodies() -> None:
    v, log = ef.Variable(0.0), ef.Variable(ef.zeros(4))

    def f(x):
        def body(i, x):
            v.assign_add(x)
            log.scatter_update(ef.expand_dims(ef.tensor(i), axis=0), ef.reshape(v.value, (1,)))
            return i + 1, x * 2

        before = v.value
        i, x = ef.while_loop(lambda i, x: v.value < 10, body, (0, x))
        return before, i, x, v.value

    for g in both(f):
        v.assign(0.0)
        log.assign(ef.zeros(4))
        before, i, x, after = g(ef.tensor(1.0))
        assert (float(before), i, float(x), float(after)) == (0.0, 4, 16.0, 15.0)
        assert list(map(float, log.value)) == [1.0, 3.0, 7.0, 15.0]


def test_printing_in_bodies(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        def body(i, x):
            ef.cond(i % 2 == 0, lambda: ef.print("even", x) or 0, lambda: 0)
            return i + 1, x + 1

        ef.while_loop(lambda i, x: i < 4, body, (0, x))
        ef.print("end")
        return x

    for g in both(f):
        g(ef.tensor(0.0))
        lines = capsys.readouterr().out.split("\n")
        assert [line.split()[0] for line in lines if line] == ["even", "even", "end"]


def test_a_variable_is_read_once_where_no_iteration_assigns_it() -> None:
    v = ef.Variable(2.0)

    @ef.trace
    def f(x):
        return ef.while_loop(lambda x: x < v * 50, lambda x: x * v, x)

    graph = f.graph(ef.tensor(1.0))
    assert [n.op for n in graph.nodes].count("read") == 1
    assert float(f(ef.tensor(1.0))) == 128.0
    x = ef.tensor(1.0)
    traced = ef.trace(lambda x: ef.grad(f, wrt=v)(x))
    assert float(ef.grad(f, wrt=v)(x)) == float(traced(x)) == 7 * 2.0**6


def test_draws() -> None:
    """As many tickets as iterations, also in gradients and in what is computed again."""
    generator = ef.random.Generator(5)

    def f(x):
        a = generator.uniform(())
        y, _ = ef.while_loop(
            lambda y, i: y.sum() < 4, lambda y, i: (y + generator.uniform((2,)) * x, i + 1), (x, 0)
        )
        return (y * generator.normal((2,))).sum() * a

    def run(g: Any) -> Any:
        generator.state = {"seed": 5, "ticket": 0}
        return np.asarray(g(ef.tensor([0.5, 0.25]))), generator.state

    expected, state = run(f)
    assert run(ef.trace(f))[1] == state
    assert run(ef.trace(f))[0].tobytes() == expected.tobytes()
    slope, state = run(lambda x: ef.grad(f)(x))
    for g in (
        ef.grad(ef.trace(f)), ef.trace(lambda x: ef.grad(f)(x)),
        ef.trace(lambda x: ef.grad(ef.remat(f))(x)),
    ):  # fmt: skip
        gradient, after = run(g)
        np.testing.assert_allclose(gradient, slope, rtol=1e-6)
        assert after == state


def _residual(recompute: bool) -> list[int]:
    """How many values each iteration of the loop keeps for the gradient."""

    def f(x):
        def body(y, i):
            return ef.tanh(ef.sin(ef.exp(-y * y) * x)) * y, i + 1

        return ef.while_loop(lambda y, i: i < 5, body, (x, 0), recompute=recompute)[0].sum()

    traced = ef.trace(lambda x: ef.grad(f)(x))
    bodies = [n.attrs["body"] for n in traced.graph(ef.ones(2)).nodes if n.op == "while_loop"]
    return [len(n.inputs) - 1 for g in bodies for n in g.nodes if n.op == "list_push"]


def test_to_recompute_keeps_the_carry_alone() -> None:
    (kept,) = _residual(recompute=False)
    assert kept > 3
    assert _residual(recompute=True) == [1]


def test_what_iterations_do_not_need_is_freed() -> None:
    """The graph holds one value of the carry, and the tape's lists end with the gradient."""
    text = Executable(
        ef.trace(lambda x: ef.while_loop(lambda y: y.sum() < 5, lambda y: ef.sin(y) + 1, x))
        .graph(ef.ones(2))
        .optimise()
    ).text
    assert text.count("del ") >= 2

    f = ef.trace(
        lambda x: ef.while_loop(lambda y, i: i < 50, lambda y, i: (y * x, i + 1), (x, 0))[0]
    )
    with ef.GradientTape() as tape:
        x = ef.ones(1000)
        tape.watch(x)
        y = f(x)
        held = weakref.ref(tape)
    tape.gradient(y, x)
    del tape, y
    gc.collect()
    assert held() is None


def test_200_lengths_train_with_two_traces() -> None:
    w = ef.Variable(0.9)

    @ef.trace
    def step(xs):
        def loss():
            return ef.while_loop(
                lambda i, s: i < xs.shape[0], lambda i, s: (i + 1, s * w + xs[i]), (0, 0.0)
            )[1]

        value, slope = ef.value_and_grad(loss, wrt=w)()
        w.assign_sub(0.001 * slope)
        return value

    for n in range(1, 201):
        w.assign(0.9)
        value = float(step(ef.ones(n)))
        assert abs(value - (1 - 0.9**n) / 0.1) < 1e-3
    assert len(step.traces) == 2


def test_an_endless_loop_is_stopped() -> None:
    """Python in an iteration raises as a key press would, between two ops; all is usable after."""

    def iteration(n: Any) -> None:
        if int(n) == 5:
            raise KeyboardInterrupt

    @ef.trace
    def f(x):
        def body(x):
            ef.py_call(iteration, None, x)
            return x + 1

        return ef.while_loop(lambda x: True, body, x)

    with pytest.raises(KeyboardInterrupt):
        f(ef.tensor(0))
    assert (
        int(ef.trace(lambda x: ef.while_loop(lambda x: x < 9, lambda x: x + 1, x))(ef.tensor(0)))
        == 9
    )
