"""The formulas by eagerflow, traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

import eagerflow as ef
from tests.bench.formulas.works import WORKS, Library

__all__ = ["step_of"]

Compile: TypeAlias = Literal["background", "now", "off"]


def _repeat(count: int, f: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(count):
        x = f(x)
    return x


def step_of(name: str, size: int, compile: Compile = "background") -> Callable[[], Any]:
    """A call of a formula on data of its own, with its native kernels if it has any."""
    work = WORKS[name]
    given = [ef.tensor(x) for x in work.data(np.random.default_rng(0), size)]
    run = ef.trace(work.of(Library(ef, ef.erf, ef.segment_sum, _repeat)), compile=compile)
    run(*given)
    run.wait()
    for _ in range(40):  # both ways are tried, and the faster one stays
        run(*given)
    return lambda: run(*given)
