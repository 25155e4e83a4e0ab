"""Initial weights, and batches; float32, drawn with a fixed seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

__all__ = ["BETAS", "CNN_BATCH", "EPS", "RATE", "Task", "cnn_task", "lstm_task", "mlp_task"]

RATE, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8
CNN_BATCH = 64
_BATCHES = 8


@dataclass(frozen=True)
class Task:
    """The data of training steps.

    Attributes:
        weights: weight and bias of each layer, in PyTorch's layout.
        batches: inputs and classes of eight batches.
    """

    weights: list[np.ndarray[Any, Any]]
    batches: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]

    def iterations(self, convert: Any) -> Any:
        """An endless iterator over the batches, as arrays of a library."""
        return cycle([tuple(map(convert, batch)) for batch in self.batches])


def _task(rng: np.random.Generator, shapes: list[tuple[int, ...]], x: tuple[int, ...]) -> Task:
    weights = []
    for shape in shapes:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        weights += [(rng.normal(size=shape) * scale).astype("f4"), np.zeros(shape[0], "f4")]
    batches = [
        (rng.normal(size=x).astype("f4"), rng.integers(0, 10, x[0])) for _ in range(_BATCHES)
    ]
    return Task(weights, batches)


def mlp_task(batch: int, hidden: int) -> Task:
    """Data for the network 784-H-H-10."""
    shapes = [(hidden, 784), (hidden, hidden), (10, hidden)]
    return _task(np.random.default_rng(1), shapes, (batch, 784))


def cnn_task() -> Task:
    """Data for two convolutions 3x3 of 16 and 32 channels on 1x8x8, pooling 2x2, a dense layer."""
    shapes = [(16, 1, 3, 3), (32, 16, 3, 3), (10, 32 * 4 * 4)]
    return _task(np.random.default_rng(2), shapes, (CNN_BATCH, 1, 8, 8))


def lstm_task(time: int, batch: int, inputs: int, hidden: int) -> Task:
    """Data for an LSTM with PyTorch's four variables and a dense layer from its last state.

    Batches are sequences ``[time, batch, inputs]`` and for each one of ten classes.
    """
    rng = np.random.default_rng(3)
    shapes = [(4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,),
              (10, hidden), (10,)]  # fmt: skip
    weights = [rng.uniform(-1, 1, shape).astype("f4") * hidden**-0.5 for shape in shapes]
    batches = [
        (rng.normal(size=(time, batch, inputs)).astype("f4"), rng.integers(0, 10, batch))
        for _ in range(_BATCHES)
    ]
    return Task(weights, batches)
