"""Interpolation along axes that keep their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.nn import functional as F


@pytest.mark.parametrize("traced", [False, True])
def test_linear_interpolation_copies_an_axis_that_keeps_its_size(traced: bool) -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(1, 1, 3, 4)

    def resize(x: Any) -> Any:
        return F.interpolate(x, scale_factor=(1.2, 1.5), mode="bilinear")

    got = (ef.trace(resize) if traced else resize)(ef.tensor(x)).numpy()
    columns = np.array([0, 0.5, 1.1666667, 1.8333333, 2.5, 3], np.float32)
    want = x[..., :1] + columns
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_nearest_interpolation_follows_the_factor() -> None:
    """As PyTorch 2.13 does."""
    x = ef.tensor([[[0.0, 1.0, 2.0, 3.0]]])
    for mode, want in (("nearest", [0, 0, 1, 2]), ("nearest-exact", [0, 1, 2, 2])):
        got = F.interpolate(x, scale_factor=1.2, mode=mode)
        np.testing.assert_array_equal(got.numpy(), [[want]])
