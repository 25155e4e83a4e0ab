"""Training steps by PyTorch, eagerly and with `torch.compile`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.bench.steps.data import BETAS, EPS, RATE, Task, cnn_task, lstm_task, mlp_task

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


def _step(model: Any, task: Task, compiled: bool) -> Callable[[], Any]:
    with torch.no_grad():
        for parameter, start in zip(model.parameters(), task.weights, strict=True):
            parameter.copy_(torch.from_numpy(start))
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPS, fused=True)

    def loss_of(x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(model(x), y)

    run = torch.compile(loss_of) if compiled else loss_of
    iterations = task.iterations(torch.from_numpy)

    def step() -> Any:
        optimiser.zero_grad()
        loss = run(*next(iterations))
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def mlp(batch: int, hidden: int, compiled: bool) -> Callable[[], Any]:
    """Steps of the network 784-H-H-10."""
    model = nn.Sequential(
        nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, 10),
    )  # fmt: skip
    return _step(model, mlp_task(batch, hidden), compiled)


def cnn(compiled: bool) -> Callable[[], Any]:
    """Steps of the small convolution net."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 4 * 4, 10),
    )  # fmt: skip
    return _step(model, cnn_task(), compiled)


class Classifier(nn.Module):
    """An LSTM classifier of the last state."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden)
        self.classes = nn.Linear(hidden, 10)

    def forward(self, xs: Any) -> Any:
        _, (h, _) = self.lstm(xs)
        return self.classes(h[0])


def lstm(time: int, batch: int, inputs: int, hidden: int) -> Callable[[], Any]:
    """Steps of `torch.nn.LSTM`, eagerly."""
    task = lstm_task(time, batch, inputs, hidden)
    return _step(Classifier(inputs, hidden), task, compiled=False)
