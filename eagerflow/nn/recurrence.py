"""The computations of recurrent layers: steps, sweeps along sequences, layers of sweeps.

To traces this is library code: the variables of a layer, whose names are computed at construction,
are held by one immutable object, which a trace compares as a whole (`Weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import eagerflow as ef
from eagerflow.nn import functional as F
from eagerflow.nn import init

#: the carry: the hidden state, which is the output of a step; in an LSTM also the cell state
State: TypeAlias = tuple[ef.Tensor, ...]
Step: TypeAlias = Callable[[ef.Tensor, State], State]

#: number of gates of each kind of step; weights and biases hold the gates stacked
GATES: Final = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


# --- weights ------------------------------------------------------------------------------------


class StepWeights(NamedTuple):
    """The variables of a step, in the layout of PyTorch.

    Attributes:
        ih: ``[gates * hidden, inputs]``.
        hh: ``[gates * hidden, outputs]``.
        bias_ih: ``[gates * hidden]``, or None.
        bias_hh: ``[gates * hidden]``, or None.
        hr: ``[outputs, hidden]``, the projection of the outputs of an LSTM, or None.
    """

    ih: ef.Variable
    hh: ef.Variable
    bias_ih: ef.Variable | None
    bias_hh: ef.Variable | None
    hr: ef.Variable | None


@final
class Weights:
    """The variables of a layer: those of the step of each sweep."""

    __slots__ = ("__weakref__", "_sweeps")

    def __init__(self, sweeps: Sequence[StepWeights]) -> None:
        self._sweeps = tuple(sweeps)

    def __len__(self) -> int:
        return len(self._sweeps)

    def __getitem__(self, i: int) -> StepWeights:
        return self._sweeps[i]


def suffixes(num_layers: int, bidirectional: bool) -> list[str]:
    """The suffixes of variable names, one per sweep, from the forward sweep of the first layer.

    >>> suffixes(2, True)
    ['_l0', '_l0_reverse', '_l1', '_l1_reverse']
    """
    ways = ("", "_reverse") if bidirectional else ("",)
    return [f"_l{layer}{way}" for layer in range(num_layers) for way in ways]


def make_weights(
    module: Any, kind: str, suffix: str, sizes: tuple[int, int, int], bias: bool,
    dtype: ef.types.DTypeLike, generator: ef.random.Generator | None,
) -> None:  # fmt: skip
    """Give a module the variables of a step, drawn from U(-k, k) with ``k = 1 / sqrt(hidden)``.

    Args:
        module: the module whose attributes they become.
        kind: the kind of step, a key of `GATES`.
        suffix: suffix of their names.
        sizes: sizes of inputs, of the hidden state, and of projections (0 for none).
        bias: whether there are biases.
        dtype: dtype of the variables.
        generator: the generator to draw from.
    """
    inputs, hidden, projections = sizes
    rows = GATES[kind] * hidden
    shapes: dict[str, tuple[int, ...]] = {
        "weight_ih": (rows, inputs), "weight_hh": (rows, projections or hidden),
    }  # fmt: skip
    if bias:
        shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
    if projections:
        shapes["weight_hr"] = (projections, hidden)
    for name, shape in shapes.items():
        bound = hidden**-0.5
        value = init.uniform(shape, -bound, bound, generator=generator, dtype=dtype)
        setattr(module, name + suffix, ef.Variable(value, name=name + suffix))


def weights_of(module: Any, ends: Sequence[str]) -> Weights:
    """The variables made by `make_weights`, for each of these suffixes."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    weights: list[list[Any]] = [[getattr(module, n + end, None) for n in names] for end in ends]
    return Weights([StepWeights(*one) for one in weights])


# --- a step -------------------------------------------------------------------------------------


class _Ready(NamedTuple):
    """The operands of a step: weights transposed and biases added once for all iterations."""

    hh: ef.Tensor
    bias: ef.Tensor | None
    hr: ef.Tensor | None


def _elman(activation: Callable[[ef.Tensor], ef.Tensor]) -> Callable[[_Ready], Step]:
    def make(w: _Ready) -> Step:
        return lambda gates, state: (activation(gates + state[0] @ w.hh),)

    return make


def _lstm(w: _Ready) -> Step:
    def step(gates: ef.Tensor, state: State) -> State:
        h, c = state
        i, f, g, o = ef.split(gates + h @ w.hh, 4, axis=-1)
        c = ef.sigmoid(f) * c + ef.sigmoid(i) * ef.tanh(g)
        h = ef.sigmoid(o) * ef.tanh(c)
        return (h if w.hr is None else h @ w.hr), c

    return step


def _gru(w: _Ready) -> Step:
    def step(gates: ef.Tensor, state: State) -> State:
        (h,) = state
        r, z, n = ef.split(gates, 3, axis=-1)
        r2, z2, n2 = ef.split(h @ w.hh, 3, axis=-1)
        n2 = n2 if w.bias is None else n2 + w.bias
        n = ef.tanh(n + ef.sigmoid(r + r2) * n2)
        return (n + ef.sigmoid(z + z2) * (h - n),)

    return step


_STEPS: Final[dict[str, Callable[[_Ready], Step]]] = {
    "tanh": _elman(ef.tanh),
    "relu": _elman(F.relu),
    "lstm": _lstm,
    "gru": _gru,
}


def _prepared(kind: str, w: StepWeights, x: ef.Tensor) -> tuple[ef.Tensor, Step]:
    """The contribution of the inputs to the gates, ``[..., gates * hidden]``, and the step."""
    gates, inner = x @ w.ih.T, None
    if w.bias_ih is not None and w.bias_hh is not None:
        outer = w.bias_hh.value
        if kind == "gru":  # the last third of this bias is gated before the sum
            outer, inner = ef.split(outer, [2 * (outer.size // 3)])
            outer = ef.concat([outer, ef.zeros_like(inner)])
        gates = gates + (w.bias_ih + outer)
    return gates, _STEPS[kind](_Ready(w.hh.T, inner, None if w.hr is None else w.hr.T))


def one_step(kind: str, w: StepWeights, x: ef.Tensor, state: State) -> State:
    """The state after a step.

    Args:
        kind: the kind of step, a key of `GATES`.
        w: the variables.
        x: ``[batch, inputs]`` or ``[inputs]``.
        state: tensors ``[batch, size]`` or ``[size]``.
    """
    gates, step = _prepared(kind, w, x)
    return step(gates, state)


# --- a sequence ---------------------------------------------------------------------------------


def run(
    kind: str, weights: Weights, directions: int, x: ef.Tensor, state: State,
    inside: ef.Tensor | None, dropout: float,
) -> tuple[ef.Tensor, State]:  # fmt: skip
    """The outputs of the last layer, and the last state of each sweep.

    Args:
        kind: the kind of step, a key of `GATES`.
        weights: the variables of each sweep.
        directions: 2 if each layer also makes a backward sweep, else 1.
        x: ``[time, batch, inputs]``.
        state: tensors ``[sweeps, batch, size]``.
        inside: bool ``[time, batch, 1]``, whether a step belongs to its sequence; None: all do.
        dropout: probability of dropout between layers; 0 for none.
    """
    if inside is not None:
        x = ef.where(inside, x, 0)  # so that values in the padding do not enter gradients
    ends: list[State] = []
    for layer in range(len(weights) // directions):
        if layer and dropout:
            x = F.dropout(x, dropout)
        outputs = []
        for way in range(directions):
            i = layer * directions + way
            start = tuple([part[i] for part in state])
            output, end = _sweep(kind, weights[i], x, start, inside, reverse=way == 1)
            outputs.append(output)
            ends.append(end)
        x = outputs[0] if directions == 1 else ef.concat(outputs, axis=-1)
    return x, tuple([ef.stack(parts) for parts in zip(*ends, strict=True)])


def _sweep(
    kind: str, w: StepWeights, x: ef.Tensor, state: State, inside: ef.Tensor | None, *,
    reverse: bool,
) -> tuple[ef.Tensor, State]:  # fmt: skip
    """A sweep of one layer; the products with the inputs are one product for all steps.

    In the padding of a shorter sequence the state does not change: after its end in a forward
    sweep, before its beginning in a backward one.
    """
    gates, step = _prepared(kind, w, x)

    def iteration(state: State, parts: list[ef.Tensor]) -> tuple[State, ef.Tensor]:
        gates, *here = parts
        new = step(gates, state)
        if here:
            new = tuple([ef.where(here[0], a, b) for a, b in zip(new, state, strict=True)])
        return new, new[0]

    parts = [gates] if inside is None else [gates, inside]
    state, outputs = ef.scan(iteration, state, parts, reverse=reverse)
    return outputs if inside is None else ef.where(inside, outputs, 0), state
