"""A run that is interrupted and resumed: bit for bit as if never interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import pytest

import eagerflow as ef
from tests.checkpoint.trees import bits

_STEPS = 8


@final
class Run:
    """A model with a buffer and dropout, an optimiser, and data with a position."""

    def __init__(self, seed: int, traced: bool) -> None:
        ef.random.seed(seed)
        model = ef.nn.Sequential(
            ef.nn.Linear(3, 4), ef.nn.BatchNorm(4), ef.nn.Dropout(0.2), ef.nn.Linear(4, 1)
        )
        optimiser = ef.optim.Adam(model.trainable, lr=0.01)

        def loss(x: ef.Tensor) -> ef.Tensor:
            return ef.mean((model(x) - x.sum(axis=1, keepdims=True)) ** 2)

        value_and_gradients = ef.value_and_grad(loss, wrt=model.trainable)

        def step(x: ef.Tensor) -> ef.Tensor:
            value, gradients = value_and_gradients(x)
            optimiser.update(gradients)
            return value

        rows = ef.reshape(ef.arange(60, dtype=ef.float32), (20, 3)) / 60
        self.batches = (
            ef.data.Dataset.from_tensors(rows).shuffle(seed=5).batch(4).repeat().iterator()
        )
        self.step = ef.trace(step) if traced else step
        self.tree = {"model": model, "optimiser": optimiser, "batches": self.batches}

    def losses(self, steps: int) -> list[Any]:
        """The losses of the next steps, to the last bit."""
        return [bits(self.step(next(self.batches))) for _ in range(steps)]


@pytest.mark.parametrize("traced", [False, True])
def test_a_run_goes_on(tmp_path: Path, traced: bool) -> None:
    run = Run(1, traced)
    run.losses(7)
    ef.checkpoint.Manager(tmp_path).save(7, run.tree, {"loss": 1.0})
    expected = run.losses(_STEPS)
    other = Run(2, traced)
    other.losses(2)
    assert ef.checkpoint.Manager(tmp_path).restore(like=other.tree) is not None
    assert other.losses(_STEPS) == expected
    for name in ("model", "optimiser"):
        states = [{k: bits(v) for k, v in r.tree[name].state.items()} for r in (run, other)]
        assert states[0] == states[1]
