"""Guards of a traced step: few reads of an optimiser, and all values that may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import nn, optim
from eagerflow.capture.guards.guard_choice import collect


class Net(nn.Module):
    """A network with its layers in a list, which may be changed."""

    def __init__(self, depth: int) -> None:
        self.layers: list[Any] = [nn.Linear(3, 3) for _ in range(depth)]
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.dropout(x)


def _step(
    depth: int, wrap: Callable[[Any], Any]
) -> tuple[Callable[..., Any], Net, optim.AbstractOptimiser]:
    ef.random.seed(0)
    net = Net(depth)
    optimiser = optim.Adam(net.trainable, lr=0.1)
    gradients_of = ef.value_and_grad(lambda x: (net(x) ** 2).sum(), wrt=net.trainable)

    def step(x: ef.Tensor) -> ef.Tensor:
        loss, gradients = gradients_of(x)
        optimiser.update(gradients)
        return loss

    return wrap(step), net, optimiser


def _reads_of_update(count: int) -> int:
    optimiser = optim.Adam([ef.Variable(ef.zeros(2)) for _ in range(count)])
    return len(collect(lambda gradients: optimiser.update(gradients)).reads)


def test_an_optimiser_has_as_many_guards_for_one_variable_as_for_many() -> None:
    assert 10 < _reads_of_update(1) == _reads_of_update(50)


def test_another_layer_adds_a_handful() -> None:
    counts = [len(collect(_step(depth, lambda f: f)[0]).reads) for depth in (2, 3)]
    assert counts[1] - counts[0] <= 8


def _without_bias(net: Net, optimiser: optim.AbstractOptimiser) -> None:
    net.layers[0].bias = None


def _another_layer(net: Net, optimiser: optim.AbstractOptimiser) -> None:
    net.layers.append(nn.Linear(3, 3))


def _another_rate(net: Net, optimiser: optim.AbstractOptimiser) -> None:
    optimiser.lr = 0.5


def _other_betas(net: Net, optimiser: Any) -> None:
    optimiser.betas = (0.5, 0.5)


def _dropping(net: Net, optimiser: optim.AbstractOptimiser) -> None:
    net.dropout.p = 0.5


def _fewer_variables(net: Net, optimiser: optim.AbstractOptimiser) -> None:
    weights = {path: v for path, v in net.trainable.items() if path != "layers.1.weight"}
    given = {path: v if path in weights else ef.Variable(v) for path, v in net.trainable.items()}
    vars(optimiser).update(vars(optim.Adam(given, lr=0.1)))


@pytest.mark.parametrize(
    "change",
    [_without_bias, _another_layer, _another_rate, _other_betas, _dropping, _fewer_variables],
)
def test_changes_are_seen(change: Callable[..., None]) -> None:
    losses = []
    x = ef.tensor([[1.0, 2.0, 3.0]])
    for wrap in (lambda f: f, ef.trace):
        step, net, optimiser = _step(2, wrap)
        curve = [step(x) for _ in range(2)]
        change(net, optimiser)
        curve += [step(x) for _ in range(3)]
        losses.append(np.array([loss.numpy() for loss in curve]))
    np.testing.assert_array_equal(*losses)
