"""Gradient clipping, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.core.tree import leaves
from eagerflow.errors import TensorValueError
from eagerflow.optim import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm


def tree(scale: float = 1.0, dtype: Any = None) -> dict[str, Any]:
    """Gradients of all kinds; the rows of the sparse one are [6, 8] and [0, -1]."""
    dtype = ef.float32 if dtype is None else dtype
    rows = ef.tensor([[2.0, 8.0], [0.0, -1.0], [4.0, 0.0]], dtype=dtype) * scale
    return {
        "w": ef.tensor([[3.0, 0.0], [0.0, -4.0]], dtype=dtype) * scale,
        "none": None,
        "table": ef.IndexedSlices(rows, ef.tensor([5, 2, 5]), (7, 2)),
        "b": [ef.tensor(0.5, dtype=dtype) * scale],
    }


def dense(gradients: dict[str, Any]) -> list[np.ndarray]:
    return [np.asarray(gradients[k]) for k in ("w", "table")] + [np.asarray(gradients["b"][0])]


def both(function: Any) -> list[Any]:
    return [function, ef.trace(function)]


NORM = np.sqrt(25 + 101 + 0.25)


@pytest.mark.parametrize("dtype", [ef.float16, ef.bfloat16, ef.float32, ef.float64], ids=str)
def test_by_value(dtype: Any) -> None:
    for run in both(lambda g: clip_by_value(g, 1.5)):
        clipped = run(tree(dtype=dtype))
        for after, before in zip(dense(clipped), dense(tree(dtype=dtype)), strict=True):
            np.testing.assert_array_equal(after, np.clip(before, -1.5, 1.5))
        assert clipped["none"] is None
        assert isinstance(clipped["table"], ef.IndexedSlices)
        assert clipped["w"].dtype is clipped["table"].dtype is dtype


@pytest.mark.parametrize("dtype", [ef.float16, ef.bfloat16, ef.float32, ef.float64], ids=str)
@pytest.mark.parametrize("limit", [1.0, 5.5, 100.0])
def test_by_norm(limit: float, dtype: Any) -> None:
    near = 4 * float(ef.finfo(dtype).eps)
    for run in both(lambda g: clip_by_norm(g, limit)):
        clipped = run(tree(dtype=dtype))
        for after, before in zip(dense(clipped), dense(tree(dtype=dtype)), strict=True):
            wide = before.astype(np.float64)
            expected = wide * min(1, limit / np.linalg.norm(wide.ravel()))
            np.testing.assert_allclose(after.astype(np.float64), expected, rtol=near)
        assert clipped["w"].dtype is clipped["table"].dtype is dtype


@pytest.mark.parametrize("dtype", [ef.float16, ef.bfloat16, ef.float32, ef.float64], ids=str)
@pytest.mark.parametrize("limit", [1.0, 11.0, 12.0])
def test_by_global_norm(limit: float, dtype: Any) -> None:
    near = 4 * float(ef.finfo(dtype).eps)
    for run in both(lambda g: clip_by_global_norm(g, limit)):
        clipped, norm = run(tree(dtype=dtype))
        assert norm.dtype is (ef.float64 if dtype is ef.float64 else ef.float32)
        assert float(norm) == pytest.approx(NORM, rel=1e-6)
        for after, before in zip(dense(clipped), dense(tree(dtype=dtype)), strict=True):
            expected = before.astype(np.float64) * min(1, limit / NORM)
            np.testing.assert_allclose(after.astype(np.float64), expected, rtol=near)
        assert clipped["none"] is None
        assert clipped["w"].dtype is clipped["table"].dtype is dtype


def test_what_is_below_the_limit_stays_bit_for_bit() -> None:
    g = ef.random.Generator(0).normal((50,))
    for clipped in (clip_by_norm([g], 100.0), clip_by_global_norm([g], 100.0)[0]):
        np.testing.assert_array_equal(clipped[0].numpy(), g.numpy())


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=9), st.floats(0.01, 1e4))
def test_the_norm_is_at_most_the_limit(values: list[float], limit: float) -> None:
    gradients = [ef.tensor(values), ef.tensor(values[0])]
    clipped, norm = clip_by_global_norm(gradients, limit)
    after = float(global_norm(clipped))
    assert after <= min(limit, float(norm)) * (1 + 1e-5)
    assert float(norm) == pytest.approx(np.linalg.norm([*values, values[0]]), rel=1e-5, abs=1e-18)


def test_half_precision_squares_do_not_overflow() -> None:
    g = ef.full((4,), 1e4, dtype=ef.float16)
    clipped, norm = clip_by_global_norm([g], 1.0)
    assert float(norm) == pytest.approx(2e4, rel=1e-3)
    np.testing.assert_allclose(clipped[0].numpy(), 0.5, rtol=1e-3)


def test_zeros_and_nothing() -> None:
    clipped, norm = clip_by_global_norm([ef.zeros(3), None], 1.0)
    assert clipped[0].numpy().tolist() == [0, 0, 0]
    assert float(norm) == 0
    assert clip_by_norm([ef.zeros(3)], 1.0)[0].numpy().tolist() == [0, 0, 0]
    clipped, norm = clip_by_global_norm([None], 1.0)
    assert clipped == [None]
    assert float(norm) == 0


def test_a_nan_shows_in_the_norm() -> None:
    clipped, norm = clip_by_global_norm([ef.tensor([1.0, float("nan")]), ef.ones(2)], 1.0)
    assert np.isnan(norm.numpy())
    assert np.isnan(clipped[1].numpy()).all()


def test_complex() -> None:
    clipped, norm = clip_by_global_norm([ef.tensor([3 + 4j, 12j])], 1.3)
    assert float(norm) == pytest.approx(13)
    np.testing.assert_allclose(clipped[0].numpy(), np.array([3 + 4j, 12j]) / 10, rtol=1e-6)
    assert clipped[0].dtype is ef.complex64


def test_several_devices_and_dtypes() -> None:
    with ef.config(cpu_devices=2):
        a = ef.tensor([3.0], device="cpu:0")
        b = ef.tensor([4.0], dtype=ef.float64, device="cpu:1")
        clipped, norm = clip_by_global_norm([a, b], 1.0)
        assert float(norm) == 5
        assert norm.device is a.device
        assert [str(c.type) for c in clipped] == ["f32[1]@cpu:0", "f64[1]@cpu:1"]


def test_a_limit_from_outside_is_no_new_trace() -> None:
    run = ef.trace(lambda g, limit: clip_by_global_norm(g, limit))
    for limit in (1.0, 2.0, 3.0, 100.0):
        _, norm = run([ef.tensor([3.0, 4.0])], limit)
        assert float(norm) == 5
    assert len(run.traces) == 1


@pytest.mark.parametrize("function", [clip_by_value, clip_by_norm, clip_by_global_norm])
@pytest.mark.parametrize("dtype", [ef.float16, ef.float32, ef.float64], ids=str)
def test_a_limit_from_outside_does_as_eagerly(function: Any, dtype: Any) -> None:
    run = ef.trace(function)
    g = [ef.tensor([3.0, -4.0, 0.1], dtype=dtype)]
    for limit in (0.3, 2.0, ef.tensor(0.3), ef.tensor(0.7)):
        for ours, theirs in zip(leaves(run(g, limit)), leaves(function(g, limit)), strict=True):
            assert ours.type == theirs.type
            assert ours.numpy().tobytes() == theirs.numpy().tobytes()
    assert len(run.traces) == 2


@pytest.mark.parametrize("function", [clip_by_value, clip_by_norm, clip_by_global_norm])
@pytest.mark.parametrize("kind", [float, ef.tensor], ids=["number", "tensor"])
def test_a_limit_is_checked_in_each_run(function: Any, kind: Any) -> None:
    run = ef.trace(function)
    g = [ef.tensor([3.0, 4.0])]
    run(g, kind(1.0))
    for limit in (0.0, -1.0, float("nan")):
        with pytest.raises(TensorValueError, match=rf"{function.__name__}: .* is not positive"):
            run(g, kind(limit))
        with pytest.raises(TensorValueError, match=rf"{function.__name__}: .* is not positive"):
            function(g, kind(limit))
    assert len(run.traces) == 1


@pytest.mark.parametrize("function", [clip_by_value, clip_by_norm, clip_by_global_norm])
def test_errors(function: Any) -> None:
    for limit in (0, -1.0, float("nan")):
        with pytest.raises(TensorValueError, match=function.__name__):
            function([ef.ones(2)], limit)
    with pytest.raises(TensorValueError, match="is not a tensor\n  got: float at \\[1\\]\\['w'\\]"):
        function([ef.ones(2), {"w": 1.5}], 1.0)


@pytest.mark.parametrize("function", [clip_by_value, clip_by_norm, clip_by_global_norm])
def test_names_in_the_place_of_gradients(function: Any) -> None:
    grads = {"weight": ef.ones(2), "bias": ef.ones(2)}
    with pytest.raises(TensorValueError, match=r"got: 'weightweight' at \[0\]") as caught:
        function([a + b for a, b in zip(grads, grads, strict=True)], 1.0)
    assert "iterating over a dict gives its names" in str(caught.value.hint)


@pytest.mark.peer
def test_like_pytorch() -> None:
    torch = pytest.importorskip("torch")
    given = [tree()["w"].numpy(), tree()["b"][0].numpy()]
    theirs = [torch.zeros(g.shape, requires_grad=True) for g in given]
    for limit in (1.0, 4.0, 100.0):
        for x, g in zip(theirs, given, strict=True):
            x.grad = torch.tensor(g)
        norm = torch.nn.utils.clip_grad_norm_(theirs, limit)
        clipped, ours = clip_by_global_norm([ef.tensor(g) for g in given], limit)
        assert float(ours) == pytest.approx(float(norm), rel=1e-6)
        for a, b in zip(clipped, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("clip", [clip_by_value, clip_by_norm, clip_by_global_norm])
def test_variables_in_the_place_of_gradients_are_refused(clip: Any) -> None:
    net = ef.nn.Linear(2, 3)
    for run in both(lambda: clip(net.trainable, 1.0)):
        with pytest.raises(TensorValueError, match="in the place of a gradient") as caught:
            run()
        assert "ef.value_and_grad(loss_fn, wrt=net.trainable)" in str(caught.value.hint)
        assert "test_clipping.py" in str(caught.value)
    assert float(global_norm(net.trainable)) > 0.0  # to be logged
