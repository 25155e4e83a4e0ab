"""What recurrent layers compute: a step of each kind, a sweep along sequences, layers of sweeps.

Library code for traces: the variables of a layer, whose names are made when it is, are held by one
object that never changes, and that a trace compares as such (`Weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import eagerflow as ef
from eagerflow.nn import functional as F
from eagerflow.nn import init

#: the carry: the hidden state, which is what a step gives; of an LSTM that of the cell, too
State: TypeAlias = tuple[ef.Tensor, ...]
Step: TypeAlias = Callable[[ef.Tensor, State], State]

#: how many gates each kind of step has; weights and biases hold them one below the other
GATES: Final = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


# --- weights ------------------------------------------------------------------------------------


class StepWeights(NamedTuple):
    """The variables of a step, as PyTorch lays them out.

    Attributes:
        ih: ``[gates * hidden, inputs]``.
        hh: ``[gates * hidden, outputs]``.
        bias_ih: ``[gates * hidden]``, or None.
        bias_hh: ``[gates * hidden]``, or None.
        hr: of an LSTM whose outputs are projections ``[outputs, hidden]``, else None.
    """

    ih: ef.Variable
    hh: ef.Variable
    bias_ih: ef.Variable | None
    bias_hh: ef.Variable | None
    hr: ef.Variable | None


@final
class Weights:
    """The variables of a layer: those of a step for each of its sweeps."""

    __slots__ = ("__weakref__", "_sweeps")

    def __init__(self, sweeps: Sequence[StepWeights]) -> None:
        self._sweeps = tuple(sweeps)

    def __len__(self) -> int:
        return len(self._sweeps)

    def __getitem__(self, i: int) -> StepWeights:
        return self._sweeps[i]


def suffixes(num_layers: int, bidirectional: bool) -> list[str]:
    """What the names of variables end with, for each sweep: that of the first layer forward, ….

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
        module: whose attributes they become.
        kind: of `GATES`.
        suffix: of their names.
        sizes: of inputs, of the hidden state, and of projections if they are not 0.
        bias: whether there are biases.
        dtype: of the variables.
        generator: where to draw from.
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
    """What `make_weights` made, for each of these suffixes."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    weights: list[list[Any]] = [[getattr(module, n + end, None) for n in names] for end in ends]
    return Weights([StepWeights(*one) for one in weights])


# --- a step -------------------------------------------------------------------------------------


class _Ready(NamedTuple):
    """What a step computes with, reversed and added up once for all iterations."""

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
    """What the inputs add to the gates, ``[..., gates * hidden]``, and the step that takes it."""
    gates, inner = x @ w.ih.T, None
    if w.bias_ih is not None and w.bias_hh is not None:
        outer = w.bias_hh.value
        if kind == "gru":  # a gate is between the last third of this bias and the sum
            outer, inner = ef.split(outer, [2 * (outer.size // 3)])
            outer = ef.concat([outer, ef.zeros_like(inner)])
        gates = gates + (w.bias_ih + outer)
    return gates, _STEPS[kind](_Ready(w.hh.T, inner, None if w.hr is None else w.hr.T))


def one_step(kind: str, w: StepWeights, x: ef.Tensor, state: State) -> State:
    """The state after a step.

    Args:
        kind: of `GATES`.
        w: the variables.
        x: ``[batch, inputs]`` or ``[inputs]``.
        state: of tensors ``[batch, size]`` or ``[size]``.
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
        kind: of `GATES`.
        weights: of each sweep.
        directions: 2 if each layer also goes backward.
        x: ``[time, batch, inputs]``.
        state: of tensors ``[sweeps, batch, size]``.
        inside: ``[time, batch, 1]``, whether a step is one of its sequence; None: all are.
        dropout: of the outputs of a layer before they come to the next; 0 for none.
    """
    if inside is not None:
        x = ef.where(inside, x, 0)  # so that nothing that stands outside gets into gradients
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
    """One layer in one direction; the products with its inputs are one product for all steps.

    A sequence that is shorter than others keeps its state once it has ended, or until it begins
    in the direction backward.
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
