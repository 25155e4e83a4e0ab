"""Recurrent cells: single steps of recurrent layers, for loops written by users."""

from __future__ import annotations

from typing import Any, final

import eagerflow as ef
from eagerflow.extending import SIZE, TensorLike, require
from eagerflow.nn.checks import NONLINEARITY, note_precision
from eagerflow.nn.module import Module
from eagerflow.nn.recurrence import State, StepWeights, make_weights, one_step
from eagerflow.nn.sequences import check_rows, first_state

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


class AbstractCell(Module):
    """Base class of recurrent cells, which compute one time step."""

    _kind: str
    weight_ih: ef.Variable
    weight_hh: ef.Variable
    bias_ih: ef.Variable | None
    bias_hh: ef.Variable | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require(type(self).__name__, SIZE, input_size=input_size, hidden_size=hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        if not bias:
            self.bias_ih = self.bias_hh = None
        make_weights(self, self._kind, "", (input_size, hidden_size, 0), bias, dtype, generator)

    def _step(self, x: TensorLike, hx: Any, count: int) -> State:
        """The next state, of ``count`` tensors ``[batch, hidden_size]``."""
        name = type(self).__name__
        x = ef.asarray(x)
        check_rows(name, x, self.input_size)
        dtype = ef.result_type(x.dtype, self.weight_ih.dtype)
        shapes = [(*x.shape[:-1], self.hidden_size)] * count
        state = first_state(name, hx, x, shapes, dtype)
        w = StepWeights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None)
        state = one_step(self._kind, w, x, state)
        note_precision(state[0], self.weight_ih)
        return state


class AbstractPlainCell(AbstractCell):
    """Base class of cells whose state is one tensor."""

    def forward(self, x: TensorLike, hx: TensorLike | None = None) -> ef.Tensor:
        """The next state.

        Args:
            x: ``[batch, input_size]`` or ``[input_size]``.
            hx: the state, ``[batch, hidden_size]`` or ``[hidden_size]``; zeros by default.
        """
        (h,) = self._step(x, hx, 1)
        return h


@final
class RNNCell(AbstractPlainCell):
    """``tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)`` (Elman, 1990).

    Input ``[batch, input_size]`` or ``[input_size]``, output ``[batch, hidden_size]`` or
    ``[hidden_size]``. Initial values are as in `RNN`, which takes whole sequences.

    Args:
        input_size: the size of the last axis of inputs.
        hidden_size: the size of the state.
        bias: whether there are biases.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight_ih: ``[hidden_size, input_size]``.
        weight_hh: ``[hidden_size, hidden_size]``.
        bias_ih: ``[hidden_size]``, or None.
        bias_hh: ``[hidden_size]``, or None.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> cell = ef.nn.RNNCell(3, 5)
    >>> h = cell(ef.ones((4, 3)))
    >>> cell(ef.ones((4, 3)), h).shape
    (4, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        dtype: ef.types.DTypeLike = None,
        generator: ef.random.Generator | None = None,
    ) -> None:
        require("RNNCell", NONLINEARITY, nonlinearity=nonlinearity)
        self.nonlinearity = self._kind = nonlinearity
        super().__init__(input_size, hidden_size, bias, dtype=dtype, generator=generator)


@final
class LSTMCell(AbstractCell):
    """A step of long short-term memory (Hochreiter and Schmidhuber, 1997), as in `LSTM`.

    Input ``[batch, input_size]`` or ``[input_size]``; the state is a pair of
    ``[batch, hidden_size]`` or ``[hidden_size]``.

    Args:
        input_size: the size of the last axis of inputs.
        hidden_size: the size of the state.
        bias: whether there are biases.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight_ih: ``[4 * hidden_size, input_size]``, the gates i, f, g, o stacked in this order.
        weight_hh: ``[4 * hidden_size, hidden_size]``.
        bias_ih: ``[4 * hidden_size]``, or None.
        bias_hh: ``[4 * hidden_size]``, or None.

    Raises:
        TensorValueError: a size is less than 1.

    >>> cell = ef.nn.LSTMCell(3, 5)
    >>> h, c = cell(ef.ones((4, 3)))
    >>> h, c = cell(ef.ones((4, 3)), (h, c))
    >>> h.shape
    (4, 5)
    """

    _kind = "lstm"

    def forward(
        self, x: TensorLike, hx: tuple[TensorLike, TensorLike] | None = None
    ) -> tuple[ef.Tensor, ef.Tensor]:
        """The next state ``(h, c)``.

        Args:
            x: ``[batch, input_size]`` or ``[input_size]``.
            hx: the state ``(h, c)``, ``[batch, hidden_size]`` or ``[hidden_size]`` each; zeros by
                default.
        """
        h, c = self._step(x, hx, 2)
        return h, c


@final
class GRUCell(AbstractPlainCell):
    """A step of a gated recurrent unit (Cho et al., 2014), as in `GRU`.

    Input ``[batch, input_size]`` or ``[input_size]``, output ``[batch, hidden_size]`` or
    ``[hidden_size]``.

    Args:
        input_size: the size of the last axis of inputs.
        hidden_size: the size of the state.
        bias: whether there are biases.
        dtype: dtype of the variables; float32 by default.
        generator: the generator to draw initial values from; the process's own by default.

    Attributes:
        weight_ih: ``[3 * hidden_size, input_size]``, the gates r, z, n stacked in this order.
        weight_hh: ``[3 * hidden_size, hidden_size]``.
        bias_ih: ``[3 * hidden_size]``, or None.
        bias_hh: ``[3 * hidden_size]``, or None.

    Raises:
        TensorValueError: a size is less than 1.

    >>> cell = ef.nn.GRUCell(3, 5)
    >>> cell(ef.ones(3), ef.zeros(5)).shape
    (5,)
    """

    _kind = "gru"
