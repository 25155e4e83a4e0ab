"""Training steps by eagerflow, eagerly and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eagerflow as ef
from tests.bench.steps.data import BETAS, EPS, RATE, Task, cnn_task, lstm_task, mlp_task

F = ef.nn.functional


def _step(model: ef.nn.Module, task: Task, traced: bool) -> Callable[[], Any]:
    for variable, start in zip(model.trainable.values(), task.weights, strict=True):
        variable.assign(start)
    optimiser = ef.optim.Adam(model.trainable, lr=RATE, betas=BETAS, eps=EPS)

    def loss_of(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        return F.cross_entropy(model(x), y)

    gradients_of = ef.value_and_grad(loss_of, wrt=model.trainable)

    def step(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        loss, gradients = gradients_of(x, y)
        optimiser.update(gradients)
        return loss

    run = ef.trace(step) if traced else step
    iterations = task.iterations(ef.tensor)
    return lambda: run(*next(iterations))


def mlp(batch: int, hidden: int, traced: bool) -> Callable[[], Any]:
    """Steps of the network 784-H-H-10."""
    model = ef.nn.Sequential(
        ef.nn.Linear(784, hidden), F.relu,
        ef.nn.Linear(hidden, hidden), F.relu,
        ef.nn.Linear(hidden, 10),
    )  # fmt: skip
    return _step(model, mlp_task(batch, hidden), traced)


def cnn(traced: bool) -> Callable[[], Any]:
    """Steps of the small convolution net."""
    model = ef.nn.Sequential(
        ef.nn.Conv2d(1, 16, 3, padding=1), F.relu,
        ef.nn.Conv2d(16, 32, 3, padding=1), F.relu,
        ef.nn.MaxPool2d(2), ef.nn.Flatten(),
        ef.nn.Linear(32 * 4 * 4, 10),
    )  # fmt: skip
    return _step(model, cnn_task(), traced)


class Written(ef.nn.Module):
    """An LSTM written by hand, as users would."""

    def __init__(self, inputs: int, hidden: int, unrolled: bool) -> None:
        self.weight_ih = ef.Variable(ef.zeros((4 * hidden, inputs)))
        self.weight_hh = ef.Variable(ef.zeros((4 * hidden, hidden)))
        self.bias_ih = ef.Variable(ef.zeros(4 * hidden))
        self.bias_hh = ef.Variable(ef.zeros(4 * hidden))
        self.classes = ef.nn.Linear(hidden, 10)
        self.hidden = hidden
        self.unrolled = unrolled

    def cell(self, x: ef.Tensor, h: ef.Tensor, c: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
        gates = x @ self.weight_ih.T + self.bias_ih + h @ self.weight_hh.T + self.bias_hh
        i, f, g, o = ef.split(gates, 4, axis=1)
        c = ef.sigmoid(f) * c + ef.sigmoid(i) * ef.tanh(g)
        return ef.sigmoid(o) * ef.tanh(c), c

    def forward(self, xs: ef.Tensor) -> Any:
        h = c = ef.zeros((xs.shape[1], self.hidden))
        if self.unrolled:
            for t in range(xs.shape[0]):
                h, c = self.cell(xs[t], h, c)
        else:
            for x in xs:
                h, c = self.cell(x, h, c)
        return self.classes(h)


class Layered(ef.nn.Module):
    """An LSTM by the layer `ef.nn.LSTM`."""

    def __init__(self, inputs: int, hidden: int) -> None:
        self.lstm = ef.nn.LSTM(inputs, hidden)
        self.classes = ef.nn.Linear(hidden, 10)

    def forward(self, xs: ef.Tensor) -> Any:
        _, (h, _) = self.lstm(xs)
        return self.classes(h[0])


def lstm(
    time: int, batch: int, inputs: int, hidden: int, way: str, traced: bool = True
) -> Callable[[], Any]:
    """Steps of an LSTM classifier; ``way`` is ``"loop"``, ``"range"`` or ``"layer"``."""
    if way == "layer":
        model: ef.nn.Module = Layered(inputs, hidden)
    else:
        model = Written(inputs, hidden, unrolled=way == "range")
    return _step(model, lstm_task(time, batch, inputs, hidden), traced)
