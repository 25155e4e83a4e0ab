"""Memory of the gradient of a long loop, as `docs/control_flow.md` says."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef

#: upper bound of the bytes of the Python objects of one value in a list
VALUE = 250


def wide(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
    """One element from one element; three arrays of the size of ``w`` are kept on the way."""
    y = ef.tanh(x * w)
    return ef.mean(ef.sin(y) * ef.exp(-y), keepdims=True)


def while_loop(iterations: int, w: ef.Tensor, recompute: bool) -> Callable[[ef.Tensor], ef.Tensor]:
    def function(x: ef.Tensor) -> ef.Tensor:
        values = ef.while_loop(
            lambda x, i: i < iterations,
            lambda x, i: (wide(x, w), i + 1),
            (x, 0),
            recompute=recompute,
        )
        return values[0].sum()

    return function


def scan(iterations: int, w: ef.Tensor, recompute: bool) -> Callable[[ef.Tensor], ef.Tensor]:
    step = ef.remat(wide) if recompute else wide

    def function(x: ef.Tensor) -> ef.Tensor:
        return ef.scan(lambda x, _: (step(x, w), None), x, None, length=iterations)[0].sum()

    return function


def converted(iterations: int, w: ef.Tensor, recompute: bool) -> Callable[[ef.Tensor], ef.Tensor]:
    step = ef.remat(wide) if recompute else wide

    def function(x: ef.Tensor) -> ef.Tensor:
        for _ in ef.zeros(iterations):
            x = step(x, w)
        return x.sum()

    return function


def peak(function: Callable[[ef.Tensor], Any], x: ef.Tensor) -> int:
    """The bytes that a call takes at most, besides what there was before."""
    function(x)  # traced and run
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        function(x)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def of_gradient(make: Any, iterations: int, size: int, recompute: bool) -> int:
    function = make(iterations, ef.ones(size), recompute)
    return peak(ef.trace(ef.grad(function)), ef.tensor([0.3]))


LOOPS = pytest.mark.parametrize("make", [while_loop, scan, converted])


@LOOPS
def test_it_grows_with_what_each_iteration_keeps(make: Any) -> None:
    """Iterations times the arrays that rules read, and what one iteration takes while it runs."""
    arrays, temporaries = 3 * 512 * 4, 10 * 512 * 4
    for iterations in (500, 2000):
        memory = of_gradient(make, iterations, 512, recompute=False)
        assert iterations * arrays < memory < iterations * (arrays + 4 * VALUE) + temporaries


@LOOPS
def test_to_recompute_bounds_it_by_the_carry(make: Any) -> None:
    """However large what an iteration makes on its way: it is there for one iteration only."""
    one = 10 * 8192 * 4
    for iterations, size in ((500, 512), (2000, 512), (500, 8192)):
        assert of_gradient(make, iterations, size, recompute=True) < iterations * 2 * VALUE + one


def test_without_a_gradient_nothing_is_kept() -> None:
    peaks = [
        peak(ef.trace(while_loop(n, ef.ones(512), False)), ef.tensor([0.3])) for n in (10, 4000)
    ]
    assert peaks[1] < peaks[0] + 10_000


def kept(function: Callable[..., Any], *args: Any) -> int:
    """How many values an iteration keeps for the gradient."""
    graph = ef.trace(ef.grad(function, tuple(range(len(args))))).graph(*args)
    bodies = [n.attrs["body"] for n in graph.nodes if n.op in ("scan", "while_loop")]
    pushes = [n for body in bodies for n in body.nodes if n.op == "list_push"]
    return sum(len(n.inputs) - 1 for n in pushes)


def test_what_is_the_same_in_all_iterations_is_kept_once() -> None:
    """Also what an iteration makes of it alone."""

    def f(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
        def body(x: ef.Tensor, i: int) -> Any:
            return ef.tanh(x @ ef.sigmoid(w).T), i + 1

        return ef.while_loop(lambda x, i: i < 3, body, (x, 0))[0].sum()

    x, w = ef.ones(4), ef.eye(4) / 2
    assert kept(f, x, w) == 2  # x and tanh; neither the transpose of w nor its sigmoid
    eager, traced = (ef.grad(g, (0, 1))(x, w) for g in (f, ef.trace(f)))
    for a, b in zip(eager, traced, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)

    def nested(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
        return ef.while_loop(lambda x, i: i < 2, lambda x, i: (x * f(x, w), i + 1), (x, 0))[0].sum()

    second = [
        ef.grad(lambda w, g=g: (ef.grad(g, 1)(x, w) ** 2).sum()) for g in (nested, ef.trace(nested))
    ]
    np.testing.assert_allclose(second[0](w).numpy(), second[1](w).numpy(), rtol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_sums_of_cotangents_lie_in_memory_as_without_a_loop(transposed: bool) -> None:
    """Zeros that came first would decide it, and all iterations would add against the grain."""
    xs = ef.random.normal((5, 4, 3))

    def looped(w: ef.Tensor) -> ef.Tensor:
        return ef.scan(lambda h, x: (ef.tanh(h @ w + x), None), ef.zeros((4, 3)), xs)[0].sum()

    def unrolled(w: ef.Tensor) -> ef.Tensor:
        h = ef.zeros((4, 3))
        for i in range(5):
            h = ef.tanh(h @ w + xs[i])
        return h.sum()

    w = ef.random.normal((3, 3))
    w = w.T if transposed else w
    gradient, expected = (ef.trace(ef.grad(f))(w).numpy() for f in (looped, unrolled))
    assert gradient.strides == expected.strides
    assert (gradient == expected).all()
