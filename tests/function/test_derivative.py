"""Gradients of traced functions: a forward and a backward graph, or each op seen by the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.errors import GradientError
from eagerflow.function.cache_entry import CacheEntry
from eagerflow.function.derivative import Derivative


def _same(a: Any, b: Any) -> None:
    """Both trees hold the same bits."""
    xs, ys = tree.leaves(a), tree.leaves(b)
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        if isinstance(x, ef.IndexedSlices):
            assert isinstance(y, ef.IndexedSlices)
            _same([x.values, x.indices], [y.values, y.indices])
            continue
        assert x.type == y.type
        assert x.numpy().tobytes() == y.numpy().tobytes()


def _derivative(f: ef.TracedFunction, *args: Any) -> Derivative | None:
    call = f._lookup.signature.parse(args, {})
    return f._lookup.find(call)[0]._derivative or None


w = ef.Variable(ef.tensor([[1.0, -2.0], [0.5, 4.0]]))
b = ef.tensor([0.5, 0.25])


def network(x, y):
    h = ef.tanh(x @ w + b)
    return ((h - y) ** 2).mean()


def two_results(x, rate):
    h = ef.exp(x * rate)
    return h.sum(), {"h": h, "n": ef.argmax(h)}


def rows(x, places):
    return (ef.take(x, places, axis=0) * 3.0).sum()


def drawn(x, y):
    return (x * ef.random.normal((3, 2)) * y).sum()


def _args(rows_count: int = 3) -> tuple[ef.Tensor, ef.Tensor]:
    generator = ef.random.Generator(rows_count)
    return generator.normal((rows_count, 2)), generator.normal((rows_count, 2))


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # mean of no rows
@pytest.mark.parametrize("count", [3, 1, 0, 5])
def test_the_gradients_are_the_eager_ones_bit_for_bit(count) -> None:
    traced = ef.trace(network)
    for rows_count in (4, count):
        x, y = _args(rows_count)
        _same(ef.grad(traced, (0, 1))(x, y), ef.grad(network, (0, 1))(x, y))
        _same(ef.grad(traced, wrt=[w])(x, y), ef.grad(network, wrt=[w])(x, y))
        _same(ef.value_and_grad(traced)(x, y), ef.value_and_grad(network)(x, y))
    assert _derivative(traced, x, y) is not None
    assert len(traced.traces) <= 2


def test_a_tape_holds_one_step_for_the_whole_function() -> None:
    traced = ef.trace(network)
    x, y = _args()
    with ef.GradientTape() as tape:
        loss = traced(x, y)
    assert len(tape._tape.records) == 1
    _same(tape.gradient(loss, w), ef.grad(network, wrt=w)(x, y))


def test_only_what_is_wanted_is_computed() -> None:
    traced = ef.trace(network)
    x, y = _args()
    ef.grad(traced, wrt=w)(x, y)
    derivative = _derivative(traced, x, y)
    assert derivative is not None
    ((graph, executable),) = derivative._backward.values()
    assert len(graph.outputs) == 1
    products = [node.op for node in executable.graph.nodes if node.op.startswith("matmul")]
    assert products == ["matmul_like"]


def test_trees_and_integers_among_the_results() -> None:
    traced = ef.trace(two_results)
    x = ef.tensor([0.5, 2.0, 1.0])
    got = ef.value_and_grad(traced, has_aux=True)(x, 0.5)
    _same(got, ef.value_and_grad(two_results, has_aux=True)(x, 0.5))


def test_rows_stay_rows() -> None:
    table = ef.Variable(ef.ones((5, 2)))

    def loss(places):
        return rows(table, places)

    places = ef.tensor([1, 3, 1])
    got = ef.grad(ef.trace(loss), wrt=table)(places)
    assert isinstance(got, ef.IndexedSlices)
    _same(got, ef.grad(loss, wrt=table)(places))


def test_random_draws_are_those_of_the_forward_run() -> None:
    x, y = _args()
    ef.random.seed(3)
    want = ef.grad(drawn, (0, 1))(x, y), ef.random.default_generator().state
    ef.random.seed(3)
    got = ef.grad(ef.trace(drawn), (0, 1))(x, y), ef.random.default_generator().state
    assert got[1] == want[1]
    _same(got[0], want[0])


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: lambda x, y: ef.jvp(lambda z: f(z, y), (x,), (y,)),
        lambda f: lambda x, y: ef.grad(lambda z: ef.grad(f)(z, y).sum())(x),
        lambda f: ef.trace(ef.grad(f)),
        lambda f: lambda x, y: ef.vjp(f, x, y)[1](ef.tensor(2.0)),
        lambda f: lambda x, y: ef.hessian(lambda z: f(z, y))(x),
        lambda f: lambda x, y: ef.grad(ef.remat(f))(x, y),
    ],
    ids=["jvp", "grad of grad", "trace of grad", "vjp", "hessian", "remat"],
)
def test_under_other_transforms(transform: Callable[..., Any]) -> None:
    x, y = _args()
    _same(transform(ef.trace(network))(x, y), transform(network)(x, y))


def test_a_pullback_under_another_tape_is_seen_by_it() -> None:
    x, y = _args()

    def outer(f):
        _, pullback = ef.vjp(f, x, y)
        return ef.grad(lambda g: (pullback(g)[0] ** 2).sum())(ef.tensor(2.0))

    _same(outer(ef.trace(network)), outer(network))


def test_assignments_are_seen_one_by_one() -> None:
    def make():
        v = ef.Variable(2.0)

        def f(x):
            y = x * v
            v.assign_add(1.0)
            return y

        return f, v

    for wrap in (lambda f: f, ef.trace):
        f, v = make()
        assert ef.grad(wrap(f))(ef.tensor(3.0)).item() == 2.0
        assert v.value.item() == 3.0


def test_a_lost_derivative_names_the_line_of_the_op() -> None:
    @ef.trace
    def f(x):
        return ef.sum(ef.astype(ef.astype(x, ef.int32), ef.float32))

    with pytest.raises(GradientError, match=r"only through cast") as caught:
        ef.grad(f)(ef.tensor([1.5]))
    assert caught.value.source is not None
    assert "ef.astype(x, ef.int32)" in caught.value.source.text


def test_effects_have_no_derivative_of_their_own() -> None:
    @ef.trace
    def f(x):
        return x + v.assign_add(x)

    v = ef.Variable(1.0)
    ef.grad(f)(ef.tensor(2.0))
    assert v.value.item() == 3.0
    call = f._lookup.signature.parse((ef.tensor(2.0),), {})
    entry: CacheEntry = f._lookup.find(call)[0]
    assert entry._derivative is None


def test_draws_keep_their_order() -> None:
    """Scheduled, the forward graph took the tickets of independent draws in any order."""
    n = 20_000
    draws = ef.random.Generator(3)

    def f(x: Any) -> Any:
        a, b = (ef.random.normal((n,), generator=draws) for _ in range(2))
        return (x[0] * a).sum() + (x[1] * b).sum()

    x, traced = ef.ones((2, n)), ef.trace(f, compile="off")
    gradients = []
    for function in (f, *[traced] * 6):
        draws.state = {"seed": 3, "ticket": 0}
        gradients.append(ef.grad(function)(x).numpy())
    assert all((g == gradients[0]).all() for g in gradients)
    derivative = _derivative(traced, x)
    assert derivative is not None
    first, second = [n for n in derivative.forward.nodes if n.op == "next_key"]
    assert second.control_inputs == (first,)
