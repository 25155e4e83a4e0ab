"""Functions of numbers and of sizes in a trace: static values, and refusals in later calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.tracing.tracer import Tracer
from tests.ops.symbolic import Traced
from tests.ops.table import flatten

X = ef.tensor([0.25, 0.5, 1.0])
IDS = ef.tensor([0, 2, 0])


def _why(function: Callable[..., Any], x: Any, number: complex) -> str | None:
    """The cause that made ``number`` static in a trace of the function, or None."""
    tracer = Tracer("f")
    with tracer:
        function(tracer.add_input(x.type, "x"), tracer.add_number(number, "c"))
    return tracer.numbers[0].why


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: x * c + c - x / c,
        lambda x, c: (1 - c) * x + c // x + c % x,
        lambda x, c: c**x,
        lambda x, c: ef.clip(x, -c, c) + ef.clip(x, c) + ef.clip(x, max=c),
        lambda x, c: ef.where(x > c, x, c),
        lambda x, c: ef.maximum(x, c) + ef.minimum(c, x),
        lambda x, c: ef.isclose(x, 0.0, rtol=c, atol=c),
        lambda x, c: ef.allclose(x, x, rtol=c),
        lambda x, c: ef.hypot(x, c) + ef.atan2(c, x) + ef.heaviside(x, c) + ef.copysign(x, c),
        lambda x, c: ef.xlogy(x, c) + ef.logaddexp(x, c),
        lambda x, c: ef.grad(lambda x: (x * c).sum())(x),
    ],
)
def test_numbers_that_are_operands_stay_dynamic(function) -> None:
    assert _why(function, X, 0.5) is None


@pytest.mark.parametrize(
    ("function", "number"),
    [
        (lambda x, c: x**c, 2),
        (lambda x, c: ef.pow(x, c), 3.0),
        (lambda x, c: ef.quantile(x, c), 0.5),
        (lambda x, c: ef.nan_to_num(x, posinf=c), 1.0),
        (lambda x, c: ef.var(x, correction=c), 1.0),
        (lambda x, c: ef.round(x, c), 2),
        (lambda x, c: ef.polygamma(c, x), 1),
        (lambda x, c: ef.diff(x, n=c), 1),
        (lambda x, c: x.astype("uint8") < c, 256),
    ],
)
def test_numbers_that_another_way_is_taken_for_become_static(function, number) -> None:
    assert _why(function, X, number) is not None


def test_a_size_as_an_exponent_is_a_number() -> None:
    def function(x: Any) -> Any:
        return x ** x.shape[0]

    traced = Traced(function, [ef.tensor([3.0, 5.0])])
    assert traced.specialised
    assert traced(ef.tensor([3.0, 5.0])).tolist() == [9.0, 25.0]


def _refused(function: Callable[..., Any], args: Any, later: Any, error: Any) -> None:
    """Check that ``later`` raises the same error eagerly and in the graph traced with ``args``."""
    traced = Traced(function, args)
    assert not traced.specialised
    for run in (function, traced):
        with pytest.raises(error):
            run(*later)


@pytest.mark.parametrize(
    "function", [ef.max, ef.min, ef.argmax, ef.argmin, ef.ptp, ef.median, ef.nanmax]
)
def test_no_elements_are_refused_when_the_graph_runs(function) -> None:
    _refused(function, [X], [X[:0]], errors.TensorValueError)


@pytest.mark.parametrize("q", [-0.5, 1.5])
def test_a_fraction_out_of_range_is_refused_when_the_graph_runs(q) -> None:
    _refused(ef.quantile, [X, ef.tensor([0.5])], [X, ef.tensor([0.5, q])], errors.TensorValueError)


@pytest.mark.parametrize(
    ("later", "error"),
    [
        ([X, ef.tensor([0, 1])], errors.ShapeError),
        ([X, ef.tensor([0])], errors.ShapeError),
        ([X[:1], IDS], errors.ShapeError),
        ([X, ef.tensor([0, -1, 0])], errors.TensorIndexError),
        ([X, ef.tensor([-1, -2, -3])], errors.TensorIndexError),
    ],
)
@pytest.mark.parametrize("name", ["segment_sum", "segment_max", "segment_mean"])
def test_ids_that_do_not_fit_are_refused_when_the_graph_runs(name, later, error) -> None:
    _refused(getattr(ef, name), [X, IDS], later, error)


def test_ids_in_other_axes_are_refused_when_the_graph_runs() -> None:
    x, ids = ef.ones((2, 3)), ef.zeros((2, 3), dtype="int64")
    _refused(lambda x, i: ef.segment_sum(x, i, 2), [x, ids], [x, ids.mT], errors.ShapeError)


def test_negative_numbers_are_not_counted_when_the_graph_runs() -> None:
    _refused(ef.bincount, [IDS], [ef.tensor([1, -1])], errors.TensorValueError)


def test_how_many_segments_there_are_depends_on_the_data() -> None:
    traced = Traced(ef.segment_sum, [X, IDS])
    assert str(traced.tracer.graph.outputs[0].spec) == "f32[segments]@cpu:0"
    assert traced(X, ef.tensor([5, 1, 1])).tolist() == [0, 1.5, 0, 0, 0, 0.25]
    assert traced(X[:0], IDS[:0]).shape == (0,)
    with pytest.raises(errors.DataDependentError, match="num_segments"):
        ef.segment_sum(X.to("null:0"), IDS.to("null:0"))


@pytest.mark.parametrize("shape", [(2, 3), (2, 2), (0, 3), (1, 3), (3, 2)])
def test_arrays_of_other_shapes_are_not_equal(shape) -> None:
    traced = Traced(ef.array_equal, [ef.ones((2, 3)), ef.ones((2, 3))])
    assert not traced.specialised
    for other in (ef.ones(shape), ef.ones(shape) * 2):
        args = (ef.ones((2, 3)), other)
        assert bool(traced(*args)) is bool(ef.array_equal(*args))


@pytest.mark.parametrize("correction", [0.0, 1.0, 0.5, 2.0, -1.5, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "complex64"])
def test_slope_of_a_variance(correction, dtype) -> None:
    def function(x: Any) -> Any:
        _, pull = ef.vjp(lambda x: ef.var(x, correction=correction), x)
        return pull(1.0)[0]

    x = ef.asarray(np.random.default_rng(0).standard_normal(5)).astype(dtype)
    traced = Traced(function, [x])
    assert not traced.specialised
    for size in range(6):
        with np.errstate(all="ignore"):
            (want,), (got,) = flatten(function(x[:size])), flatten(traced(x[:size]))
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 4), (3, 1), (1, 1), (3, 4), (1, 1, 1)])
def test_sum_to_a_symbolic_shape(shape) -> None:
    def function(x: Any, like: Any) -> Any:
        return ef.sum_to(x, like.shape)

    x = ef.asarray(np.random.default_rng(0).standard_normal((2, 3, 4)))
    traced = Traced(function, [x, ef.ones(shape)])
    assert not traced.specialised
    want = x.numpy().sum(axis=tuple(range(3 - len(shape))))
    want = want.sum(axis=tuple(i for i, d in enumerate(shape) if d == 1), keepdims=True)
    np.testing.assert_allclose(traced(x, ef.ones(shape)).numpy(), want, rtol=1e-13)
    if shape:
        with pytest.raises(errors.ShapeError):
            traced(x, ef.ones((*shape[:-1], 5)))


def test_sum_to_refuses_what_does_not_broadcast() -> None:
    with pytest.raises(errors.ShapeError, match="does not broadcast"):
        ef.sum_to(ef.ones((2, 3)), (2, 2))
    with pytest.raises(errors.ShapeError, match="does not broadcast"):
        ef.sum_to(ef.ones(3), (1, 3))
    assert ef.sum_to(ef.ones((2, 3)), (2, 3)).shape == (2, 3)


def test_second_derivatives_have_the_same_bits_whether_sizes_are_known_or_not() -> None:
    """Cotangents are added up in one order, though only some traces show that a sum is empty."""

    def f(x: Any, w: Any, p: Any) -> Any:
        return ((ef.tanh(x) * p + (1 - x) * ef.tanh(x)) * w).sum(axis=1).sum()

    def slopes(*xs: Any) -> Any:
        def inner(*ys: Any) -> Any:
            return sum(g.sum() for g in ef.grad(f, argnums=(0, 1, 2))(*ys))

        return ef.grad(inner, argnums=(0, 1, 2))(*xs)

    traced = ef.trace(slopes)
    rng = np.random.default_rng(0)
    for shape in ((3, 4), (5, 2), (1, 7), (6, 1), (6, 7)):
        xs = [ef.tensor(rng.normal(size=s)) for s in (shape, shape, shape[-1:])]
        for got, want in zip(traced(*xs), slopes(*xs), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert len(traced.traces) == 2
