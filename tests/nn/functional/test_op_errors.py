"""Errors of convolution and pooling name the public function that was called."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.nn import functional as F
from tests.messages import says


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda x: F.conv2d(x, ef.ones((1, 1, 5, 5))), "conv2d: the window is larger"),
        (lambda x: F.conv2d(x, ef.ones((1, 2, 3, 3))), "conv2d: the channels of x are not"),
        (lambda x: F.conv1d(x[:, :, 0], ef.ones((1, 1, 9))), "conv1d: the window is larger"),
        (lambda x: F.max_pool2d(x, 5), "max_pool2d: the window is larger"),
        (lambda x: F.max_pool2d(x, 2, padding=2), "max_pool2d: some windows would see padding"),
        (lambda x: F.avg_pool2d(x, 3, padding=2), "avg_pool2d: some windows would see padding"),
        (lambda x: F.avg_pool1d(x[:, :, 0], 5), "avg_pool1d: the window is larger"),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_errors_name_what_was_called(call: Any, wrong: str, traced: bool) -> None:
    f = ef.trace(call) if traced else call
    with pytest.raises(ValueError, check=says(f"^{wrong}")):
        f(ef.ones((1, 1, 4, 4)))
