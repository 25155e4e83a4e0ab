"""Layers of transformers: encoder and decoder layers, and stacks of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import ClassVar, Final, Literal, final

import eagerflow as ef
from eagerflow.extending import SIZE, in_graph, one_of, require
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
    """Base class of encoder and decoder layers, which define the order of its parts."""

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
        """A residual connection around a part of the layer, with the norm before or after."""
        if self.norm_first:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))

    def _feed(self, x: ef.Tensor) -> ef.Tensor:
        """The MLP, applied to each position separately."""
        activation = self.activation
        if isinstance(activation, str):
            activation = _ACTIVATIONS[activation]
        return self.linear2(self.dropout(in_graph(activation)(self.linear1(x))))

    def _batch_first(self, x: ef.Tensor) -> ef.Tensor:
        """Converts between the layout of the layer's input and ``[batch, length, d_model]``."""
        return x if self.batch_first or x.ndim < 3 else ef.moveaxis(x, 0, 1)


@final
class TransformerEncoderLayer(_AbstractLayer):
    """Self-attention, and an MLP for each position (Vaswani et al., 2017).

    Input and output ``[length, batch, d_model]``, with ``batch_first`` ``[batch, length,
    d_model]``, or one sequence ``[length, d_model]``. Attention and MLP each have a residual
    connection and a layer norm.

    Args:
        d_model: the size of the last axis.
        nhead: number of attention heads; it divides ``d_model``.
        dim_feedforward: the size of the hidden layer of the MLP.
        dropout: the probability with which attention weights, hidden elements and the outputs of
            attention and MLP are dropped in training mode.
        activation: activation of the MLP: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to variances by the norms.
        batch_first: whether the first axis is the batch.
        norm_first: whether norms come before attention and MLP, instead of after the residual
            sums; then a stack of layers needs a last norm.
        bias: whether projections, MLP and norms have biases.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        self_attn: a `MultiHeadAttention`.
        linear1: the first layer of the MLP; ``linear2`` the second.
        norm1: the norm of the attention; ``norm2`` the norm of the MLP.

    Raises:
        TensorValueError: an argument is out of its range, or ``nhead`` does not divide ``d_model``.

    >>> layer = ef.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, batch_first=True)
    >>> layer(ef.ones((2, 10, 16)), is_causal=True).shape
    (2, 10, 16)
    """

    _looks_up = False

    def forward(
        self, x: ef.Tensor, *, mask: ef.Tensor | None = None, is_causal: bool = False
    ) -> ef.Tensor:
        """The output, of the shape of ``x``.

        Args:
            x: the sequences.
            mask: broadcasts to ``[batch, nhead, length, length]``, whatever ``batch_first`` is.
                Boolean: the positions that a position attends to; floating: numbers added to the
                scores. To hide the padding of each sequence:
                ``(tokens != padding)[:, None, None, :]`` for tokens ``[batch, length]``.
            is_causal: whether later positions are masked, whatever the mask.
        """

        def attend(x: ef.Tensor) -> ef.Tensor:
            return self.self_attn(x, mask=mask, is_causal=is_causal)

        x = self._add(self._batch_first(x), self.norm1, attend)
        return self._batch_first(self._add(x, self.norm2, self._feed))


@final
class TransformerDecoderLayer(_AbstractLayer):
    """Self-attention, attention to another sequence, the memory, and an MLP for each position.

    Input ``[length, batch, d_model]`` and memory ``[others, batch, d_model]``; output as the
    input. With ``batch_first`` the first two axes are swapped; one sequence has no batch.

    Args:
        d_model: the size of the last axis.
        nhead: number of attention heads; it divides ``d_model``.
        dim_feedforward: the size of the hidden layer of the MLP.
        dropout: the probability with which attention weights, hidden elements and the outputs of
            attention and MLP are dropped in training mode.
        activation: activation of the MLP: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to variances by the norms.
        batch_first: whether the first axis is the batch.
        norm_first: whether norms come before attentions and MLP, instead of after the residual
            sums; then a stack of layers needs a last norm.
        bias: whether projections, MLP and norms have biases.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        self_attn: the self-attention, a `MultiHeadAttention`.
        multihead_attn: the attention to the memory, a `MultiHeadAttention`.
        linear1: the first layer of the MLP; ``linear2`` the second.
        norm1: the norm of self-attention; ``norm2`` and ``norm3`` the norms of attention to the
            memory and of the MLP.

    Raises:
        TensorValueError: an argument is out of its range, or ``nhead`` does not divide ``d_model``.

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
        """The output, of the shape of ``x``.

        Args:
            x: the sequences.
            memory: the sequences to attend to, such as the output of an encoder.
            mask: mask of self-attention, as in `TransformerEncoderLayer`.
            memory_mask: mask of attention to the memory, likewise; broadcasts to
                ``[batch, nhead, length, others]``.
            is_causal: whether later positions of the sequence itself are masked.
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
    """A stack of encoder layers.

    Args:
        encoder_layer: the first layer; the others are copies of it, its initial values included.
        num_layers: number of layers.
        norm: applied to the output of the last layer, as layers with ``norm_first`` need it.

    Raises:
        TensorValueError: ``num_layers`` is less than 1.

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
        """The output, of the shape of ``x``; arguments are those of each layer."""
        for layer in self.layers:
            x = layer(x, mask=mask, is_causal=is_causal)
        return x if self.norm is None else in_graph(self.norm)(x)


@final
class TransformerDecoder(Module):
    """A stack of decoder layers, which attend to one memory.

    Args:
        decoder_layer: the first layer; the others are copies of it, its initial values included.
        num_layers: number of layers.
        norm: applied to the output of the last layer, as layers with ``norm_first`` need it.

    Raises:
        TensorValueError: ``num_layers`` is less than 1.

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
        """The output, of the shape of ``x``; arguments are those of each layer."""
        for layer in self.layers:
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, is_causal=is_causal)
        return x if self.norm is None else in_graph(self.norm)(x)
