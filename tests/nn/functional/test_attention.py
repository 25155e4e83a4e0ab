"""Attention: dropout of weights, and refused masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.nn import functional as F

Q = ef.tensor(np.random.default_rng(0).normal(size=(2, 3, 4)))


def test_dropout_of_shares() -> None:
    eye = ef.broadcast_to(ef.eye(3, dtype=ef.float64), (2, 3, 3))
    whole = F.scaled_dot_product_attention(Q, Q, eye).numpy()
    dropped = F.scaled_dot_product_attention(
        Q, Q, eye, dropout_p=0.5, generator=ef.random.Generator(1)
    ).numpy()
    kept = dropped != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(dropped[kept], 2 * whole[kept])


def test_masks_are_checked() -> None:
    mask = ef.ones((3, 3), dtype=bool)
    with pytest.raises(TensorValueError, match="a mask and is_causal exclude each other"):
        F.scaled_dot_product_attention(Q, Q, Q, mask, is_causal=True)
    with pytest.raises(DTypeError, match="the mask is neither bool nor floating"):
        F.scaled_dot_product_attention(Q, Q, Q, mask.astype(ef.int64))
    for dtype in (ef.bool, ef.float32):
        with pytest.raises(ShapeError, match=r"the mask does not fit the scores(.|\n)*\[:, None"):
            F.scaled_dot_product_attention(Q, Q, Q, mask[:, :2].astype(dtype))
    with pytest.raises(TensorValueError, match="dropout: the probability is out of range"):
        F.scaled_dot_product_attention(Q, Q, Q, dropout_p=2.0)


def test_gradient_of_a_query_that_sees_nothing_is_zero() -> None:
    mask = ef.tensor([[True] * 3, [False] * 3, [True] * 3])
    gradients = ef.grad(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, mask).sum(), argnums=(0, 1)
    )(Q, Q)
    for gradient in gradients:
        assert np.isfinite(gradient.numpy()).all()
    assert (gradients[0].numpy()[:, 1] == 0).all()


@pytest.mark.parametrize("dtype", [ef.float16, ef.bfloat16])
def test_scores_are_made_in_float32(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (ef.tensor(rng.normal(size=(2, 5, 8)) * 4, dtype=dtype) for _ in range(3))
    got = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    wide = (x.astype(ef.float64) for x in (q, k, v))
    want = F.scaled_dot_product_attention(*wide, is_causal=True).astype(dtype)
    assert got.dtype is dtype
    unit = float(ef.finfo(dtype).eps)
    np.testing.assert_allclose(
        got.astype(ef.float64).numpy(), want.astype(ef.float64).numpy(), rtol=unit, atol=1e-6
    )


def test_scores_beyond_float16_do_not_overflow() -> None:
    x = ef.tensor([[400.0, 0.0], [0.0, 400.0]], dtype=ef.float16)
    out = F.scaled_dot_product_attention(x, x, x)
    np.testing.assert_array_equal(out.numpy(), x.numpy())
    gradient = ef.grad(lambda x: F.scaled_dot_product_attention(x, x, x).sum())(x)
    assert np.isfinite(gradient.numpy()).all()
