"""Derivatives in a trace with symbolic sizes: bit for bit those of eager mode, for every size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.tracing.tracer import Tracer
from tests.ops.symbolic import Traced
from tests.ops.table import flatten

SIZES = [(3, 4), (1, 4), (3, 1), (1, 1), (0, 4), (3, 0), (5, 2)]


def _pairs(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """A matrix, and a vector that broadcasts to its rows."""
    rng = np.random.default_rng(sum(shape))
    return (
        ef.asarray(rng.standard_normal(shape).astype("float32")),
        ef.asarray(rng.standard_normal(shape[-1:]).astype("float32")),
    )


def _same(function: Callable[..., Any], *args: Any, traced: Traced) -> None:
    with np.errstate(all="ignore"):
        want, got = flatten(function(*args)), flatten(traced(*args))
    for a, b in zip(want, got, strict=True):
        assert (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())


def _check(function: Callable[..., Any]) -> None:
    traced = Traced(function, _pairs(SIZES[0]))
    assert not traced.specialised
    for shape in SIZES:
        _same(function, *_pairs(shape), traced=traced)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "broadcasting": lambda x, y: (x * y + y).sum(),
    "outer": lambda x, y: (x[:, None, :] * y[:, None]).sum(),
    "means": lambda x, y: ((x - x.mean(axis=0)) * y).mean(),
    "spread": lambda x, y: x.var(axis=0).sum() + x.std(axis=1, correction=1).sum(),
    "layer": lambda x, y: ef.logsumexp(ef.tanh(x * y), axis=1).sum(),
    "products": lambda x, y: ef.prod(x, axis=1).sum() + ef.cumulative_prod(y).sum(),
    "running": lambda x, y: ef.cumulative_sum(x, axis=0).sum() * ef.linear_recurrence(y, y).sum(),
    "matrices": lambda x, y: ((x @ y) ** 2).sum(),
    "segments": lambda x, y: (
        ef.segment_sum(x, ef.arange(x.shape[0]) % 2, 2) * y
    ).sum(),
    "sizes": lambda x, y: (x * y).sum() / (x.shape[0] + 1) * x.size,
    "updates": lambda x, y: _updated(x, y),
    "remat": lambda x, y: ef.remat(lambda a, b: (ef.sin(a) * b).sum())(x, y),
    "custom": lambda x, y: (_clipped(x) * y).sum(),
    "rows": lambda x, y: ef.take(x, ef.arange(x.shape[0] // 2), axis=0).sum(),
}  # fmt: skip


def _updated(x: Any, y: Any) -> Any:
    z = x * 2
    z += y
    return (z * x).sum()


@ef.custom_vjp
def _clipped(x: Any) -> Any:
    return x * 1.0


_clipped.defvjp(lambda x: (_clipped(x), x), lambda x, g: (ef.clip(g, -0.5, 0.5) + x,))


@pytest.mark.parametrize("name", PROGRAMS)
def test_grad(name: str) -> None:
    _check(lambda x, y: ef.value_and_grad(PROGRAMS[name], argnums=(0, 1))(x, y))


@pytest.mark.parametrize("name", PROGRAMS)
def test_jvp(name: str) -> None:
    _check(lambda x, y: ef.jvp(PROGRAMS[name], (x, y), (ef.cos(x), y + 1)))


@pytest.mark.parametrize("name", ["broadcasting", "means", "layer", "matrices", "custom"])
def test_gradient_of_a_gradient(name: str) -> None:
    def function(x: Any, y: Any) -> Any:
        inner = ef.grad(PROGRAMS[name])
        return ef.grad(lambda x, y: (inner(x, y) * x).sum(), argnums=(0, 1))(x, y)

    _check(function)


def test_vjp_with_a_cotangent() -> None:
    def function(x: Any, y: Any) -> Any:
        value, pull = ef.vjp(lambda x, y: ef.exp(x) * y, x, y)
        return value, pull(x)

    _check(function)


def test_gradient_tape() -> None:
    def function(x: Any, y: Any) -> Any:
        with ef.GradientTape() as tape:
            tape.watch(x)
            loss = (x * y).sum()
        return tape.gradient(loss, x)

    _check(function)


@pytest.mark.parametrize("shape", [(3,), (1,), (0,)])
@pytest.mark.parametrize(
    "function",
    [ef.jacobian(lambda x: x * x[::-1]), ef.hessian(lambda x: (x**3).sum() * x.sum())],
    ids=["jacobian", "hessian"],
)
def test_all_derivatives_at_once_take_any_size(function, shape) -> None:
    """The result has a row for each element, and the number of rows stays symbolic."""
    traced = Traced(function, [ef.asarray(np.linspace(1, 2, 4))])
    assert not traced.specialised
    _same(function, ef.asarray(np.linspace(1, 2, math.prod(shape)).reshape(shape)), traced=traced)


def test_a_cotangent_whose_size_is_another_is_refused_when_the_graph_runs() -> None:
    def function(x: Any, g: Any) -> Any:
        return ef.vjp(lambda x: x * x, x)[1](g)

    traced = Traced(function, [ef.ones(3), ef.ones(3)])
    assert not traced.specialised
    _same(function, ef.ones(5), ef.ones(5), traced=traced)
    with pytest.raises(errors.ShapeError, match="another shape"):
        traced(ef.ones(3), ef.ones(2))


def test_a_cotangent_with_other_axes_is_refused_while_tracing() -> None:
    tracer = Tracer("f")
    with tracer:
        n = tracer.sizes.add("n", 3)
        x = tracer.add_input(ef.ones(3).type.like(shape=(n,)), "x")
        value, pull = ef.vjp(lambda x: x * x, x)
        with pytest.raises(errors.GradientError, match="does not fit"):
            pull(ef.ones((3, 1)))
        with pytest.raises(errors.GradientError, match="does not fit"):
            pull(ef.concat([value, ef.ones(1)]))
    assert not tracer.sizes.static


def test_rows_of_a_trace() -> None:
    def function(x: Any, y: Any) -> Any:
        v = ef.IndexedSlices(x, ef.arange(x.shape[0]), (x.shape[0] + 2, x.shape[1]))
        return (v * y + v).to_dense(), (-v / 2).to_dense()

    _check(function)


def test_rows_times_a_column() -> None:
    """A factor whose first size is 1 when the graph runs, or as many as there are rows."""

    def function(rows: Any, places: Any, factor: Any) -> Any:
        v = ef.IndexedSlices(rows, places, (factor.shape[0], rows.shape[1]))
        return (v * factor).to_dense()

    def arguments(k: int, n: int) -> tuple[Any, ...]:
        factor = ef.arange(n, dtype="float32")[:, None] + 1
        return ef.ones((k, 2)), ef.arange(k) % n, factor

    traced = Traced(function, arguments(2, 4))
    assert not traced.specialised
    for k, n in [(2, 4), (3, 3), (2, 1), (0, 2)]:
        _same(function, *arguments(k, n), traced=traced)
