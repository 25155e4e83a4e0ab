"""Elementwise functions at their edges: ties, zeros, infinities, errors."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import mpmath
import numpy as np
import pytest

import eagerflow as ef
from tests.messages import says
from tests.ops.table import rules_checked

INF, NAN = math.inf, math.nan


def _slope(function: Any, x: Any, order: int = 1) -> Any:
    """The derivative, of an order, of a function of one number, in float64."""
    for _ in range(order):
        function = ef.grad(function)
    return function(ef.tensor(x, dtype=ef.float64)).item()


# --- derivatives at ties, kinks and poles ---------------------------------------------------


@pytest.mark.parametrize("function", [ef.maximum, ef.minimum])
def test_ties_share_the_cotangent(function: Any) -> None:
    x = ef.tensor([1.0, 2.0])
    gx, gy = ef.grad(lambda a, b: ef.sum(function(a, b)), argnums=(0, 1))(x, x + 0)
    assert gx.tolist() == gy.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("function", [ef.abs, ef.sign, lambda x: ef.hypot(x, 0.0)])
def test_derivatives_that_are_zero_at_zero(function: Any) -> None:
    assert _slope(lambda x: function(x) + 0 * x, 0.0) == 0


def test_abs_of_a_complex_number_descends() -> None:
    z = ef.tensor([3 + 4j, 0j])
    g = ef.grad(lambda x: ef.sum(ef.abs(x)))(z)
    np.testing.assert_allclose(g.numpy(), [0.6 + 0.8j, 0], rtol=1e-6)


@pytest.mark.parametrize(("x", "expected"), [(0.0, 1.0), (1.0, 1.0), (0.5, 1.0), (2.0, 0.0)])
def test_clip_keeps_its_slope_on_the_ends(x: float, expected: float) -> None:
    assert _slope(lambda v: ef.clip(v, 0, 1), x) == expected
    assert _slope(lambda v: ef.clip(v, None, 1), x) == expected
    assert _slope(lambda v: ef.clip(v, x, None), x) == 1


def test_clip_with_limits_that_cross_gives_the_upper_one() -> None:
    assert ef.clip(ef.tensor([0.0, 5.0, 9.0]), 6.0, 4.0).tolist() == [4.0, 4.0, 4.0]
    limits = ef.grad(lambda lo, hi: ef.sum(ef.clip(5.0, lo, hi)), argnums=(0, 1))
    assert [g.item() for g in limits(ef.tensor(6.0), ef.tensor(4.0))] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("exponent", "expected"), [(0, 0.0), (0.0, 0.0), (1, 1.0), (2, 0.0), (3.0, 0.0), (2.5, 0.0)]
)
def test_powers_of_zero_have_a_slope(exponent: float, expected: float) -> None:
    assert _slope(lambda x: x**exponent, 0.0) == expected
    assert _slope(lambda x: ef.pow(x, ef.tensor(exponent, dtype=ef.float64)), 0.0) == expected


def test_second_derivatives_of_powers_of_zero() -> None:
    two = ef.tensor(2.0, dtype=ef.float64)
    assert _slope(lambda x: ef.pow(x, two), 0.0, order=2) == 2
    assert _slope(lambda x: x**3, 0.0, order=2) == 0
    assert _slope(lambda x: x**3, 0.0, order=3) == 6


def test_slope_by_the_exponent_where_the_base_is_zero() -> None:
    zero = ef.tensor(0.0, dtype=ef.float64)
    assert _slope(lambda y: ef.pow(zero, y), 2.0) == 0
    assert _slope(lambda y: ef.pow(zero, y), 0.0) == 0


def test_slope_of_atan2_at_the_origin() -> None:
    zero = ef.tensor(0.0)
    assert [g.item() for g in ef.grad(ef.atan2, argnums=(0, 1))(zero, zero)] == [0, 0]


def test_slope_of_logaddexp_at_infinities() -> None:
    x = ef.tensor([-INF, -INF, 0.0, INF])
    y = ef.tensor([-INF, 0.0, -INF, 0.0])
    gx, gy = ef.vjp(ef.logaddexp, x, y)[1](ef.ones(4))
    assert gx.tolist() == [1, 0, 1, 1]
    assert gy.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(("order", "expected"), [(1, 0.0), (2, -(math.pi**2) / 3), (3, 0.0)])
def test_derivatives_of_sinc_at_zero(order: int, expected: float) -> None:
    assert _slope(ef.sinc, 0.0, order) == pytest.approx(expected, rel=1e-12)


def test_xlogy_at_zero() -> None:
    x = ef.tensor([0.0, 0.0, 0.0, 0.0])
    y = ef.tensor([0.0, -1.0, INF, NAN])
    assert ef.xlogy(x, y).tolist()[:3] == [0, 0, 0]
    assert math.isnan(ef.xlogy(x, y)[3].item())
    slope = ef.grad(lambda a: ef.xlogy(a, 2.0))(ef.tensor(0.0))
    assert slope.item() == pytest.approx(math.log(2))


def test_nan_to_num_lets_through_what_is_finite() -> None:
    g = ef.grad(lambda x: ef.sum(ef.nan_to_num(x, posinf=1.0) * 2))
    assert g(ef.tensor([1.0, NAN, INF])).tolist() == [2, 0, 0]
    h = ef.grad(lambda x: ef.sum(ef.real(ef.nan_to_num(x)) * 2 + ef.imag(ef.nan_to_num(x)) * 3))
    assert h(ef.tensor([complex(1, NAN), complex(NAN, 1), 0])).tolist() == [2, 3j, 2 + 3j]


def test_gradient_through_a_rounded_number_is_refused_or_zero() -> None:
    assert _slope(lambda x: ef.floor(x) + x, 1.5) == 1
    with pytest.raises(ef.errors.GradientError, check=says("nextafter")):
        ef.grad(lambda x: ef.nextafter(x, 2.0))(ef.tensor(1.0))


# --- powers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "exponent", "op"),
    [(2.0, 2, "square"), (2.0, 2.0, "square"), (2, 2, "square"), (2.0, 1, "positive"),
     (2, 2.0, "pow"), (True, 2, "pow"), (2.0, True, "pow")],
)  # fmt: skip
def test_powers_that_are_simpler_ops(base: Any, exponent: Any, op: str) -> None:
    with rules_checked() as seen:
        ef.pow(ef.tensor([base]), exponent)
    assert op in seen


def test_powers_with_operators_give_what_the_function_gives() -> None:
    x = ef.tensor([-2.0, -0.0, 0.0, 3.0, INF])
    for exponent in (2, 2.0, 3, 3.0, 4, -1, 0, 1):
        with np.errstate(divide="ignore"):
            for _ in range(2):  # the second call takes the kernel that the first one remembered
                np.testing.assert_array_equal((x**exponent).numpy(), ef.pow(x, exponent).numpy())
                assert (x**exponent).dtype is ef.float32


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("exponent", [-3, -2, 3, 4, 5, 8, 11])
def test_whole_powers_of_negative_numbers(dtype: str, exponent: int) -> None:
    values = [-2.0, -1.5, -0.0, 0.0, 1.5, 2.0, -INF, INF, NAN]
    with np.errstate(divide="ignore", over="ignore"):
        got = ef.pow(ef.tensor(values, dtype=dtype), exponent).numpy()
        want = np.array([NAN if v != v else np.power(v, float(exponent)) for v in values])
        np.testing.assert_allclose(
            got, want.astype(dtype), rtol=1e-3 if dtype == "float16" else 1e-6
        )
    np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(want[:-1]))


def test_the_power_one_half_is_not_the_root() -> None:
    x = ef.tensor([-0.0, -INF, 4.0])
    for got in (x**0.5, ef.pow(x, 0.5), ef.pow(x, ef.tensor([0.5]))):
        assert got.tolist() == [0.0, INF, 2.0]
        assert not ef.signbit(got).any()


def test_negative_integer_powers_of_integers_are_refused() -> None:
    for call in (lambda x: x**-1, lambda x: ef.pow(x, -1), lambda x: x ** (x - 5)):
        with pytest.raises(ef.errors.TensorValueError, match="negative integer powers"):
            call(ef.tensor([1, 2]))


def test_integers_to_a_float_are_floats() -> None:
    assert (ef.tensor([4, 9]) ** 0.5).dtype is ef.float32
    assert (2 ** ef.tensor([1.0, 3.0])).tolist() == [2, 8]


# --- comparison -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("number", [-(2**70), -200, 2**70])
def test_comparison_with_integers_out_of_range(dtype: str, number: int) -> None:
    x = ef.tensor([0, 1, 100], dtype=dtype)
    if dtype == "int64" and number == -200:
        return
    above = number > 0
    for _ in range(2):
        assert ef.less(x, number).tolist() == (x < number).tolist() == [above] * 3
        assert ef.greater_equal(x, number).tolist() == (x >= number).tolist() == [not above] * 3
        assert ef.less(number, x).tolist() == (number < x).tolist() == [not above] * 3
        assert ef.equal(x, number).tolist() == (x == number).tolist() == [False] * 3
        assert ef.not_equal(number, x).tolist() == (number != x).tolist() == [True] * 3


def test_comparison_of_complex_numbers_is_refused() -> None:
    with pytest.raises(ef.errors.DTypeError, match="less: no rule for c64"):
        ef.less(ef.tensor([1j]), 1.0)


def test_array_equal_of_different_shapes() -> None:
    assert not ef.array_equal(ef.ones(2), ef.ones(3))
    assert ef.array_equal(ef.tensor([NAN]), ef.tensor([NAN]), equal_nan=True)
    assert not ef.array_equal(ef.tensor([NAN]), ef.tensor([NAN]))


def test_infinities_are_close_to_themselves_only() -> None:
    x = ef.tensor([INF, INF, -INF, NAN, 1.0])
    y = ef.tensor([INF, -INF, 1.0, NAN, INF])
    assert ef.isclose(x, y).tolist() == [True, False, False, False, False]
    assert ef.isclose(x, y, equal_nan=True).tolist() == [True, False, False, True, False]


# --- values ---------------------------------------------------------------------------------


def test_floor_division_by_infinity() -> None:
    x1 = ef.tensor([INF, -INF, INF, 1.0, -1.0, 1.0])
    x2 = ef.tensor([2.0, 2.0, INF, INF, INF, -INF])
    with np.errstate(invalid="ignore"):
        got = ef.floor_divide(x1, x2).numpy()
    np.testing.assert_array_equal(got, [INF, -INF, NAN, 0, 0, 0])
    np.testing.assert_array_equal(np.signbit(got[3:]), [False, True, True])


def test_expm1_of_infinite_complex_numbers() -> None:
    with np.errstate(invalid="ignore"):
        got = ef.expm1(ef.tensor([complex(INF, 0), complex(-INF, INF)])).tolist()
    assert got == [complex(INF, 0), -1]


def test_tanh_of_infinite_complex_numbers() -> None:
    got = ef.tanh(ef.tensor([complex(INF, 2), complex(-INF, 2), complex(INF, -2)])).numpy()
    assert got.real.tolist() == [1, -1, 1]
    assert np.signbit(got.imag).tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_log1p_of_small_complex_numbers(dtype: str) -> None:
    values = [1e-12 + 1e-9j, -1e-10 + 1e-3j, 0.3 - 0.3j, 1e-5]
    got = ef.log1p(ef.tensor(values, dtype=dtype)).numpy()
    with mpmath.workdps(40):
        want = np.array([complex(mpmath.log(1 + mpmath.mpc(v))) for v in values])
    eps = np.finfo(dtype).eps
    np.testing.assert_array_less(np.abs(got - want), 8 * eps * np.abs(want))


@pytest.mark.parametrize(
    ("x", "decimals", "expected"),
    [
        ([1.25, 2.35], 1, [1.2, 2.4]),
        ([151.0, 250.0], -2, [200.0, 200.0]),
        ([1.5, -2.5], 0, [2, -2]),
    ],
)
def test_round_to_decimals(x: list[float], decimals: int, expected: list[float]) -> None:
    np.testing.assert_allclose(ef.round(ef.tensor(x), decimals).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
@pytest.mark.parametrize("decimals", [2, -1, -2, -3, -20])
def test_rounded_integers_are_integers(dtype: str, decimals: int) -> None:
    numbers = np.arange(-128, 256).astype(dtype)
    got = ef.round(ef.tensor(numbers), decimals)
    assert got.dtype == dtype
    assert got.tolist() == np.round(numbers, decimals).tolist()


def test_integers_past_those_that_are_floats_are_rounded() -> None:
    assert ef.round(ef.tensor(2**62 + 5), -1).item() == 4611686018427387910
    assert ef.round(ef.tensor(2**62 + 5), 1).item() == 2**62 + 5


def test_the_next_number_of_16_bits() -> None:
    one = ef.ones((), dtype=ef.bfloat16)
    assert float(ef.nextafter(one, ef.tensor(2.0, dtype=ef.bfloat16))) == 1 + 2**-7


def test_nan_to_num_stays_in_the_range_of_the_dtype() -> None:
    for dtype in (ef.float16, ef.bfloat16, ef.float32, ef.float64):
        got = ef.nan_to_num(ef.tensor([NAN, INF, -INF], dtype=dtype))
        largest = float(ef.finfo(dtype).max)
        assert [float(v) for v in got] == [0.0, largest, -largest]


def test_results_are_values_of_their_own() -> None:
    x = ef.tensor([1.0, 2.0])
    for function in (ef.positive, ef.conj, ef.real, lambda v: v**1, ef.clip):
        y = function(x)
        y += 1
        assert x.tolist() == [1.0, 2.0]


def test_what_is_not_complex_is_its_own_real_part() -> None:
    for values in ([True, False], [b"a", b""], [1, 2]):
        x = ef.tensor(values)
        assert isinstance(x, _WithParts)  # Python 3.11 reads the attributes of a protocol
        y = x.real
        assert (y.tolist(), y.dtype) == (values, x.dtype)
        y[0] = x[1]
        assert x.tolist() == values


@runtime_checkable
class _WithParts(Protocol):
    """What has parts: libraries tell arrays by such protocols."""

    @property
    def real(self) -> object:
        """The real part."""


def test_kernels_do_not_write_into_their_inputs() -> None:
    values = np.array([-2.0, 0.5, 3.0], np.float32)
    x = ef.asarray(values)
    for function in (lambda v: v**5, ef.sigmoid, ef.expm1, ef.sinc, lambda v: ef.clip(v, 0, 1)):
        function(x)
    assert values.tolist() == [-2.0, 0.5, 3.0]


# --- errors ---------------------------------------------------------------------------------


def test_bits_of_floats_are_refused() -> None:
    with pytest.raises(ef.errors.DTypeError, match="bitwise_and: no rule for f32"):
        ef.tensor([1.5]) & ef.tensor([1.5])
    with pytest.raises(ef.errors.DTypeError, match="bitwise_left_shift: no rule for bool"):
        ef.bitwise_left_shift(ef.tensor([True]), ef.tensor([True]))


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ef.errors.ShapeError, match="maximum: shapes cannot be broadcast together"):
        ef.maximum(ef.ones(2), ef.ones(3))


@pytest.mark.parametrize("function", [ef.floor, ef.hypot, ef.maximum, ef.erf, ef.atan2])
def test_complex_numbers_where_there_is_no_order(function: Any) -> None:
    z = ef.tensor([1j])
    with pytest.raises(ef.errors.DTypeError, match="no rule for c64"):
        function(z) if function in (ef.floor, ef.erf) else function(z, z)


def test_negative_orders_of_polygamma_are_refused() -> None:
    with pytest.raises(ef.errors.TensorValueError, check=says("negative")):
        ef.polygamma(-1, ef.ones(1))
