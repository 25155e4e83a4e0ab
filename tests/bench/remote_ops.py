"""Small eager ops at a task server, one after the other: ops per second, and their cost.

Run: ``python -m tests.bench.remote_ops``; ``--ops 20000``.
"""

from __future__ import annotations

from time import perf_counter, process_time

import numpy as np

import eagerflow as ef
from tests.bench.harness import arguments


def main() -> None:
    """Print a table."""
    parser = arguments("Eager ops at a task server")
    parser.add_argument("--ops", type=int, default=20_000)
    options = parser.parse_args()
    ops = 200 if options.smallest else options.ops
    size = 1_000 if options.smallest else 100_000_000
    with ef.cluster.local({"ps": 1}) as cluster:
        x = ef.ones(10, device="ps:0")
        rows = []
        for name, op in (("x * 1.0", lambda x: x * 1.0), ("ef.exp(-x)", lambda x: ef.exp(-x))):
            y = op(x)
            y.numpy()
            before, begun, begin = cluster.tasks["ps:0"].processor, process_time(), perf_counter()
            for _ in range(ops):
                y = op(y)
            y.numpy()
            seconds, client = perf_counter() - begin, process_time() - begun
            there = cluster.tasks["ps:0"].processor - before
            rows.append((name, ops / seconds, client / ops * 1e6, there / ops * 1e6))
        data = np.ones(size, np.uint8)
        begin = perf_counter()
        back = ef.tensor(data, device="ps:0").numpy()
        rate = 2 * size / (perf_counter() - begin) / 1e9
        assert back.nbytes == size
    print("| op | calls a second | processor us: client | task |\n|---|---|---|---|")
    for name, speed, client, there in rows:
        print(f"| {name} | {speed:,.0f} | {client:.1f} | {there:.1f} |")
    print(f"\n{size / 1e6:,.1f} MB there and back: {rate:.2f} GB/s")


if __name__ == "__main__":
    main()
