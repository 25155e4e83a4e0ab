"""The functions of compiled regions: a call of a kernel, or the ops one by one."""

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
    """Arrays in column-major order are computed op by op, here to a shape with an unknown size."""

    def f(x: ef.Tensor, y: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
        value, gradient = ef.value_and_grad(lambda v: ((v - y) ** 2).mean())(x)
        return value, gradient

    traced = ef.trace(f, compile="now")
    y = ef.tensor(0.5)
    for n in (3, 4, 5):
        array = np.arange(2.0 * n, dtype="float32").reshape(n, 2)
        for x in map(ef.asarray, (np.asfortranarray(array), array)):
            for result, expected in zip(traced(x, y), f(x, y), strict=True):
                np.testing.assert_array_equal(result, expected)
    text = traced.ir("python")
    assert "shape=((r" in text.partition("def run")[0], "no region names a size"


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_floating_point_warnings(order: Literal["C", "F"]) -> None:
    """Kernels raise no warnings, and NumPy's warnings are off around the ops in their place."""
    traced = ef.trace(lambda x, y: x * x - y, compile="now")
    array = np.full((2, 3), 3e38, np.float32, order=order)
    x, y = ef.asarray(array), ef.asarray(np.full_like(array, np.inf))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):  # with kernels and without, until kernels are known to be faster
            assert np.isnan(traced(x, y).numpy()).all()
    direct = traced._lookup.latest().executable._direct
    assert direct is None or direct.quiet == bool(direct.kernels)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("axes", [(6,), (2, 3)], ids=str)
def test_rows_of_a_table_are_looked_for_before_a_kernel_picks_them(
    dtype: str, axes: tuple[int, ...]
) -> None:
    """Negative indices count from the end, op by op; an index out of range is an error."""
    table = ef.Variable(np.arange(5 * 6, dtype=np.float32).reshape(5, *axes))
    along = tuple(range(-len(axes), 0))

    def f(places: ef.Tensor) -> ef.Tensor:
        x = ef.take(table, places, axis=0) * 0.5
        return x / ef.sum(x + 1.0, axis=along, keepdims=True)

    traced = ef.trace(f, compile="now")
    for places in ([[0, 4], [3, 3]], [[1, -1], [-5, 2]], [[0, 0], [0, 0]]):
        given = ef.tensor(places, dtype=dtype)
        np.testing.assert_array_equal(traced(given), f(given))
    assert len(axes) > 1 or "are_rows_of" in traced.ir("python")
    with pytest.raises(ef.errors.TensorIndexError, match="index 5 is out of range"):
        traced(ef.tensor([[0, 5], [1, 1]], dtype=dtype))


def test_rows_of_parts_are_not_copied_before_a_kernel_gets_them() -> None:
    """NumPy walks through parts of arrays by small buffers there, and through all else as usual."""
    state = ef.Variable(np.zeros((38, 698), np.float32))

    def update(x: ef.Tensor) -> ef.Tensor:
        return state.assign((x[1:-1, 1:-1] + x[2:, 1:-1]) * 0.5)

    x = ef.random.normal((40, 700))
    for function, small in ((update, True), (lambda x: (x + 1.5) * x - 0.5, False)):
        traced = ef.trace(function, compile="now")
        np.testing.assert_array_equal(traced(x), function(x))
        traced.wait()
        assert ("row_by_row" in traced.ir("python")) is small


@pytest.mark.parametrize("value", [0.0, -1.5, float("inf")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_results_are_written_into_the_inside_of_an_array(dtype: str, value: float) -> None:
    if dtype == "int32":
        value = 7 if value else 0

    def f(x: ef.Tensor) -> tuple[ef.Tensor, ...]:
        inside = (x[1:-1, :-2] + x[1:-1, 2:]) * 2
        around = ef.pad(inside, ((1, 1), (2, 0)), constant_values=value)
        alone = ef.pad(inside + x[2:, 2:], ((0, 3), (0, 0)), constant_values=value)
        return around, ef.pad(around * 2, 1), inside, alone

    traced = ef.trace(f, compile="now")
    for shape in ((40, 70), (3, 3), (2, 5)):
        values = np.arange(shape[0] * shape[1]).reshape(shape) % 251
        for order in (values, np.asfortranarray(values)):
            x = ef.asarray(order).astype(dtype)
            for result, expected in zip(traced(x), f(x), strict=True):
                np.testing.assert_array_equal(result.numpy(), expected.numpy())
                assert result.numpy().strides == expected.numpy().strides
    assert "framed" in traced.ir("python")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_results_are_written_into_the_parts_of_an_array(dtype: str) -> None:
    """As in the gradient of the gates of a recurrent layer."""

    def f(x: ef.Tensor) -> tuple[ef.Tensor, ...]:
        first, second, third = ef.split(x, 3, axis=1)
        product = first * second
        return ef.concat([product - third, product, third * 2, product], axis=1), product

    traced = ef.trace(f, compile="now")
    traced(ef.ones((40, 69), dtype))
    assert "[..., 23:46]" in traced.ir("python")
    for shape in ((40, 69), (3, 3), (1, 6), (0, 3)):
        values = np.arange(shape[0] * shape[1]).reshape(shape) % 11
        for order in (values, np.asfortranarray(values)):
            x = ef.asarray(order).astype(dtype)
            for result, expected in zip(traced(x), f(x), strict=True):
                np.testing.assert_array_equal(result.numpy(), expected.numpy())
                assert result.numpy().strides == expected.numpy().strides


def test_an_array_that_is_joined_with_no_other_is_read_by_other_kernels() -> None:
    def f(x: ef.Tensor) -> ef.Tensor:
        part = ef.exp(x) * 2
        return ef.exp(ef.concat([part], axis=1) + part)

    x = ef.random.normal((40, 8))
    np.testing.assert_array_equal(ef.trace(f, compile="now")(x), f(x))


def test_threads_share_the_rows_of_parts() -> None:
    """A kernel of parts is one call, and not one for each row."""
    traced = ef.trace(lambda x: (x[1:] + x[:-1]) * x[1:, :1], compile="now")
    x = ef.random.normal((50, 30))
    np.testing.assert_array_equal(traced(x), (x[1:] + x[:-1]) * x[1:, :1])
    assert "f32[n], f32[n], f32) -> f32[n]" in traced.ir("loops")


def test_results_lie_where_operands_did_that_nothing_reads_any_more() -> None:
    """Arrays that users hold are unchanged."""

    def f(x: ef.Tensor) -> ef.Tensor:
        return ef.exp(ef.lgamma(x) * 0.5) + 1.0

    traced = ef.trace(f, compile="now")
    x = ef.tensor(np.linspace(1, 2, 1 << 15, dtype=np.float32))
    before = x.numpy().copy()
    for _ in range(3):
        np.testing.assert_array_equal(traced(x), f(x))
    np.testing.assert_array_equal(x, before)
    assert "if_alone" in traced.ir("python")


def test_parts_of_arrays_run_in_kernels() -> None:
    whole = ef.tensor(np.arange(70, dtype=np.float32).reshape(7, 10))

    @ef.trace(compile="now")
    def f(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        return (x * 2.0 + y) * y

    region = None
    for part in (np.s_[1:-1, 2:], np.s_[::2, ::3], np.s_[::-1, 1:], np.s_[:, ::-1]):
        x, y = whole[part], (whole + 1)[part]
        np.testing.assert_array_equal(f(x, y), (x * 2.0 + y) * y)
        region = f.latest().executable.tier.region  # type: ignore[attr-defined]  # generated
    assert region is not None
    assert region.compiled.kernels
