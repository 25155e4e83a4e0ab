"""Convolution: refusals, memory, the choice of layouts and blocks."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError, ShapeError, TensorValueError
from eagerflow_kernels.portable import convolution as kernels
from tests.ops.cases.convolution import convolution


def refused(error: type[EagerflowError], function, *shapes, **settings) -> str:
    with pytest.raises(error) as info:
        function(*(ef.ones(shape) for shape in shapes), **settings)
    text = str(info.value)
    assert "\n  got: " in text
    assert "\n  at: " in text
    return text


def test_kernels_larger_than_the_input() -> None:
    text = refused(ShapeError, ef.convolution, (1, 2, 4, 4), (1, 2, 3, 5))
    assert "the window is larger than the padded input (5 and 4)" in text
    assert "expected: a window of at most 4" in text
    assert "hint: " in text
    text = refused(ShapeError, ef.convolution, (1, 2, 4), (1, 2, 3), dilation=2)
    assert "(5 and 4)" in text
    assert ef.convolution(ef.ones((1, 2, 4)), ef.ones((1, 2, 5)), padding=((1, 0),)).shape[2] == 1


@pytest.mark.parametrize(
    ("shapes", "settings", "words"),
    [
        (((1, 3, 4, 4), (1, 2, 3, 3)), {}, "the channels of x are not those of the weights"),
        (((1, 4, 4, 4), (3, 2, 3, 3)), {"groups": 2}, "3 channels of the result are not in 2"),
        (((1, 4, 4), (1, 4, 3, 3)), {}, "one operand has 3 axes, the other 4"),
        (((4, 4), (4, 4)), {}, "there are no axes to slide over"),
        (((1, 1, 4, 4), (1, 1, 0, 2)), {}, "the window is empty"),
    ],
)
def test_shapes_that_do_not_fit(shapes, settings, words: str) -> None:
    assert words in refused(ShapeError, ef.convolution, *shapes, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"stride": 0}, {"stride": (1, 2, 3)}, {"dilation": (1, -1)}, {"padding": -1},
        {"padding": ((1, 2), (-1, 0))}, {"groups": 0}, {"padding": "full"},
        {"padding": "same", "stride": 2},
    ],
)  # fmt: skip
def test_settings_that_are_none(settings) -> None:
    with pytest.raises(TensorValueError):
        ef.convolution(ef.ones((1, 1, 4, 4)), ef.ones((1, 1, 2, 2)), **settings)


def test_transposes_that_leave_nothing() -> None:
    text = refused(ShapeError, ef.convolution_transpose, (1, 1, 1, 1), (1, 1, 2, 2), padding=1)
    assert "nothing is left of the result (0, 0)" in text
    refused(TensorValueError, ef.convolution_transpose, (1, 1, 2), (1, 1, 2), output_padding=1)


def test_same_pads_more_at_the_end() -> None:
    x = ef.tensor([[[1.0, 10.0, 100.0]]])
    assert ef.convolution(x, ef.ones((1, 1, 2)), padding="same").tolist() == [[[11, 110, 100]]]


@pytest.mark.parametrize("block", [1, 300, 5000])
@pytest.mark.parametrize("channels", [1, 8])
def test_blocks(monkeypatch, block: int, channels: int) -> None:
    """Blocks of some rows of a sample, of some samples, of all samples: the sums are the same."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, channels, 7, 6)), rng.normal(size=(4, channels, 3, 2))
    settings = {"stride": (2, 1), "padding": 1}
    y = rng.normal(size=convolution(x, w, **settings).shape)
    tensors = ef.tensor(x), ef.tensor(w)
    _, pull = ef.vjp(lambda x, w: ef.convolution(x, w, **settings), *tensors)
    want = [a.numpy() for a in pull(ef.tensor(y))]
    monkeypatch.setattr(kernels, "_BLOCK", block)
    got = ef.convolution(*tensors, **settings).numpy()
    np.testing.assert_allclose(got, convolution(x, w, **settings), rtol=1e-12, atol=1e-12)
    for a, b in zip(pull(ef.tensor(y)), want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(64, 4, 64, 64), (1, 4, 512, 512)])
def test_memory_is_bounded(shape: tuple[int, ...]) -> None:
    """Nine times the input would be 37 MB: the columns of one block are 4 MB."""
    x, w = ef.ones(shape), ef.ones((1, 4, 3, 3))
    ef.convolution(x[:, :, :8, :8], w, padding=1)
    tracemalloc.start()
    try:
        out = ef.convolution(x, w, padding=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    padded = out.size * 4 * 4 if shape[0] == 1 else 0  # one sample, with its border
    assert peak - out.size * 4 - padded < 10_000_000
