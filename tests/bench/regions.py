"""Regions beside the ops that they stand for, in one process and in turns: none may be slower.

Run: ``python -m tests.bench.regions``. It prints the processor's time of both, and the ratio. They
are timed alternately, so that what disturbs one disturbs the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import eagerflow as ef

_ROUNDS = 6
_RUNS = 3


def chain(op: str, length: int, axis: int | None) -> Callable[[Any], Any]:
    """So many ops on elements, with or without a sum behind them."""

    def work(x: Any) -> Any:
        for _ in range(length):
            x = ef.exp(x * -0.5) if op == "exp" else ef.tanh(x) if op == "tanh" else x * 0.5 + 1
        return x if axis is None else (x, ef.sum(x, axis=axis))

    return work


def paired(work: Callable[[Any], Any], x: Any) -> tuple[float, float, int]:
    """Seconds with kernels, seconds op by op, and the number of kernels."""
    f = ef.trace(work, compile="now")
    f(x)
    executable = f.latest().executable
    region = executable.tier.region  # type: ignore[attr-defined]  # it is no scheduled tier
    native, region.trial = region.native, None
    best = {True: np.inf, False: np.inf}
    for kernels in (True, False) * _ROUNDS:
        region.native = native if kernels else None
        executable._take()
        f(x)
        for _ in range(_RUNS):
            start = time.process_time()
            f(x)
            best[kernels] = min(best[kernels], time.process_time() - start)
    return best[True], best[False], len(native.kernels) if native else 0


def main() -> None:
    """Print a line for each case."""
    ef.config(kernels="native", threads=1)
    data = np.linspace(0.1, 1, 500_000, dtype=np.float32)
    x = ef.tensor(data.reshape(1000, 500))
    worst = 0.0
    for op in ("cheap", "exp", "tanh"):
        for axis in (None, 0, 1):
            for length in (1, 2, 4, 8, 16):
                native, plain, kernels = paired(chain(op, length, axis), x)
                if kernels:
                    worst = max(worst, native / plain)
                print(
                    f"{op:6} x {length:2}, sum along {axis!s:4}: {kernels} kernels "
                    f"{native * 1e3:6.3f} ms, op by op {plain * 1e3:6.3f}, ratio {native / plain:.2f}"
                )
    print(f"worst ratio {worst:.2f}")


if __name__ == "__main__":
    main()
