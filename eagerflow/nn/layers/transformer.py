"""Layers of transformers: encoder and decoder layers, and stacks of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import ClassVar, Final, Literal, final

import eagerflow as ef
from eagerflow.extending import SIZE, one_of, require
from eagerflow.nn import functional as F
from eagerflow.nn.layers.attention import MultiHeadAttention
from eagerflow.nn.layers.dropout import Dropout
from eagerflow.nn.layers.linear import Linear
from eagerflow.nn.layers.normalisation import LayerNorm
from eagerflow.nn.module import Module

__all__ = [
    "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

Activation = Literal["relu", "gelu"] | Callable[[ef.Tensor], ef.Tensor]
_ACTIVATIONS: Final = {"relu": F.relu, "gelu": F.gelu}
_ACTIVATION: Final = one_of(*_ACTIVATIONS)


class _AbstractLayer(Module):
    """What encoder and decoder layers have in common: all but how their parts follow."""

    _looks_up: ClassVar[bool]
    multihead_attn: MultiHeadAttention
    norm3: LayerNorm

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        name = type(self).__name__
        require(name, SIZE, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        if not callable(activation):
            require(name, _ACTIVATION, activation=activation)
        self.d_model = d_model
        self.nhead = nhead
        self.dim_feedforward = dim_feedforward
        self.activation = activation
        self.batch_first = batch_first
        self.norm_first = norm_first
        self.dropout = Dropout(dropout)

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(
                d_model, nhead, dropout, bias, dtype=dtype, generator=generator
            )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

        self.self_attn = attention()
        if self._looks_up:
            self.multihead_attn = attention()
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype, generator=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype, generator=generator)
        self.norm1, self.norm2 = norm(), norm()
        if self._looks_up:
            self.norm3 = norm()

    def _add(
        self, x: ef.Tensor, norm: LayerNorm, part: Callable[[ef.Tensor], ef.Tensor]
    ) -> ef.Tensor:
        """``x`` and what a part of the layer makes of it, with the norm before or after."""
        if self.norm_first:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))

    def _feed(self, x: ef.Tensor) -> ef.Tensor:
        """The part that takes each position by itself."""
        activation = self.activation
        if isinstance(activation, str):
            activation = _ACTIVATIONS[activation]
        return self.linear2(self.dropout(activation(self.linear1(x))))

    def _batch_first(self, x: ef.Tensor) -> ef.Tensor:
        """``[batch, length, d_model]`` of what the layer takes, and the way back."""
        return x if self.batch_first or x.ndim < 3 else ef.moveaxis(x, 0, 1)


@final
class TransformerEncoderLayer(_AbstractLayer):
    """Attention of a sequence to itself, and an MLP for each position (Vaswani et al., 2017).

    Input and output ``[length, batch, d_model]``, with ``batch_first`` ``[batch, length,
    d_model]``, or one sequence ``[length, d_model]``. Around each of the two is a residual and a
    layer norm.

    Args:
        d_model: the size of the last axis.
        nhead: how many attentions there are side by side; it divides ``d_model``.
        dim_feedforward: the size of the hidden layer of the MLP.
        dropout: the probability with which shares of attention, hidden elements and what is
            added to the residual are dropped in training mode.
        activation: of the MLP: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to variances by the norms.
        batch_first: whether the first axis is that of the batch.
        norm_first: whether the norms are before attention and MLP, instead of after the
            residuals; then a stack of layers wants a last norm.
        bias: whether projections, MLP and norms have biases.
        dtype: of the variables; float32 by default.
        generator: where to draw the initial values from.

    Attributes:
        self_attn: a `MultiHeadAttention`.
        linear1: the first layer of the MLP; ``linear2`` the second.
        norm1: the norm of the attention; ``norm2`` that of the MLP.

    >>> layer = ef.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, batch_first=True)
    >>> layer(ef.ones((2, 10, 16)), is_causal=True).shape
    (2, 10, 16)
    """

    _looks_up = False

    def forward(
        self, x: ef.Tensor, *, mask: ef.Tensor | None = None, is_causal: bool = False
    ) -> ef.Tensor:
        """The output.

        Args:
            x: the sequences.
            mask: broadcasts to ``[batch, nhead, length, length]``, whatever ``batch_first`` is.
                Boolean: which positions a position sees; of a floating dtype: what is added to
                their scores. Of the padding of each sequence:
                ``(tokens != padding)[:, None, None, :]`` for tokens ``[batch, length]``.
            is_causal: whether a position sees no later ones, whatever the mask.
        """

        def attend(x: ef.Tensor) -> ef.Tensor:
            return self.self_attn(x, mask=mask, is_causal=is_causal)

        x = self._add(self._batch_first(x), self.norm1, attend)
        return self._batch_first(self._add(x, self.norm2, self._feed))


@final
class TransformerDecoderLayer(_AbstractLayer):
    """`TransformerEncoderLayer` with attention to another sequence, the memory, between its parts.

    Input ``[length, batch, d_model]`` and memory ``[others, batch, d_model]``; output as the
    input. With ``batch_first`` the first two axes are swapped; one sequence has no batch.

    Args:
        d_model: the size of the last axis.
        nhead: how many attentions there are side by side; it divides ``d_model``.
        dim_feedforward: the size of the hidden layer of the MLP.
        dropout: the probability with which shares of attention, hidden elements and what is
            added to the residual are dropped in training mode.
        activation: of the MLP: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to variances by the norms.
        batch_first: whether the first axis is that of the batch.
        norm_first: whether the norms are before attentions and MLP, instead of after the
            residuals; then a stack of layers wants a last norm.
        bias: whether projections, MLP and norms have biases.
        dtype: of the variables; float32 by default.
        generator: where to draw the initial values from.

    Attributes:
        self_attn: the `MultiHeadAttention` of a sequence to itself.
        multihead_attn: that to the memory.
        linear1: the first layer of the MLP; ``linear2`` the second.
        norm1: the norm of the first attention; ``norm2`` and ``norm3`` those of the second and of
            the MLP.

    >>> layer = ef.nn.TransformerDecoderLayer(16, 4, dim_feedforward=32, batch_first=True)
    >>> layer(ef.ones((2, 10, 16)), ef.ones((2, 7, 16)), is_causal=True).shape
    (2, 10, 16)
    """

    _looks_up = True

    def forward(
        self,
        x: ef.Tensor,
        memory: ef.Tensor,
        *,
        mask: ef.Tensor | None = None,
        memory_mask: ef.Tensor | None = None,
        is_causal: bool = False,
    ) -> ef.Tensor:
        """The output.

        Args:
            x: the sequences.
            memory: what they attend to, such as the output of an encoder.
            mask: which positions of its own sequence a position sees, as that of
                `TransformerEncoderLayer`.
            memory_mask: which of the memory, ``[batch, nhead, length, others]``, likewise.
            is_causal: whether a position sees no later ones of its own sequence.
        """
        memory = self._batch_first(memory)

        def attend(x: ef.Tensor) -> ef.Tensor:
            return self.self_attn(x, mask=mask, is_causal=is_causal)

        def look_up(x: ef.Tensor) -> ef.Tensor:
            return self.multihead_attn(x, memory, mask=memory_mask)

        x = self._add(self._batch_first(x), self.norm1, attend)
        x = self._add(x, self.norm2, look_up)
        return self._batch_first(self._add(x, self.norm3, self._feed))


@final
class TransformerEncoder(Module):
    """Encoder layers, one after the other.

    Args:
        encoder_layer: the first layer; the others are copies of it, its initial values included.
        num_layers: how many there are.
        norm: applied to the output of the last one, as layers with ``norm_first`` want it.

    >>> layer = ef.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
    >>> encoder = ef.nn.TransformerEncoder(layer, 2, norm=ef.nn.LayerNorm(16))
    >>> tokens = ef.tensor([[5, 7, 3], [4, 0, 0]])
    >>> x = ef.nn.Embedding(20, 16)(tokens)
    >>> encoder(x, mask=(tokens != 0)[:, None, None, :]).shape
    (2, 3, 16)
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Callable[[ef.Tensor], ef.Tensor] | None = None,
    ) -> None:
        require("TransformerEncoder", SIZE, num_layers=num_layers)
        copies = [copy.deepcopy(encoder_layer) for _ in range(num_layers - 1)]
        self.layers = [encoder_layer, *copies]
        self.norm = norm

    def forward(
        self, x: ef.Tensor, *, mask: ef.Tensor | None = None, is_causal: bool = False
    ) -> ef.Tensor:
        """The output; arguments are those of each layer."""
        for layer in self.layers:
            x = layer(x, mask=mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)


@final
class TransformerDecoder(Module):
    """Decoder layers, one after the other, which attend to one memory.

    Args:
        decoder_layer: the first layer; the others are copies of it, its initial values included.
        num_layers: how many there are.
        norm: applied to the output of the last one, as layers with ``norm_first`` want it.

    >>> layer = ef.nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)
    >>> decoder = ef.nn.TransformerDecoder(layer, 2)
    >>> decoder(ef.ones((2, 5, 16)), ef.ones((2, 7, 16)), is_causal=True).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: Callable[[ef.Tensor], ef.Tensor] | None = None,
    ) -> None:
        require("TransformerDecoder", SIZE, num_layers=num_layers)
        copies = [copy.deepcopy(decoder_layer) for _ in range(num_layers - 1)]
        self.layers = [decoder_layer, *copies]
        self.norm = norm

    def forward(
        self,
        x: ef.Tensor,
        memory: ef.Tensor,
        *,
        mask: ef.Tensor | None = None,
        memory_mask: ef.Tensor | None = None,
        is_causal: bool = False,
    ) -> ef.Tensor:
        """The output; arguments are those of each layer."""
        for layer in self.layers:
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)
