"""Multi-head attention as a layer."""

from __future__ import annotations

import math
from typing import Any, final

import eagerflow as ef
from eagerflow.extending import SIZE, require
from eagerflow.nn import functional as F
from eagerflow.nn import init
from eagerflow.nn.checks import check_divides, check_positions
from eagerflow.nn.layers.linear import Linear
from eagerflow.nn.module import Module

__all__ = ["MultiHeadAttention"]


@final
class MultiHeadAttention(Module):
    """Several attention heads in parallel, each in a subspace of its own (Vaswani et al., 2017).

    Query ``[..., queries, embed_dim]``, key ``[..., keys, kdim]`` and value ``[..., keys, vdim]``;
    output ``[..., queries, embed_dim]``. The weights of the projections are drawn as by Glorot
    and Bengio (2010), the weights of the output as in `Linear`; initially all biases are zeros.

    Args:
        embed_dim: the size of the last axis of queries and outputs.
        num_heads: number of heads; it divides ``embed_dim``.
        dropout: the probability with which attention weights are dropped in training mode.
        bias: whether the projections have biases.
        kdim: the size of the last axis of keys; by default ``embed_dim``.
        vdim: the size of the last axis of values, likewise.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        query: the projection of queries, a `Linear`.
        key: the projection of keys.
        value: the projection of values.
        output: the projection of the heads' outputs.

    Raises:
        TensorValueError: an argument is out of its range, or ``num_heads`` does not divide
            ``embed_dim``.

    >>> attention = ef.nn.MultiHeadAttention(16, num_heads=4)
    >>> x = ef.random.normal((2, 10, 16))
    >>> attention(x, is_causal=True).shape
    (2, 10, 16)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require("MultiHeadAttention", SIZE, embed_dim=embed_dim, num_heads=num_heads)
        check_divides("MultiHeadAttention", "num_heads", num_heads, embed_dim=embed_dim)
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout

        def projection(size: int) -> Linear:
            made = Linear(size, embed_dim, bias, dtype=dtype, generator=generator)
            if made.bias is not None:
                made.bias.assign(ef.zeros_like(made.bias))
            return made

        self.query = projection(embed_dim)
        self.key = projection(embed_dim if kdim is None else kdim)
        self.value = projection(embed_dim if vdim is None else vdim)
        for layer in (self.query, self.key, self.value):
            weight = layer.weight
            drawn = init.glorot_uniform(weight.shape, generator=generator, dtype=weight.dtype)
            weight.assign(drawn)
        self.output = projection(embed_dim)

    def forward(
        self,
        query: ef.Tensor,
        key: ef.Tensor | None = None,
        value: ef.Tensor | None = None,
        *,
        mask: ef.Tensor | None = None,
        is_causal: bool = False,
    ) -> ef.Tensor:
        """The output, ``[..., queries, embed_dim]``.

        Args:
            query: ``[..., queries, embed_dim]``.
            key: ``[..., keys, kdim]``; by default the query: self-attention.
            value: ``[..., keys, vdim]``; by default the key.
            mask: broadcasts to ``[..., num_heads, queries, keys]``. Boolean: the keys that a query
                attends to; floating: numbers added to the scores. To hide the padding of each
                sequence: ``(tokens != padding)[:, None, None, :]``.
            is_causal: whether keys after the position of a query are masked, whatever the mask.
        """
        key = query if key is None else key
        value = key if value is None else value
        q, k = self._heads(self.query, query), self._heads(self.key, key)
        v = self._heads(self.value, value)
        if mask is not None and is_causal:
            mask, is_causal = _both(mask, query.shape[-2], key.shape[-2]), False
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
        )
        attended = ef.moveaxis(attended, -3, -2)
        out: ef.Tensor = self.output(attended.reshape((*attended.shape[:-2], self.embed_dim)))
        return out

    def _heads(self, layer: Linear, x: ef.Tensor) -> ef.Tensor:
        """``x`` projected: ``[..., num_heads, length, head]``."""
        check_positions("MultiHeadAttention", x)
        made = layer(x)
        head = self.embed_dim // self.num_heads
        split = made.reshape((*made.shape[:-1], self.num_heads, head))
        return ef.moveaxis(split, -2, -3)


def _both(mask: ef.Tensor, queries: Any, keys: Any) -> ef.Tensor:
    """The mask combined with a causal one, which hides keys after the position of a query."""
    before = ef.arange(queries)[:, None] >= ef.arange(keys)
    return mask & before if mask.dtype is ef.bool else ef.where(before, mask, -math.inf)
