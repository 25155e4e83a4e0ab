"""One warning for inputs of double precision in layers of single precision, where they enter."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, final

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import nn
from eagerflow.errors import PrecisionWarning
from tests.each import check_each

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "Conv2d": (lambda: nn.Conv2d(3, 2, 1), (1, 3, 2, 2)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(3, 2, 1), (1, 3, 2)),
    "LSTM": (lambda: nn.LSTM(3, 2), (5, 1, 3)),
    "GRUCell": (lambda: nn.GRUCell(3, 2), (1, 3)),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(4, 2), (1, 3, 4)),
}


def _warns(name: str) -> None:
    make, shape = LAYERS[name]
    text = r"inputs of f64 and parameters of f32(.|\n)*ef.asarray\(x, dtype=ef.float32\)"
    with pytest.warns(PrecisionWarning, match=text):
        make()(np.ones(shape))


def test_layers_tell() -> None:
    check_each(LAYERS, _warns)


@final
class _Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x: Any) -> ef.Tensor:
        hidden = self.first(x)
        return ef.asarray(self.second(hidden))


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_it_is_said_once_at_the_line_that_calls_the_network(wrap: Any) -> None:
    net = _Net()

    @wrap
    def step(x: Any) -> ef.Tensor:
        return net(x)  # the line that calls

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            step(np.ones((2, 3)))
    (warning,) = caught
    assert warning.filename == __file__
    with open(__file__) as file:
        assert "the line that calls" in list(file)[warning.lineno - 1]


def test_what_was_meant_is_no_matter() -> None:
    nn.Linear(3, 2, dtype=ef.float64)(np.ones((4, 3)))
    nn.Linear(3, 2)(np.ones((4, 3), np.float32))
    nn.Linear(3, 2, dtype=ef.bfloat16)(ef.ones((4, 3)))
    nn.Linear(3, 2)(ef.ones((4, 3), dtype=ef.int64))


def test_flatten_takes_arrays_of_numpy() -> None:
    assert nn.Flatten()(np.ones((2, 3, 4))).shape == (2, 12)
