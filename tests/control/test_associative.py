"""`associative_scan`: equal to the loop, eagerly, traced, with gradients and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import AxisError, ShapeError, TraceError
from tests.messages import says


def _step(first: Any, second: Any) -> Any:
    (a, b), (c, d) = first, second
    return a * c, c * b + d


def _recurrence(elems: Any) -> Any:
    return ef.associative_scan(_step, elems)[1]


def _loop(elems: Any) -> Any:
    return ef.scan(lambda h, ab: (ab[0] * h + ab[1],) * 2, ef.zeros(2), elems)[1]


def _elems(n: int) -> Any:
    generator = ef.random.Generator(n)
    return (
        ef.random.uniform((n, 2), dtype=ef.float32, generator=generator),
        ef.random.normal((n, 2), dtype=ef.float32, generator=generator),
    )


@settings(max_examples=25)
@given(st.integers(0, 40), st.booleans(), st.integers(0, 2))
def test_it_is_the_cumulative_maximum(n: int, reverse: bool, axis: int) -> None:
    shape = [2, 3]
    shape.insert(axis, n)
    x = ef.random.normal(shape, generator=ef.random.Generator(n))
    got = ef.associative_scan(ef.maximum, x, reverse=reverse, axis=axis - 3)
    way = np.flip if reverse else lambda x, _: x
    expected = way(np.maximum.accumulate(way(x.numpy(), axis), axis), axis)
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
def test_a_recurrence_and_its_gradient(n: int) -> None:
    elems = _elems(n)
    expected = _loop(elems)
    for run in (_recurrence, ef.trace(_recurrence)):
        np.testing.assert_allclose(run(elems).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    weight = ef.arange(2 * n).reshape(n, 2).astype(ef.float32)
    of_loop = ef.grad(lambda e: (_loop(e) * weight).sum())(elems)
    gradient = ef.grad(lambda e: (_recurrence(e) * weight).sum())
    for run in (gradient, ef.trace(gradient)):
        for got, want in zip(run(elems), of_loop, strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)


def test_of_many_rows() -> None:
    a, b = _elems(6)
    rows = ef.stack([a, a * 0.5]), ef.stack([b, b + 1])
    got = ef.vmap(_recurrence)(rows)
    for i in range(2):
        want = _recurrence((rows[0][i], rows[1][i]))
        np.testing.assert_array_equal(got[i].numpy(), want.numpy())


def test_it_is_called_a_few_times() -> None:
    calls = []
    ef.associative_scan(lambda a, b: calls.append(1) or a + b, ef.ones(1000))
    assert len(calls) == 18


def test_on_a_device_without_data() -> None:
    x = ef.zeros((5, 2), device="null:0")
    assert ef.associative_scan(ef.add, x).type == x.type


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ef.associative_scan(ef.add, ef.ones(3), axis=1), AxisError, "out of range"),
        (lambda: ef.associative_scan(_step, (ef.ones(3), ef.ones(4))), ShapeError, "differ"),
        (lambda: ef.associative_scan(lambda a, b: (a, b), ef.ones(3)), TraceError, "structure"),
        (lambda: ef.associative_scan(lambda a, b: a.sum(), ef.ones(3)), ShapeError, "first axis"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, check=says(text)):
        call()
