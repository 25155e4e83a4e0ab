"""A null step over real task servers: each parameter server sends a scalar and takes an update.

The worker adds up what they send, and sends each one the sum. Beside it stands what the messages
alone cost (`tests.bench.messages`, rows ``ipc, dealers``), which is the floor.

Run: ``python -m tests.bench.null_steps``; ``--ps 16 --steps 200``.
"""

from __future__ import annotations

from time import perf_counter, process_time
from typing import Any

import numpy as np

import eagerflow as ef
from tests.bench.harness import arguments


def null_step(ps: int) -> Any:
    """Reads at all parameter servers, which the worker adds up, and an update of each."""
    weights = [ef.Variable(1.0, device=f"ps:{i}") for i in range(ps)]

    @ef.trace
    def step(x: Any) -> Any:
        reads = []
        for i, w in enumerate(weights):
            with ef.device(f"ps:{i}"):
                reads.append(w * 1.0)
        with ef.device("worker:0"):
            total = x * 1.0
            for read in reads:
                total = total + read
        for i, w in enumerate(weights):
            with ef.device(f"ps:{i}"):
                w.assign_sub(total * 0.0)
        return total

    return step


def main() -> None:
    """Print a table."""
    parser = arguments("Null steps over task servers")
    parser.add_argument("--ps", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    ps, steps = (1, 3) if options.smallest else (options.ps, options.steps)
    with ef.cluster.local({"worker": 1, "ps": ps}) as cluster:
        step, x = null_step(ps), ef.tensor(0.0)
        for _ in range(1 + steps // 4):
            total = step(x)
        before = {name: task.processor for name, task in cluster.tasks.items()}
        begun, seconds = process_time(), []
        for _ in range(steps):
            begin = perf_counter()
            total = step(x)
            seconds.append(perf_counter() - begin)
        client = (process_time() - begun) / steps * 1e3
        used = {n: (t.processor - before[n]) / steps * 1e3 for n, t in cluster.tasks.items()}
        assert total.item() == ps
    low, middle, high = np.percentile(np.array(seconds) * 1e3, [10, 50, 90])
    each = sum(v for name, v in used.items() if name != "worker:0") / ps
    print("| null step | median ms | p10 | p90 | processor ms: client | worker | each ps |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| 1 worker, {ps} ps | {middle:.2f} | {low:.2f} | {high:.2f} | {client:.2f} "
        f"| {used['worker:0']:.2f} | {each:.2f} |"
    )


if __name__ == "__main__":
    main()
