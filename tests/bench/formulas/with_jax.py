"""The formulas by JAX, under `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.bench.formulas.works import WORKS, Library

__all__ = ["step_of"]


def _repeat(count: int, f: Callable[[Any], Any], x: Any) -> Any:
    return jax.lax.fori_loop(0, count, lambda _, x: f(x), x)


def _segment_sum(values: Any, ids: Any, count: int) -> Any:
    return jax.ops.segment_sum(values, ids, num_segments=count)


def step_of(name: str, size: int) -> Callable[[], Any]:
    """A call of a formula on data of its own."""
    work = WORKS[name]
    given = [jnp.asarray(x) for x in work.data(np.random.default_rng(0), size)]
    run = jax.jit(work.of(Library(jnp, jax.scipy.special.erf, _segment_sum, _repeat)))
    return lambda: jax.block_until_ready(run(*given))
