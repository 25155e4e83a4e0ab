"""Ours, eagerly and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eagerflow as ef
from tests.bench.steps.data import BETAS, EPS, RATE, Task, cnn_task, mlp_task

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
    turns = task.turns(ef.tensor)
    return lambda: run(*next(turns))


def mlp(batch: int, hidden: int, traced: bool) -> Callable[[], Any]:
    """784-H-H-10."""
    model = ef.nn.Sequential(
        ef.nn.Linear(784, hidden), F.relu,
        ef.nn.Linear(hidden, hidden), F.relu,
        ef.nn.Linear(hidden, 10),
    )  # fmt: skip
    return _step(model, mlp_task(batch, hidden), traced)


def cnn(traced: bool) -> Callable[[], Any]:
    """The small convolution net."""
    model = ef.nn.Sequential(
        ef.nn.Conv2d(1, 16, 3, padding=1), F.relu,
        ef.nn.Conv2d(16, 32, 3, padding=1), F.relu,
        ef.nn.MaxPool2d(2), ef.nn.Flatten(),
        ef.nn.Linear(32 * 4 * 4, 10),
    )  # fmt: skip
    return _step(model, cnn_task(), traced)
