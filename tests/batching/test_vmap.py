"""`vmap`: axes, trees, nesting, handles, draws, and refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import AxisError, DTypeError, LeakedTensorError, ShapeError, VmapError
from tests.messages import says

X = ef.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
V = ef.tensor([1.0, 2.0, 3.0])


def test_the_axis_of_the_rows_is_hidden() -> None:
    seen = []

    def f(x: ef.Tensor) -> ef.Tensor:
        seen.append((x.shape, x.ndim, x.size, len(x), str(x.dtype)))
        return x.sum()

    assert ef.vmap(f)(X).tolist() == [3.0, 7.0, 11.0]
    assert seen == [((2,), 1, 2, 2, "float32")]


def test_axes_of_trees() -> None:
    def f(d: Any, y: Any) -> Any:
        return {"sum": d["a"].sum() * d["b"], "whole": y * 2}

    axes = ({"a": 1, "b": None}, -1)
    got = ef.vmap(f, axes, {"sum": 0, "whole": -1})({"a": X, "b": 10.0}, X)
    assert got["sum"].tolist() == [90.0, 120.0]
    assert got["whole"].tolist() == (X * 2).tolist()
    assert ef.vmap(lambda x, *, y: x + y)(V, y=V).tolist() == [2.0, 4.0, 6.0]
    assert ef.vmap(lambda a, b: a - b, (None, 0))(1.0, V).tolist() == [0.0, -1.0, -2.0]


def test_results_without_rows() -> None:
    a, b = ef.vmap(lambda x: (x, 5), out_axes=(0, None))(V)
    assert a.tolist() == V.tolist()
    assert b.item() == 5
    assert ef.vmap(lambda x: ef.ones(2), out_axes=1)(V).shape == (2, 3)
    assert ef.vmap(lambda: ef.ones(()), axis_size=4)().shape == (4,)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: ef.vmap(lambda a, b: a)(V, X[:2]), ShapeError, "the numbers of rows differ"),
        (lambda: ef.vmap(lambda a: a, None)(V), ShapeError, "the number of rows"),
        (lambda: ef.vmap(lambda a: a)(ef.zeros((0, 2))), ShapeError, "there are no rows"),
        (lambda: ef.vmap(lambda a: a, 2)(X), AxisError, "argument[0] has no axis 2"),
        (lambda: ef.vmap(lambda a, b: a)(V, 3.0), AxisError, "argument[1] has no axis 0"),
        (lambda: ef.vmap(lambda a, b: a, (0,))(V, V), DTypeError, "in_axes is not one for each"),
        (lambda: ef.vmap(lambda a: a, out_axes=(0, 0))(V), DTypeError, "out_axes does not have"),
        (lambda: ef.vmap(lambda a: a, out_axes=None)(V), VmapError, "differs from row to row"),
        (
            lambda: ef.vmap(lambda a: "text")(V),
            VmapError,
            "the function gives a value that is not a tensor",
        ),
        (lambda: ef.vmap(lambda a: a + ef.zeros(3))(X), ShapeError, "x1=f32[2]@cpu:0, x2=f32[3]"),
        (lambda: ef.vmap(3), DTypeError, "the first argument is not a function"),
        (lambda: ef.vmap(lambda a: a, randomness="some")(V), ValueError, "no such randomness"),
    ],
)
def test_wrong_arguments(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, check=says(re.escape(text))):
        call()


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: x if x > 0 else -x, "write ef.where(condition, x, y), or ef.cond"),
        (lambda x: x.item(), "item(): under ef.vmap this tensor has a value for each of 3 rows"),
        (lambda x: x.numpy(), "look at it outside"),
        (lambda x: np.sin(x), "numpy.asarray(): under ef.vmap"),
        (lambda x: [0, 1][x.astype(int)], "index with the tensor itself"),
        (lambda x: ef.nonzero(x.reshape(1))[0], "choose with ef.where(condition, x, y) instead"),
        (lambda x: (ef.print(x), x)[1], "print: under ef.vmap, it has an effect on state"),
        (lambda x: ef.py_call(lambda a: a, x.type, x), "py_call: under ef.vmap, it has an effect"),
        (lambda x: ef.Variable(x) + 1, "a variable is made"),
        (lambda x: x + ef.random.normal(()), 'say ef.vmap(f, randomness="same")'),
        (lambda x: ef.repeat(X, x.astype(int) * ef.ones(2, dtype=int)), "the size of its result"),
    ],
)
def test_what_rows_cannot_do_together(f: Any, text: str) -> None:
    with pytest.raises(VmapError, check=says(re.escape(text))):
        ef.vmap(f)(V)


def test_variables_are_read_and_not_assigned() -> None:
    v = ef.Variable(2.0)
    queue = ef.Queue(3, ef.tensor(0.0))
    assert ef.vmap(lambda x: x * v)(V).tolist() == [2.0, 4.0, 6.0]
    for f in (
        lambda x: v.assign(x),
        lambda x: v.assign_add(1.0) * x,
        lambda x: ef.cond(x > 1, lambda: v.assign(x), lambda: x),
        lambda x: queue.enqueue(x),
    ):
        with pytest.raises(VmapError, check=says("it has an effect on state")):
            ef.vmap(f)(V)
        with pytest.raises(VmapError, check=says("it has an effect on state")):
            ef.trace(ef.vmap(f))(V)
    assert v.numpy() == 2.0


def test_handles_from_inside_are_updated() -> None:
    def f(x: ef.Tensor) -> ef.Tensor:
        y = ef.zeros(3)
        y[1] = x
        y += 1
        return y

    want = [[1.0, 2.0, 1.0], [1.0, 3.0, 1.0], [1.0, 4.0, 1.0]]
    for mapped in (ef.vmap(f), ef.trace(ef.vmap(f)), ef.vmap(ef.trace(f))):
        assert mapped(V).tolist() == want
    assert ef.vmap(ef.grad(lambda x: f(x)[1] * x))(V).tolist() == [3.0, 5.0, 7.0]


def test_handles_of_rows_are_values() -> None:
    def f(x: ef.Tensor) -> ef.Tensor:
        x[0] = 7.0
        return x

    before = X.tolist()
    assert ef.vmap(f)(X).tolist() == [[7.0, 2.0], [7.0, 4.0], [7.0, 6.0]]
    assert X.tolist() == before


def test_handles_from_outside_are_not() -> None:
    outside = ef.zeros(3)

    def f(x: ef.Tensor) -> ef.Tensor:
        outside[0] = x
        return x

    def g(w: ef.Tensor, x: ef.Tensor) -> ef.Tensor:
        w += 1
        return w + x

    with pytest.raises(VmapError, check=says("a tensor from outside is updated in place")):
        ef.vmap(f)(V)
    with pytest.raises(VmapError, check=says("which all rows share")):
        ef.vmap(g, (None, 0))(outside, V)
    assert outside.tolist() == [0.0, 0.0, 0.0]


def test_what_leaks_says_so() -> None:
    kept: list[ef.Tensor] = []
    ef.vmap(lambda x: (kept.append(x), x)[1])(V)
    with pytest.raises(LeakedTensorError, check=says("a call of ef.vmap that has ended")):
        kept[0] + 1


def test_draws_are_those_of_the_loop() -> None:
    def f(x: ef.Tensor) -> ef.Tensor:
        return x + ef.random.normal((2,))

    ef.random.seed(3)
    loop = ef.stack([f(x) for x in V]).tolist()
    for mapped in (
        ef.vmap(f, randomness="different"),
        ef.trace(ef.vmap(f, randomness="different")),
    ):
        ef.random.seed(3)
        assert mapped(V).tolist() == loop
    ef.random.seed(3)
    same = ef.vmap(f, randomness="same")(V * 0).tolist()
    assert same[0] == same[1] == same[2]
    ef.random.seed(3)
    both = ef.vmap(lambda x: ef.vmap(f, randomness="same")(x), randomness="different")(X * 0)
    assert both[:, 0].tolist() == both[:, 1].tolist()
    assert both[0].tolist() != both[1].tolist()


def test_nesting() -> None:
    products = ef.vmap(ef.vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))(X, X)
    assert products.tolist() == (X @ X.T).tolist()


def test_a_trace_takes_any_number_of_rows() -> None:
    f = ef.trace(lambda x: ef.vmap(lambda a: a * a.sum())(x))
    for count in (2, 4, 6):
        assert f(ef.ones((count, 3))).tolist() == [[3.0] * 3] * count
    assert len(f.traces) == 2


def _loss(params: Any, x: ef.Tensor, label: ef.Tensor) -> ef.Tensor:
    w, b, v = params
    return ef.nn.functional.cross_entropy(v @ ef.tanh(w @ x + b), label)


def _perceptron() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shapes = ((5, 4), (5,), (3, 5), (6, 4))
    *params, x = [ef.tensor(rng.normal(size=s)) for s in shapes]
    return tuple(params), x, ef.tensor(rng.integers(0, 3, 6))


def test_gradients_of_each_sample() -> None:
    params, x, labels = _perceptron()
    one = ef.grad(_loss)
    want = [one(params, x[i], labels[i]) for i in range(6)]
    mapped = ef.vmap(one, (None, 0, 0))
    for gradients in (mapped, ef.trace(mapped), ef.vmap(ef.trace(one), (None, 0, 0))):
        for i, g in enumerate(gradients(params, x, labels)):
            loop = np.stack([row[i].numpy() for row in want])
            np.testing.assert_allclose(g.numpy(), loop, rtol=1e-10, atol=1e-12)


def test_gradients_of_the_whole() -> None:
    params, x, labels = _perceptron()

    def total(params: Any) -> ef.Tensor:
        return ef.vmap(_loss, (None, 0, 0))(params, x, labels).sum()

    def loop(params: Any) -> ef.Tensor:
        return sum(_loss(params, x[i], labels[i]) for i in range(6))

    for a, b in zip(ef.grad(total)(params), ef.grad(loop)(params), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)


def _curved(x: ef.Tensor) -> ef.Tensor:
    return (ef.sin(x) * x[::-1] ** 2).sum()


def test_derivatives_of_order_two() -> None:
    x = X.astype("float64")
    want = np.stack([ef.hessian(_curved)(row).numpy() for row in x])
    for hessian in (ef.hessian(_curved), ef.jacfwd(ef.grad(_curved)), ef.jacrev(ef.grad(_curved))):
        np.testing.assert_allclose(ef.vmap(hessian)(x).numpy(), want, rtol=1e-12)

    def mapped(x: ef.Tensor) -> ef.Tensor:
        return (ef.vmap(ef.grad(_curved))(x) ** 2).sum()

    def loop(x: ef.Tensor) -> ef.Tensor:
        return sum((ef.grad(_curved)(row) ** 2).sum() for row in x)

    want = ef.grad(loop)(x).numpy()
    np.testing.assert_allclose(ef.grad(mapped)(x).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(ef.trace(ef.grad(mapped))(x).numpy(), want, rtol=1e-12)


def test_forward_mode() -> None:
    value, tangent = ef.jvp(ef.vmap(lambda x: x**3), (V,), (ef.ones(3),))
    inside = ef.vmap(lambda x: ef.jvp(lambda x: x**3, (x,), (ef.ones(()),)))(V)
    assert value.tolist() == inside[0].tolist() == [1.0, 8.0, 27.0]
    assert tangent.tolist() == inside[1].tolist() == [3.0, 12.0, 27.0]


@ef.custom_vjp
def _tenfold(x: ef.Tensor) -> ef.Tensor:
    """The square, with a derivative that is not its own."""
    return x * x


_tenfold.defvjp(lambda x: (x * x, x), lambda x, g: (10 * g * x,))


def test_derivatives_of_ones_own() -> None:
    want = [10.0, 20.0, 30.0]

    def total(x: ef.Tensor) -> ef.Tensor:
        return ef.vmap(_tenfold)(x).sum()

    for gradient in (
        ef.vmap(ef.grad(_tenfold)),
        ef.grad(total),
        ef.trace(ef.grad(total)),
        ef.grad(lambda x: ef.trace(ef.vmap(_tenfold))(x).sum()),
    ):
        assert gradient(V).tolist() == want
    assert ef.jvp(ef.vmap(_tenfold), (V,), (ef.ones(3),))[1].tolist() == want
    shared = ef.grad(lambda w: ef.vmap(lambda w, x: _tenfold(w) * x, (None, 0))(w, V).sum())
    assert shared(ef.tensor(2.0)).item() == 120.0


def test_remat() -> None:
    f = ef.remat(lambda x: ef.exp(x) * x)
    want = ef.stack([ef.grad(f)(x) for x in V]).tolist()
    assert ef.vmap(ef.grad(f))(V).tolist() == want
    assert ef.grad(lambda x: ef.vmap(f)(x).sum())(V).tolist() == want


def test_modules_and_rows_of_variables() -> None:
    ef.random.seed(0)
    layer = ef.nn.Linear(2, 4)
    np.testing.assert_allclose(ef.vmap(layer)(X).numpy(), layer(X).numpy(), rtol=1e-6)
    v = ef.Variable(2.0)

    def f(x: ef.Tensor) -> ef.Tensor:
        with ef.GradientTape() as tape:
            y = x * v * v
        return tape.gradient(y, v)

    assert ef.vmap(f)(V).tolist() == [4.0, 8.0, 12.0]
