"""Products of few rows with a transposed matrix, as in a linear layer: eagerflow's and NumPy's.

Run: ``python -m tests.bench.products``. The rule is in ``eagerflow_kernels.cpu.products``; a ratio
above 1 means that the rule should not apply here.
"""

from __future__ import annotations

import statistics
from time import perf_counter

import numpy as np

from eagerflow_kernels.cpu.products import matmul
from tests.bench.harness import arguments

ROUNDS = 41
ROWS = (1, 2, 4, 8, 16, 32, 48, 64)
SIZES = ((784, 128), (512, 512), (512, 2048), (2048, 512))


def ratio(rows: int, inner: int, columns: int, dtype: str, rounds: int) -> float:
    """The time of eagerflow's product relative to NumPy's, a median."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, inner)).astype(dtype)
    w = rng.normal(size=(columns, inner)).astype(dtype)
    times: dict[bool, list[float]] = {True: [], False: []}
    for iteration in range(2 * rounds):
        product = matmul if iteration % 2 else np.matmul
        start = perf_counter()
        product(x, w.T)
        times[bool(iteration % 2)].append(perf_counter() - start)
    return statistics.median(times[True]) / statistics.median(times[False])


def main() -> None:
    """Print a table."""
    options = arguments("Products of few rows").parse_args()
    rounds = 1 if options.smallest else ROUNDS
    print("### x @ w.T, ours over NumPy\n")
    print("| rows | dtype | " + " | ".join(f"{k} to {n}" for k, n in SIZES) + " |")
    print("|---|---|" + "---|" * len(SIZES))
    for dtype in ("float32", "float64"):
        for rows in ROWS[:1] if options.smallest else ROWS:
            ratios = [f"{ratio(rows, k, n, dtype, rounds):.2f}" for k, n in SIZES]
            print(f"| {rows} | {dtype} | {' | '.join(ratios)} |")


if __name__ == "__main__":
    main()
