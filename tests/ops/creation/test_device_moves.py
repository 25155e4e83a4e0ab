"""Moves between devices where floats have another dtype meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError
from eagerflow.events import TransferEvent
from tests.recorded import recorded


@pytest.fixture(autouse=True)
def _two_devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


def move(x: ef.Tensor) -> ef.Tensor:
    return x.to("cpu:1", sent_as="bfloat16")


@pytest.mark.parametrize("way", [lambda f: f, ef.trace])
@pytest.mark.parametrize("scope", ["cpu:0", "cpu:1"])
def test_half_the_bytes_are_moved_and_rounded(way: Callable[..., Any], scope: str) -> None:
    x = ef.tensor(np.linspace(-3, 5, 7, dtype="f4"), device="cpu:0")
    f = way(move)
    with recorded(TransferEvent) as recorder, ef.device(scope):
        y = f(x)
    (moved,) = recorder.of("transfer")
    assert moved.nbytes == x.nbytes / 2
    assert str(y.type) == "f32[7]@cpu:1"
    assert y.numpy().tobytes() == x.astype("bfloat16").astype("float32").numpy().tobytes()


def test_gradients_are_sent_alike() -> None:
    x = ef.tensor([1.0, 2.0])
    with recorded(TransferEvent) as recorder:
        gradient = ef.grad(lambda x: (move(x) * 1.001).sum())(x)
    assert [one.nbytes for one in recorder.of("transfer")] == [4, 4]
    assert gradient.tolist() == [1.0, 1.0]  # 1.001, rounded


def test_what_stays_is_not_rounded() -> None:
    x = ef.tensor([1.001], device="cpu:1")
    assert move(x) is x


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "bool", "complex64"])
def test_floats_with_more_bits_alone_are_sent_as_others(dtype: str) -> None:
    with pytest.raises(DTypeError, match="floats are sent as floats with fewer bits"):
        move(ef.zeros(2, dtype))
    with pytest.raises(DTypeError, match="floats are sent as floats with fewer bits"):
        ef.zeros(2).to("cpu:1", sent_as="int8")
