"""Normalisations: running statistics, precision, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError, VariableError
from eagerflow.nn import functional as F


def _running(count: int = 2) -> tuple[ef.Variable, ef.Variable]:
    mean, var = ef.zeros(count), ef.ones(count)
    return ef.Variable(mean, trainable=False), ef.Variable(var, trainable=False)


@pytest.mark.parametrize("traced", [False, True])
def test_running_statistics_move_in_each_call(traced: bool) -> None:
    mean, var = _running()
    rng = np.random.default_rng(0)
    want_mean, want_var = np.zeros(2), np.ones(2)

    def step(x: Any) -> Any:
        return ef.grad(lambda x: F.batch_norm(x, mean, var, training=True).sum())(x)

    f = ef.trace(step) if traced else step
    for n in (3, 5, 7):
        x = rng.normal(size=(n, 2, 4)).astype(np.float32)
        f(ef.tensor(x))
        rows = np.moveaxis(x, 1, -1).reshape(-1, 2)
        want_mean = 0.9 * want_mean + 0.1 * rows.mean(0)
        want_var = 0.9 * want_var + 0.1 * rows.var(0, ddof=1)
        np.testing.assert_allclose(mean.numpy(), want_mean, atol=1e-6)
        np.testing.assert_allclose(var.numpy(), want_var, atol=1e-6)


NORMS = {
    "batch_norm": lambda x, mean, var: F.batch_norm(x, mean, var, training=True),
    "instance_norm": lambda x, mean, var: F.instance_norm(x, mean, var),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", NORMS)
def test_an_empty_batch_moves_no_running_statistics(name: str, traced: bool) -> None:
    mean, var = _running()

    def step(x: Any) -> Any:
        return ef.grad(lambda x: NORMS[name](x, mean, var).sum())(x)

    f = ef.trace(step) if traced else step
    for n in (3, 4, 5):  # with a symbolic number of rows from the second on
        f(ef.ones((n, 2, 4)))
    before = mean.numpy(), var.numpy()
    assert f(ef.ones((0, 2, 4))).shape == (0, 2, 4)
    np.testing.assert_array_equal((mean.numpy(), var.numpy()), before)
    assert not traced or len(f.traces) < 4


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("empty", [(0, 2, 1), (0, 2, 0), (3, 2, 0)])
def test_nor_does_one_with_other_sizes(name: str, empty: tuple[int, ...], traced: bool) -> None:
    mean, var = _running()

    def step(x: Any) -> Any:
        return NORMS[name](x, mean, var)

    f = ef.trace(step) if traced else step
    for shape in ((3, 2, 4), (4, 2, 5)):  # both are symbolic from the second on
        f(ef.ones(shape))
    before = mean.numpy(), var.numpy()
    assert f(ef.ones(empty)).shape == empty
    np.testing.assert_array_equal((mean.numpy(), var.numpy()), before)
    with pytest.raises(TensorValueError, match="too few values for each mean and variance: 1"):
        f(ef.ones((1, 2, 1)))


@pytest.mark.parametrize("traced", [False, True])
def test_one_value_for_each_channel_is_refused(traced: bool) -> None:
    mean, var = _running()

    def step(x: Any) -> Any:
        return F.batch_norm(x, mean, var, training=True)

    f = ef.trace(step) if traced else step
    for n in (3, 4):  # the second trace has a symbolic size
        f(ef.ones((n, 2)))
    before = mean.numpy().copy(), var.numpy().copy()
    with pytest.raises(TensorValueError, match="too few values for each mean and variance: 1"):
        f(ef.ones((1, 2)))
    np.testing.assert_array_equal(mean.numpy(), before[0])
    np.testing.assert_array_equal(var.numpy(), before[1])


def test_one_value_is_fine_otherwise() -> None:
    out = F.batch_norm(ef.ones((1, 2)), *_running())
    np.testing.assert_allclose(out.numpy(), np.ones((1, 2)), rtol=1e-5)


def test_instances_of_one_value_are_refused() -> None:
    with pytest.raises(TensorValueError, match="too few values for each mean and variance: 1"):
        F.instance_norm(ef.ones((3, 2, 1)))


def test_running_statistics_must_be_there() -> None:
    with pytest.raises(ShapeError, match="batch_norm: the running mean and variance are missing"):
        F.batch_norm(ef.ones((3, 2)), None, None)
    with pytest.raises(VariableError, match="must be variables in training"):
        F.batch_norm(ef.ones((3, 2)), ef.zeros(2), ef.ones(2), training=True)


def test_shapes_are_checked() -> None:
    with pytest.raises(ShapeError, match="layer_norm: the last axes have other sizes"):
        F.layer_norm(ef.ones((3, 4)), 3)
    with pytest.raises(ShapeError, match="rms_norm: the last axes have other sizes"):
        F.rms_norm(ef.ones(4), (2, 4))
    with pytest.raises(ShapeError, match="group_norm: 3 groups do not divide 4 channels"):
        F.group_norm(ef.ones((2, 4)), 3)
    with pytest.raises(ShapeError, match="batch_norm: expected at least 2 axes"):
        F.batch_norm(ef.ones(3), None, None, training=True)
    with pytest.raises(ShapeError, match="local_response_norm: size is not positive"):
        F.local_response_norm(ef.ones((2, 4)), 0)


@pytest.mark.parametrize("offset", [0.0, 100.0, 1000.0])
def test_precise_in_float32(offset: float) -> None:
    """As precise as the input allows: the mean square less the squared mean would have no digit."""
    x = (offset + np.random.default_rng(1).normal(size=(4096, 3))).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
    got = F.batch_norm(ef.tensor(x), None, None, training=True).numpy()
    np.testing.assert_allclose(got, want, atol=2e-7 * (offset + 10))


def test_errors_name_what_was_called() -> None:
    with pytest.raises(TensorValueError, match=r"^batch_norm: too few values"):
        F.batch_norm(ef.ones((1, 3)), None, None, training=True)
    with pytest.raises(TensorValueError, match=r"^instance_norm: too few values"):
        F.instance_norm(ef.ones((1, 3, 1)))


def test_mean_square_of_float16_does_not_overflow() -> None:
    x = ef.tensor([[300.0, -300.0, 300.0]], dtype=ef.float16)
    for out in (F.rms_norm(x, 3), ef.nn.RMSNorm(3, elementwise_affine=False)(x)):
        assert out.dtype is ef.float16
        np.testing.assert_array_equal(out.numpy(), [[1, -1, 1]])
    gradient = ef.grad(lambda x: (F.rms_norm(x, 3) * x).sum())(x)
    assert gradient.dtype is ef.float16
    assert np.isfinite(gradient.numpy()).all()


@pytest.mark.parametrize("dtype", [ef.float16, ef.bfloat16, ef.float32, ef.float64])
def test_result_has_the_dtype_of_the_input_in_both_modes(dtype: Any) -> None:
    layer = ef.nn.BatchNorm(2, affine=False)
    x = ef.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=dtype)
    assert layer(x).dtype is dtype
    assert layer.eval()(x).dtype is dtype
