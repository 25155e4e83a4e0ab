"""Reductions and statistics at their edges: dtypes, no elements, ties, precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow_kernels import table

INF, NAN = math.inf, math.nan

# --- dtypes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [ef.sum, ef.prod, lambda x: ef.cumulative_sum(x, axis=0)])
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("bool", "int64"), ("int8", "int64"), ("int64", "int64"), ("uint8", "uint64"),
     ("uint64", "uint64"), ("float16", "float16"), ("bfloat16", "bfloat16"),
     ("float32", "float32"), ("complex64", "complex64")],
)  # fmt: skip
def test_dtype_of_totals(function: Any, dtype: str, expected: str) -> None:
    assert function(ef.ones(3, dtype=dtype)).dtype.name == expected


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("int8", "int16"), ("int8", "float64"), ("float32", "float64"), ("float64", "float32"),
     ("bool", "uint8"), ("float32", "complex64"), ("uint8", "int8")],
)  # fmt: skip
def test_a_dtype_that_is_asked_for(name: str, dtype: str, wanted: str) -> None:
    x = np.array([1, 0, 1, 1]).astype(dtype)
    got = getattr(ef, name)(ef.asarray(x), dtype=wanted)
    assert got.dtype.name == wanted
    reference = {"sum": np.sum, "prod": np.prod, "cumulative_sum": np.cumsum,
                 "cumulative_prod": np.cumprod}[name]  # fmt: skip
    np.testing.assert_array_equal(got.numpy(), reference(x, dtype=wanted))


def test_totals_of_few_bits_wrap() -> None:
    assert ef.sum(ef.full(3, 100, dtype=ef.int8), dtype=ef.int8).item() == 300 - 256
    assert ef.sum(ef.full(3, 100, dtype=ef.int8)).item() == 300


def test_means_of_integers_are_float32() -> None:
    for function in (ef.mean, ef.var, ef.std, ef.median, ef.logsumexp):
        assert function(ef.tensor([1, 2])).dtype is ef.float32


def test_variance_of_complex_numbers_is_real() -> None:
    z = ef.tensor([1 + 1j, -1 - 1j])
    assert ef.var(z).dtype is ef.float32
    assert ef.var(z).item() == pytest.approx(2)


# --- precision ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_dtypes_are_summed_in_float32(dtype: str) -> None:
    x = ef.ones(10_000, dtype=dtype)
    near = pytest.approx(10_000, rel=4e-3)
    assert float(ef.sum(x)) == near
    assert float(ef.cumulative_sum(x)[-1]) == near
    assert float(ef.mean(x * 60_000 if dtype == "float16" else x)) == (
        60_000 if dtype == "float16" else 1
    )


@pytest.mark.parametrize(
    ("shape", "axis"), [((30_001, 3), 0), ((40, 700, 3), (0, 1)), ((3, 5_000, 2), 1)]
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_long_sums_do_not_lose_digits(
    shape: tuple[int, ...], axis: int | tuple[int, ...], dtype: str
) -> None:
    x = np.random.default_rng(0).random(shape).astype(dtype)
    want = x.astype("complex128").sum(axis=axis)
    for view in (x, x[::-1], x[..., ::2]):
        got = ef.sum(ef.asarray(view), axis=axis)
        wide = view.astype("complex128").sum(axis=axis)
        np.testing.assert_allclose(got.numpy(), wide, rtol=1e-6)
    kept = ef.mean(ef.asarray(x), axis=axis, keepdims=True)
    count = x.size // want.size
    np.testing.assert_allclose(kept.numpy().reshape(want.shape), want / count, rtol=1e-6)


def test_variance_far_from_zero() -> None:
    x = ef.tensor(np.array([1e4, 1e4 + 1, 1e4 + 2], np.float32))
    assert ef.var(x).item() == pytest.approx(2 / 3, rel=1e-6)


def test_logsumexp_does_not_overflow() -> None:
    x = ef.tensor([[1e4, 1e4], [-1e4, -1e4], [-INF, -INF], [INF, 0.0], [-INF, 0.0]])
    want = [1e4 + math.log(2), -1e4 + math.log(2), -INF, INF, 0.0]
    np.testing.assert_allclose(ef.logsumexp(x, axis=1).numpy(), want, rtol=1e-6)


def test_slope_of_logsumexp_where_all_is_impossible() -> None:
    _, pull = ef.vjp(lambda x: ef.logsumexp(x, axis=1), ef.tensor([[-INF, -INF], [-INF, 1.0]]))
    assert pull(ef.ones(2))[0].tolist() == [[0, 0], [0, 1]]


# --- no elements ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sum", 0), ("prod", 1), ("all", True), ("any", False), ("count_nonzero", 0),
     ("logsumexp", -INF), ("nansum", 0)],
)  # fmt: skip
def test_totals_of_nothing(name: str, expected: Any) -> None:
    assert getattr(ef, name)(ef.zeros((0,))).item() == expected
    assert getattr(ef, name)(ef.zeros((0, 2)), axis=0).tolist() == [expected] * 2
    assert getattr(ef, name)(ef.zeros((0, 2)), axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes_of_nothing_are_refused(name: str) -> None:
    function = getattr(ef, name)
    for x, options in ((ef.zeros(0), {}), (ef.zeros((0, 2)), {"axis": 0})):
        with pytest.raises(ef.errors.TensorValueError, match=f"{name}: there are no elements"):
            function(x, **options)
    assert function(ef.zeros((0, 2)), axis=1).shape == (0,)


def test_quantiles_of_nothing_are_refused() -> None:
    with pytest.raises(ef.errors.TensorValueError, match="median: there are no elements"):
        ef.median(ef.zeros(0))


def test_no_axes_reduce_nothing() -> None:
    x = ef.tensor([[1.0, 2.0]])
    for function in (ef.sum, ef.max, ef.mean, ef.prod):
        assert function(x, axis=()).tolist() == [[1, 2]]
        assert ef.grad(lambda v, f=function: ef.sum(f(v, axis=()) * 3))(x).tolist() == [[3, 3]]


# --- derivatives ----------------------------------------------------------------------------


@pytest.mark.parametrize("function", [ef.max, ef.min])
def test_equal_extremes_share_the_cotangent(function: Any) -> None:
    x = ef.tensor([[1.0, 1.0, 1.0], [1.0, 2.0, 1.0]])
    g = ef.grad(lambda v: ef.sum(function(v, axis=1)))(x).numpy()
    want = [[1 / 3] * 3, [0, 1, 0] if function is ef.max else [0.5, 0, 0.5]]
    np.testing.assert_allclose(g, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("row", "expected"),
    [([2.0, 3.0, 4.0], [12, 8, 6]), ([0.0, 3.0, 4.0], [12, 0, 0]), ([0.0, 0.0, 4.0], [0, 0, 0])],
)
def test_slope_of_products_with_zeros(row: list[float], expected: list[float]) -> None:
    assert ef.grad(ef.prod)(ef.tensor(row)).tolist() == expected


def test_second_slope_of_a_product_with_a_zero() -> None:
    hessian = ef.hessian(ef.prod)(ef.tensor([0.0, 3.0, 4.0]))
    assert hessian.tolist() == [[0, 4, 3], [4, 0, 0], [3, 0, 0]]


def test_slope_of_a_running_product_with_zeros() -> None:
    g = ef.grad(lambda x: ef.sum(ef.cumulative_prod(x)))(ef.tensor([2.0, 0.0, 3.0, 4.0]))
    assert g.tolist() == [1, 2 + 6 + 24, 0, 0]


def test_slope_of_the_deviation_of_equal_numbers() -> None:
    assert ef.grad(ef.std)(ef.ones(3)).tolist() == [0, 0, 0]


# --- statistics -----------------------------------------------------------------------------


def test_quantiles_of_several_fractions() -> None:
    x = np.random.default_rng(0).normal(size=(3, 5, 4))
    q = np.array([[0.0, 0.1], [0.75, 1.0]])
    for axis, keepdims in ((None, False), (1, True), ((0, 2), False)):
        got = ef.quantile(ef.asarray(x), ef.asarray(q), axis, keepdims=keepdims)
        want = np.quantile(x, q, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_quantiles_with_nan_and_infinity() -> None:
    x = ef.tensor([[1.0, NAN, 2.0], [INF, INF, 1.0]])
    got = ef.median(x, axis=1).tolist()
    assert math.isnan(got[0])
    assert got[1] == INF


def test_quantiles_of_small_dtypes_find_their_place() -> None:
    x = ef.arange(0, 5001, dtype=ef.float32)
    assert ef.quantile(ef.astype(x, ef.float16), 0.25).item() == 1250
    assert ef.quantile(x, 0.1).item() == 500
    with pytest.raises(ef.errors.TensorValueError, match="quantile: q is out of range"):
        ef.quantile(x, 25)


def test_average_with_one_weight_per_row() -> None:
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ef.average(x, axis=0, weights=[1.0, 3.0]).tolist() == [2.5, 3.5]
    assert ef.average(x, weights=[1.0, 3.0]).item() == pytest.approx((1 + 6 + 3 + 12) / 8)


def test_numbers_that_are_lost() -> None:
    x = ef.tensor([[1.0, NAN], [NAN, NAN]])
    assert ef.nansum(x, axis=1).tolist() == [1, 0]
    assert ef.nanmax(x, axis=1)[0].item() == ef.nanmin(x, axis=1)[0].item() == 1
    assert ef.isnan(ef.nanmax(x, axis=1))[1]
    assert ef.grad(ef.nansum)(x).tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("name", ["nansum", "nanmax", "nanmin", "nanprod"])
@pytest.mark.parametrize("values", [[1, 2**30 + 1], [True, False]])
def test_what_has_no_nan_keeps_its_dtype_where_nan_is_ignored(name: str, values: list[Any]) -> None:
    want = getattr(np, name)(np.array(values))
    got = getattr(ef, name)(ef.tensor(values))
    assert (got.item(), got.dtype) == (want.item(), want.dtype)


def test_position_of_nan() -> None:
    x = ef.tensor([1.0, NAN, 3.0, NAN])
    assert (ef.argmax(x).item(), ef.argmin(x).item()) == (1, 1)


# --- along an axis --------------------------------------------------------------------------


def test_running_totals_need_an_axis() -> None:
    for x in (ef.ones((2, 2)), ef.ones(())):
        with pytest.raises(ef.errors.AxisError, match="cumulative_sum: axis is missing"):
            ef.cumulative_sum(x)


@pytest.mark.parametrize(("name", "first"), [("cumulative_sum", 0), ("cumulative_prod", 1)])
def test_running_totals_with_the_initial_one(name: str, first: int) -> None:
    x = ef.tensor([[2, 3], [4, 5]])
    for axis in (0, 1, -1):
        got = getattr(ef, name)(x, axis=axis, include_initial=True).numpy()
        rest = getattr(ef, name)(x, axis=axis).numpy()
        edge = np.full_like(rest.take([0], axis), first)
        np.testing.assert_array_equal(got, np.concatenate([edge, rest], axis))


def test_differences_of_unsigned_numbers_wrap() -> None:
    assert ef.diff(ef.tensor([1, 0], dtype=ef.uint8)).tolist() == [255]
    assert ef.diff(ef.tensor([True, False, False])).tolist() == [True, False]
    assert ef.diff(ef.tensor([1.0, 2.0]), n=0).tolist() == [1, 2]
    assert ef.diff(ef.tensor([1.0, 2.0]), n=3).shape == (0,)
    with pytest.raises(ef.errors.TensorValueError, match="diff: n is negative"):
        ef.diff(ef.ones(3), n=-1)


def test_factors_of_a_recurrence_broadcast() -> None:
    assert ef.linear_recurrence(2.0, ef.ones((2, 3))).tolist() == [[1, 3, 7]] * 2
    assert ef.linear_recurrence(ef.ones((2, 3)) * 2, 1.0, axis=0).tolist() == [[1] * 3, [3] * 3]


@pytest.mark.parametrize("name", ["running_argmax", "running_argmin"])
def test_portable_running_extremes_agree_with_those_of_the_cpu(name: str) -> None:
    kernel, special = table.portable_kernel(name), table.find(name, "cpu", ("float64",), np)
    assert callable(kernel)
    assert special is not None
    rng = np.random.default_rng(0)
    for shape in ((0,), (1,), (7,), (4, 9)):
        x = rng.integers(0, 4, shape).astype(float)
        x[rng.random(shape) < 0.1] = NAN
        for axis in range(len(shape)):
            np.testing.assert_array_equal(kernel(np, x, axis=axis), special(x, axis=axis))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32", "complex64"])
def test_portable_reductions_agree_with_those_of_the_cpu(name: str, dtype: str) -> None:
    if name == "mean" and dtype not in ("float32", "complex64"):
        return
    x = np.random.default_rng(0).integers(0, 3, (3, 4, 2)).astype(dtype)
    special = table.find(name, "cpu", (dtype,), np)
    kernel: Any = table.portable_kernel(name)
    assert special is not None
    for axis in ((), (1,), (0, 2), (0, 1, 2)):
        for keepdims in (False, True):
            got = special(x, axis=axis, keepdims=keepdims)
            want = (
                getattr(np, kernel)(x, axis=axis, keepdims=keepdims)
                if isinstance(kernel, str)
                else kernel(np, x, axis=axis, keepdims=keepdims)
            )
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)


# --- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "max", "all", "any", "argmax", "var", "logsumexp", "median"]
)
def test_axes_that_there_are_not(name: str) -> None:
    with pytest.raises(ef.errors.AxisError, match="axis 2 is out of range") as caught:
        getattr(ef, name)(ef.ones((2, 3)), axis=2)
    assert "f32[2,3]" in str(caught.value)


def test_an_axis_named_twice() -> None:
    with pytest.raises(ef.errors.AxisError, match="names an axis twice"):
        ef.sum(ef.ones((2, 3)), axis=(0, -2))


def test_extremes_of_complex_numbers_are_refused() -> None:
    for function in (ef.max, ef.argmin, ef.cummax):
        with pytest.raises(ef.errors.DTypeError, match="no rule for c64"):
            function(ef.ones(3, dtype=ef.complex64))


@pytest.mark.parametrize("q", [1.5, -0.1, float("nan"), [0.5, 2.0]])
def test_quantiles_out_of_range_are_refused(q) -> None:
    for given in (q, ef.tensor(q)):
        with pytest.raises(ef.errors.TensorValueError, match="quantile: q is out of range"):
            ef.quantile(ef.ones(3), given)
