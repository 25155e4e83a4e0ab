"""Training runs over every kind of pipeline, which can be interrupted anywhere and resumed.

As a program (``python -m tests.checkpoint.resumed folder pipeline workers steps``) it resumes from
the folder's newest checkpoint, saves every few steps, and prints each loss to the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import numpy as np

import eagerflow as ef
from eagerflow.data import Dataset
from tests.checkpoint.trees import bits

COUNT: Final = 23  # elements: the last batch of an epoch is smaller
EVERY: Final = 3  # steps from one checkpoint to the next
#: options of `Dataset.map`
WORKERS: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "threads": {"workers": 3},
    "processes": {"workers": 2, "processes": True},
}


def noisy(x: ef.Tensor, draws: ef.random.Generator) -> ef.Tensor:
    return x * 0.1 + draws.normal(x.shape, scale=0.01)


def tail(number: int) -> Any:
    """An array whose size depends on the number."""
    return np.linspace(0.0, 1.0, 1 + number % 5, dtype="f4") + number / COUNT


def rows(**how: Any) -> Dataset:
    """From arrays: random access."""
    data = np.arange(3 * COUNT, dtype="f4").reshape(COUNT, 3) / COUNT
    return Dataset.from_tensors(data).shuffle(seed=5).map(noisy, seed=6, **how).batch(4)


def stream(**how: Any) -> Dataset:
    """From a generator function: sequential access, so a buffer is shuffled."""
    made = Dataset.from_iterable(lambda: (tail(i) for i in range(COUNT)))
    return made.shuffle(7, seed=5).map(noisy, seed=6, **how).padded_batch(4)


def buckets(**how: Any) -> Dataset:
    """Bucketed: elements wait until there are enough of similar length."""
    made = Dataset.from_iterable(list(range(COUNT))).shuffle(seed=1).map(tail, **how)
    return made.bucket_by_length(len, [3], 3)


def nested(**how: Any) -> Dataset:
    """Worker stages below and above others, and a repeat within an epoch."""
    made = Dataset.from_iterable(lambda: iter(range(COUNT))).filter(lambda i: i % 4 != 1)
    made = made.map(tail, **how).shuffle(4, seed=2).repeat(2).padded_batch(5, drop_last=True)
    return made.map(noisy, seed=3, workers=2)


PIPELINES: Final[dict[str, Callable[..., Dataset]]] = {
    f.__name__: f for f in (rows, stream, buckets, nested)
}


@final
class Run:
    """A model with dropout, an optimiser, and a pipeline that is read for any number of epochs.

    Args:
        pipeline: a name of `PIPELINES`.
        workers: a name of `WORKERS`.
        seed: of the first weights, and of dropout.
    """

    def __init__(self, pipeline: str, workers: str, seed: int) -> None:
        ef.random.seed(seed)
        self.dataset = PIPELINES[pipeline](**WORKERS[workers]).prefetch(2)
        model = ef.nn.Sequential(ef.nn.Linear(2, 4), ef.nn.Dropout(0.2), ef.nn.Linear(4, 1))
        optimiser = ef.optim.Adam(model.trainable, lr=0.01)

        def loss(features: ef.Tensor) -> ef.Tensor:
            order = ef.arange(len(features), dtype="float32")  # their order matters to the loss
            return ef.mean((model(features)[:, 0] - order) ** 2)

        value_and_gradients = ef.value_and_grad(loss, wrt=model.trainable)

        @ef.trace
        def step(features: ef.Tensor) -> ef.Tensor:
            value, gradients = value_and_gradients(features)
            optimiser.update(gradients)
            return value

        self.step = step
        self.model = model
        self.optimiser = optimiser
        self.batches = iter(self.dataset)
        self.steps = 0

    @property
    def tree(self) -> dict[str, Any]:
        return {"model": self.model, "optimiser": self.optimiser, "batches": self.batches,
                "steps": self.steps}  # fmt: skip

    def restore(self, manager: ef.checkpoint.Manager) -> None:
        """Resume from the newest checkpoint, if there is one."""
        restored = manager.restore(like=self.tree)
        if restored is not None:
            self.steps = restored.tree["steps"]

    def loss(self) -> tuple[Any, ...]:
        """The loss of the next step, to the last bit."""
        batch = next(self.batches, None)
        while batch is None:
            self.batches = iter(self.dataset)
            batch = next(self.batches, None)
        self.steps += 1
        return bits(self.step(ef.stack([batch.sum(axis=1), batch.max(axis=1)], axis=1)))


def main(folder: str, pipeline: str, workers: str, steps: str) -> None:
    run = Run(pipeline, workers, 1)
    manager = ef.checkpoint.Manager(Path(folder), every=EVERY)
    run.restore(manager)
    while run.steps < int(steps):
        loss = run.loss()
        print(run.steps, loss[-1].hex(), flush=True)
        manager.save(run.steps, run.tree)


if __name__ == "__main__":
    main(*sys.argv[1:])
