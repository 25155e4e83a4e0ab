"""Recurrent layers: `RNN`, `LSTM` and `GRU` over sequences."""

from __future__ import annotations

from typing import Any, final

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError
from eagerflow.extending import PROBABILITY, SIZE, TensorLike, require
from eagerflow.nn.checks import NONLINEARITY, note_precision
from eagerflow.nn.module import Module
from eagerflow.nn.recurrence import State, Weights, make_weights, run, suffixes, weights_of
from eagerflow.nn.sequences import check_sequences, first_state, mask_of

__all__ = ["GRU", "LSTM", "RNN"]


class AbstractRecurrent(Module):
    """Base class of recurrent layers: stacked layers, in one direction or in both."""

    _kind: str
    proj_size = 0
    #: None until all variables are made
    _weights: Weights | None = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        name = type(self).__name__
        require(name, SIZE, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        require(name, PROBABILITY, dropout=dropout)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        kind, outputs = self._kind, self.proj_size or hidden_size
        self._sizes = (outputs, hidden_size) if kind == "lstm" else (outputs,)
        ways = 2 if bidirectional else 1
        for i, suffix in enumerate(suffixes(num_layers, bidirectional)):
            sizes = (input_size if i < ways else ways * outputs, hidden_size, self.proj_size)
            make_weights(self, kind, suffix, sizes, bias, dtype, generator)
        self._weights = weights_of(self, suffixes(num_layers, bidirectional))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name.startswith(("weight_", "bias_")) and self._weights is not None:
            self._weights = weights_of(self, suffixes(self.num_layers, self.bidirectional))

    def _run(self, x: TensorLike, hx: Any, lengths: TensorLike | None) -> tuple[ef.Tensor, State]:
        """The outputs, and the last state as tensors ``[sweeps, batch, size]``."""
        name, weights = type(self).__name__, self._weights
        assert weights is not None
        x = ef.asarray(x)
        check_sequences(name, x, self.input_size, self.batch_first)
        alone = len(x.shape) == 2
        if alone and lengths is not None:
            raise ShapeError(
                f"{name}: lengths= is for batches, not for a single sequence", given=f"x={x.type}"
            )
        batch = () if alone else (x.shape[0 if self.batch_first else 1],)
        shapes = [(len(weights), *batch, size) for size in self._sizes]
        state = first_state(name, hx, x, shapes, ef.result_type(x.dtype, weights[0].ih.dtype))
        if alone:
            x, state = x[:, None], tuple([part[:, None] for part in state])
        elif self.batch_first:
            x = ef.moveaxis(x, 0, 1)
        inside = None if lengths is None else mask_of(name, lengths, x)
        dropout = self.dropout if self.training and self.num_layers > 1 else 0.0
        ways = 2 if self.bidirectional else 1
        out, state = run(self._kind, weights, ways, x, state, inside, dropout)
        note_precision(out, weights[0].ih)
        if alone:
            return out[:, 0], tuple([part[:, 0] for part in state])
        return (ef.moveaxis(out, 0, 1) if self.batch_first else out), state


class AbstractPlainRecurrent(AbstractRecurrent):
    """Base class of recurrent layers whose state is one tensor."""

    def forward(
        self, x: TensorLike, hx: TensorLike | None = None, *, lengths: TensorLike | None = None
    ) -> tuple[ef.Tensor, ef.Tensor]:
        """The outputs, and the last state of each layer and direction.

        Args:
            x: ``[time, batch, input_size]``, ``[batch, time, input_size]`` with ``batch_first``, or
                ``[time, input_size]``.
            hx: the initial state, ``[layers * directions, batch, hidden_size]``; zeros by default.
            lengths: the length of each sequence, integers ``[batch]``. The rest is padding, whose
                values do not matter: outputs there are zeros, the last state is the state after the
                last step of the sequence, and the backward sweep begins at that step.
        """
        out, (h,) = self._run(x, hx, lengths)
        return out, h


@final
class RNN(AbstractPlainRecurrent):
    """Layers of ``h = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)`` (Elman, 1990).

    Input ``[time, batch, input_size]``, or ``[time, input_size]`` of a single sequence; output
    ``[time, batch, hidden_size]``, the state of the last layer after each step, of both directions
    side by side. In a traced function each layer and direction is one loop of the graph, however
    long the sequences are. All variables are drawn from U(-k, k) with
    ``k = 1 / sqrt(hidden_size)``; their names and layouts are PyTorch's.

    Args:
        input_size: the size of the last axis of inputs.
        hidden_size: the size of the state.
        num_layers: number of layers; each takes the outputs of the layer before.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are ``[batch, time, ...]``; states are not.
        dropout: the probability with which outputs of all layers but the last are dropped in
            training mode (Zaremba et al., 2014).
        bidirectional: whether each layer also makes a backward sweep, from the last step to the
            first, with variables of its own (Schuster and Paliwal, 1997).
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight_ih_l0: ``[hidden_size, input_size]``; in further layers ``weight_ih_l1``, …, and
            for backward sweeps ``weight_ih_l0_reverse``, ….
        weight_hh_l0: ``[hidden_size, hidden_size]``.
        bias_ih_l0: ``[hidden_size]``; absent without biases.
        bias_hh_l0: ``[hidden_size]``, likewise.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> layer = ef.nn.RNN(3, 5, num_layers=2)
    >>> out, state = layer(ef.ones((7, 4, 3)))
    >>> out.shape, state.shape
    ((7, 4, 5), (2, 4, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require("RNN", NONLINEARITY, nonlinearity=nonlinearity)
        self.nonlinearity = self._kind = nonlinearity
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            dtype=dtype, generator=generator,
        )  # fmt: skip


@final
class LSTM(AbstractRecurrent):
    """Layers of long short-term memory (Hochreiter and Schmidhuber, 1997).

    With forget gates (Gers et al., 2000): ``i, f, g, o = split(x @ w_ih.T + b_ih + h @ w_hh.T +
    b_hh, 4)``, ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)``, ``h = sigmoid(o) * tanh(c)``.
    Inputs, outputs, loops and initial values are as in `RNN`; the state is a pair.

    Args:
        input_size: the size of the last axis of inputs.
        hidden_size: the size of the state ``c``, and of ``h`` if it is not projected.
        num_layers: number of layers; each takes the outputs of the layer before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are ``[batch, time, ...]``; states are not.
        dropout: the probability with which outputs of all layers but the last are dropped in
            training mode.
        bidirectional: whether each layer also makes a backward sweep.
        proj_size: if not 0, ``h`` is projected to this size by ``h @ w_hr.T`` (Sak et al., 2014).
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight_ih_l0: ``[4 * hidden_size, input_size]``, the gates i, f, g, o stacked in this order;
            names in further layers and directions are as in `RNN`.
        weight_hh_l0: ``[4 * hidden_size, hidden_size]``; with projections, ``proj_size`` columns.
        bias_ih_l0: ``[4 * hidden_size]``; absent without biases.
        bias_hh_l0: ``[4 * hidden_size]``, likewise.
        weight_hr_l0: ``[proj_size, hidden_size]``, if there are projections.

    Raises:
        TensorValueError: an argument is out of its range, such as ``proj_size >= hidden_size``.

    >>> layer = ef.nn.LSTM(3, 5, batch_first=True, bidirectional=True)
    >>> out, (h, c) = layer(ef.ones((4, 7, 3)), lengths=[7, 2, 5, 1])
    >>> out.shape, h.shape, c.shape
    ((4, 7, 10), (2, 4, 5), (2, 4, 5))
    >>> bool((out[1, 2:] == 0).all()), bool((out[1, 1, :5] == h[0, 1]).all())
    (True, True)
    """

    _kind = "lstm"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require("LSTM", SIZE, input_size=input_size, hidden_size=hidden_size)
        if type(proj_size) is not int or not 0 <= proj_size < hidden_size:
            raise TensorValueError(
                "LSTM: proj_size is not a size below hidden_size",
                given=f"proj_size={proj_size!r}, hidden_size={hidden_size!r}",
                expected="0 for no projections, or an integer below hidden_size",
            )
        self.proj_size = proj_size
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            dtype=dtype, generator=generator,
        )  # fmt: skip

    def forward(
        self,
        x: TensorLike,
        hx: tuple[TensorLike, TensorLike] | None = None,
        *,
        lengths: TensorLike | None = None,
    ) -> tuple[ef.Tensor, tuple[ef.Tensor, ef.Tensor]]:
        """The outputs, and the last state ``(h, c)`` of each layer and direction.

        Args:
            x: ``[time, batch, input_size]``, ``[batch, time, input_size]`` with ``batch_first``, or
                ``[time, input_size]``.
            hx: the initial state ``(h, c)``, ``[layers * directions, batch, size]`` each; zeros by
                default.
            lengths: the length of each sequence, as in `RNN`.
        """
        out, (h, c) = self._run(x, hx, lengths)
        return out, (h, c)


@final
class GRU(AbstractPlainRecurrent):
    """Layers of gated recurrent units (Cho et al., 2014).

    With ``r, z, n = split(x @ w_ih.T + b_ih, 3)`` and ``r2, z2, n2 = split(h @ w_hh.T + b_hh, 3)``:
    ``n = tanh(n + sigmoid(r + r2) * n2)``, ``h = n + sigmoid(z + z2) * (h - n)``. As in PyTorch
    and cuDNN, the gate r is applied after the product with the state. Inputs, outputs, states,
    loops and initial values are as in `RNN`.

    Args:
        input_size: the size of the last axis of inputs.
        hidden_size: the size of the state.
        num_layers: number of layers; each takes the outputs of the layer before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are ``[batch, time, ...]``; states are not.
        dropout: the probability with which outputs of all layers but the last are dropped in
            training mode.
        bidirectional: whether each layer also makes a backward sweep.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight_ih_l0: ``[3 * hidden_size, input_size]``, the gates r, z, n stacked in this order;
            names in further layers and directions are as in `RNN`.
        weight_hh_l0: ``[3 * hidden_size, hidden_size]``.
        bias_ih_l0: ``[3 * hidden_size]``; absent without biases.
        bias_hh_l0: ``[3 * hidden_size]``, likewise.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> layer = ef.nn.GRU(3, 5)
    >>> out, state = layer(ef.ones((7, 4, 3)))
    >>> out.shape, bool((out[-1] == state[0]).all())
    ((7, 4, 5), True)
    """

    _kind = "gru"
