"""Scaled dot-product attention."""

from __future__ import annotations

import math

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.extending import TensorLike, maximum
from eagerflow.nn.functional.dropout import dropout

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    generator: ef.random.Generator | None = None,
) -> ef.Tensor:
    """``softmax(query @ key.mT * scale + mask) @ value`` (Vaswani et al., 2017).

    The result for a query with all keys masked is zeros, and so are its gradients. In float16
    and bfloat16, scores and attention weights are computed in float32.

    Args:
        query: floating, ``[..., L, E]``.
        key: floating, ``[..., S, E]``.
        value: floating, ``[..., S, V]``.
        attn_mask: broadcasts to ``[..., L, S]``: bool, whether the query attends to the key; or
            floating, added to the scores.
        dropout_p: the probability with which an attention weight is set to 0. Unlike in layers
            there is no ``training`` here: pass 0 outside of training.
        is_causal: whether query i attends only to keys 0 to i.
        scale: factor of the scores; by default ``1 / sqrt(E)``.
        generator: the generator for dropout; the process's own by default.

    Returns:
        ``[..., L, V]``.

    Raises:
        TensorValueError: both a mask and ``is_causal`` are given.
        DTypeError: the mask is neither bool nor floating.
        ShapeError: shapes do not fit.

    >>> x = ef.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> ef.round(ef.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True), 3)
    Tensor([[1.  , 0.  ],
            [0.33, 0.67]], f32[2,2]@cpu:0)
    """
    q, k, v = (ef.asarray(x) for x in (query, key, value))
    dtype = ef.result_type(q, k, v)
    narrow = dtype.is_floating and dtype.itemsize < 4  # scores would overflow, and lose digits
    if narrow:
        q, k, v = (x.astype(ef.float32) for x in (q, k, v))
    factor = maximum(q.shape[-1], 1) ** -0.5 if scale is None else scale
    shares = _shares(ef.matmul(q * factor, k.mT), attn_mask, is_causal)
    if dropout_p:
        shares = dropout(shares, dropout_p, generator=generator)
    out = ef.matmul(shares, v)
    return out.astype(dtype) if narrow else out


def _shares(scores: ef.Tensor, mask: TensorLike | None, is_causal: bool) -> ef.Tensor:
    """The attention weights: the share of each value in the result of a query."""
    if mask is None:
        return _causal(scores) if is_causal else ef.softmax(scores)
    if is_causal:
        raise TensorValueError(
            "scaled_dot_product_attention: a mask and is_causal exclude each other",
            hint="combine both into one mask",
        )
    return _masked(scores, ef.asarray(mask))


def _causal(scores: ef.Tensor) -> ef.Tensor:
    """The attention weights where query i attends only to keys 0 to i."""
    queries, keys = scores.shape[-2:]
    rows = ef.arange(queries, device=scores.device)
    before = rows[:, None] >= ef.arange(keys, device=scores.device)
    return ef.softmax(ef.where(before, scores, -math.inf))


def _masked(scores: ef.Tensor, mask: ef.Tensor) -> ef.Tensor:
    """The attention weights; zeros where all scores are -inf, of which softmax would be NaN."""
    if not (mask.dtype is ef.bool or mask.dtype.is_floating):
        raise DTypeError(
            "scaled_dot_product_attention: the mask is neither bool nor floating",
            given=f"attn_mask={mask.type}",
        )
    try:
        hide = mask.dtype is ef.bool
        scores = ef.where(mask, scores, -math.inf) if hide else scores + mask
    except ShapeError as error:
        raise ShapeError(
            "scaled_dot_product_attention: the mask does not fit the scores",
            given=f"attn_mask={mask.type}, scores {scores.type}",
            expected="[..., queries, keys], or a shape that broadcasts to it",
            hint="to hide the padding of each sequence: attn_mask[:, None, None, :]",
            source=error.source,
        ) from None
    none = ef.all(scores == -math.inf, axis=-1, keepdims=True)
    return ef.where(none, 0, ef.softmax(ef.where(none, 0, scores)))
