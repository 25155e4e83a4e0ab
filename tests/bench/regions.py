"""Regions against the ops that they replace, in one process and in turns: none may be slower.

Run: ``python -m tests.bench.regions``. It prints the processor's time of both, and the ratio. They
are timed alternately, so that disturbances affect both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import eagerflow as ef
from tests.bench.harness import arguments

_ROUNDS = 6
_RUNS = 3


def chain(op: str, length: int, axis: int | None) -> Callable[[Any], Any]:
    """A function of a number of elementwise ops, with or without a final sum."""

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


def main(smallest: bool) -> None:
    """Print a table with a row for each case."""
    ef.config(kernels="native", threads=1)
    rows, lengths = (10, (1, 2)) if smallest else (1000, (1, 2, 4, 8, 16))
    data = np.linspace(0.1, 1, 500 * rows, dtype=np.float32)
    x = ef.tensor(data.reshape(rows, 500))
    print("| ops | sum along | kernels | with kernels | op by op | ratio |")
    print("|---|---|---|---|---|---|")
    for op in ("cheap", "exp", "tanh"):
        for axis in (None, 0, 1):
            for length in lengths:
                native, plain, kernels = paired(chain(op, length, axis), x)
                times = f"{native * 1e6:.0f} us | {plain * 1e6:.0f} us | {native / plain:.2f}"
                print(f"| {length} x {op} | {'' if axis is None else axis} | {kernels} | {times} |")


if __name__ == "__main__":
    main(arguments("Regions beside their ops").parse_args().smallest)
