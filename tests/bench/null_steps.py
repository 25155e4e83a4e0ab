"""A null step over real task servers: each parameter server sends a scalar and takes an update.

The worker adds up what they send, and sends each one the sum. Beside it stands what the messages
alone cost (`tests.bench.messages`, rows ``ipc, dealers``), which is the floor.

Run: ``python -m tests.bench.null_steps``; ``--ps 16 --steps 200``.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.cluster.processes.local import LocalCluster
from eagerflow.graph import Graph
from tests.bench.harness import arguments


def null_step(ps: int) -> Graph:
    """Reads on all devices but the first, which adds them up, and an update of each."""
    weights = [ef.Variable(1.0, device=f"cpu:{i + 1}") for i in range(ps)]

    @ef.trace
    def step(x: Any) -> Any:
        reads = []
        for i, w in enumerate(weights):
            with ef.device(f"cpu:{i + 1}"):
                reads.append(w * 1.0)
        total = x
        with ef.device("cpu:0"):
            for read in reads:
                total = total + read
        for i, w in enumerate(weights):
            with ef.device(f"cpu:{i + 1}"):
                w.assign_sub(total * 0.0)
        return total

    return step.graph(ef.tensor(0.0))


def main() -> None:
    """Print a table."""
    parser = arguments("Null steps over task servers")
    parser.add_argument("--ps", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    ps, steps = (1, 3) if options.smallest else (options.ps, options.steps)
    with ef.config(cpu_devices=ps + 1):
        tasks = {"cpu:0": "worker:0"} | {f"cpu:{i + 1}": f"ps:{i}" for i in range(ps)}
        with LocalCluster({"worker": 1, "ps": ps}, ef.__version__, cpu_devices=ps + 1) as cluster:
            graph = null_step(ps)
            remote = cluster.load(graph, tasks)
            seconds = []
            for i in range(steps + steps // 4):
                begin = perf_counter()
                (total,) = remote.run([np.zeros((), np.float32)])
                if i >= steps // 4:
                    seconds.append(perf_counter() - begin)
            assert total == ps
    low, middle, high = np.percentile(np.array(seconds) * 1e3, [10, 50, 90])
    print("| null step | median ms | p10 | p90 |\n|---|---|---|---|")
    print(f"| 1 worker, {ps} ps | {middle:.2f} | {low:.2f} | {high:.2f} |")


if __name__ == "__main__":
    main()
