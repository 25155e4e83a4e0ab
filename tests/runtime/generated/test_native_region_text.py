"""The functions of regions: a call of a kernel, or the ops one by one."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.hardware.kernel_library import in_force
from tests.kernels.native.compiling import needs_compiler

pytestmark = [needs_compiler, pytest.mark.skipif(in_force() != "native", reason="portable")]


def test_ops_one_by_one_get_the_sizes_that_their_attributes_name() -> None:
    """Arrays that lie by columns are computed op by op, here to a shape with an unknown size."""

    def f(x: ef.Tensor, y: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
        value, gradient = ef.value_and_grad(lambda v: ((v - y) ** 2).mean())(x)
        return value, gradient

    traced = ef.trace(f, compile="now")
    y = ef.tensor(0.5)
    for n in (3, 4, 5):
        array = np.arange(2.0 * n, dtype="float32").reshape(n, 2)
        for x in map(ef.asarray, (np.asfortranarray(array), array)):
            for found, expected in zip(traced(x, y), f(x, y), strict=True):
                np.testing.assert_array_equal(found, expected)
    text = traced.ir("python")
    assert "shape=((r" in text.partition("def run")[0], "no region names a size"


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_floating_point_warnings(order: Literal["C", "F"]) -> None:
    """Kernels raise none, and around what runs in their place NumPy is told to raise none."""
    traced = ef.trace(lambda x, y: x * x - y, compile="now")
    array = np.full((2, 3), 3e38, np.float32, order=order)
    x, y = ef.asarray(array), ef.asarray(np.full_like(array, np.inf))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):  # with kernels and without, until they are known to be faster
            assert np.isnan(traced(x, y).numpy()).all()
    direct = traced._lookup.latest().executable._direct
    assert direct is None or direct.quiet == bool(direct.kernels)
