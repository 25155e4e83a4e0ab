"""Comparison of derivatives in traces with those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import eagerflow as ef

# mypy: disable-error-code="no-untyped-def"

X = ef.sin(ef.arange(4, dtype=ef.float64) + 1)
W = ef.cos(ef.arange(4, dtype=ef.float64))


def dense(x: Any) -> Any:
    return x.to_dense() if isinstance(x, ef.IndexedSlices) else x


def array(x: Any) -> Any:
    return np.asarray(dense(x))


def close(a: Any, b: Any) -> None:
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(array(x), array(y), rtol=1e-9, atol=1e-12)


def twice(f: Callable[..., Any]) -> Callable[..., Any]:
    def along(x, w):
        return sum(ef.sin(g).sum() for g in ef.grad(f, (0, 1))(x, w))

    return ef.grad(along, (0, 1))


def along(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: ef.jvp(f, (x, w), (w, x))


def check(f: Callable[..., Any]) -> None:
    """Orders 1 and 2, backward, forward and mixed, traced in whatever way, are as eagerly."""
    for transform in (
        lambda f: ef.grad(f, (0, 1)),
        twice,
        along,
        lambda f: twice(lambda *xs: along(f)(*xs)[1]),
    ):
        expected = transform(f)(X, W)
        close(transform(ef.trace(f))(X, W), expected)
        close(ef.trace(transform(f))(X, W), expected)
