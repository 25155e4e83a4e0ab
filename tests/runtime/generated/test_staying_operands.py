"""Kernels that are prepared before a loop for operands that stay in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef


def _recurrent(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
    h = ef.zeros_like(x[0])
    for each in x:
        h = ef.tanh(each + h @ w.T)
    return h


def _nested(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
    h = ef.zeros_like(x[0])
    for each in x:
        for _ in ef.arange(3):
            h = ef.tanh(each + h @ w.T)
    return h


def _until(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
    h = x[0]
    while ef.sum(h * h) > 1e-3:
        h = ef.tanh(h @ w.T) * 0.5
    return h


def _branching(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
    h, transposed = x[0], w.T
    for each in x:
        if ef.sum(each) > 0:
            h = ef.tanh(h @ transposed)
        else:
            h = h - each
    return h


@pytest.mark.parametrize("function", [_recurrent, _nested, _until, _branching])
@pytest.mark.parametrize("compile", ["off", "now"])
def test_products_in_loops_have_the_bits_of_eager_ones(
    function: Callable[..., Any], compile: str
) -> None:
    x, w = ef.random.normal((6, 8, 64)), ef.random.normal((64, 64)) * 0.1
    traced = ef.trace(function, compile=compile)
    np.testing.assert_array_equal(traced(x, w), function(x, w))
    text = traced.ir("python")
    assert text.count("= prepare") == 1
    assert "p0(" in text
    assert "del p0" in text


def test_a_matrix_that_iterations_change_is_not_prepared() -> None:
    def f(x: ef.Tensor, w: ef.Tensor) -> ef.Tensor:
        for each in x:
            w = w + each.T @ (each @ w.T)
        return w

    x, w = ef.random.normal((4, 8, 64)), ef.random.normal((64, 64))
    traced = ef.trace(f)
    np.testing.assert_array_equal(traced(x, w), f(x, w))
    assert "prepare" not in traced.ir("python")
