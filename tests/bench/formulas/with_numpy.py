"""The formulas by NumPy, op by op; its results in float64 are the reference for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.formulas.works import WORKS, Library

__all__ = ["exact", "step_of"]


def _segment_sum(values: Any, ids: Any, count: int) -> Any:
    columns = values.reshape(len(values), -1).T
    sums = [np.bincount(ids, column, minlength=count) for column in columns]
    return np.stack(sums, axis=1).reshape((count, *values.shape[1:])).astype(values.dtype)


def _repeat(count: int, f: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(count):
        x = f(x)
    return x


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return erf(x)


_LIBRARY = Library(np, _erf, _segment_sum, _repeat)


def step_of(name: str, size: int) -> Callable[[], Any]:
    """A call of a formula on data of its own."""
    work = WORKS[name]
    given = work.data(np.random.default_rng(0), size)
    run = work.of(_LIBRARY)
    return lambda: run(*given)


def exact(name: str, size: int) -> list[np.ndarray[Any, Any]]:
    """The results of a formula, computed in float64."""
    work = WORKS[name]
    given = work.data(np.random.default_rng(0), size)
    return [*work.of(_LIBRARY)(*[x.astype("f8") for x in given])]
