"""Cost of the passes over graphs per node, and its growth with the number of nodes.

Run: ``python -m tests.bench.passes``. The exponent is that of the time between the two largest
sizes; 1 is linear. With ``--donation`` it measures instead the size from which it is faster to
write a result into an existing buffer.
"""

from __future__ import annotations

import argparse
import json
import math
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.graph import Graph, Value
from eagerflow.graph.passes import DEFAULT, optimise
from eagerflow.types import TensorType
from tests.bench.harness import arguments, shortest

SIZES = (1_000, 10_000, 100_000)
EXPONENT, MICROSECONDS = 1.2, 40.0  # budgets, the latter for all passes together


def make(count: int) -> Graph:
    """A graph with work for every pass at every tenth node."""
    graph = Graph("network")
    cpu = ef.hardware.as_device("cpu:0")
    rows = TensorType(ef.float32, (ef.Dim("n"), 128))
    full = TensorType(ef.float32, (256, 128))
    flipped, number = rows.like(shape=rows.shape[::-1]), full.like(shape=())
    x, y = [graph.add_input(kind, device=cpu) for kind in (rows, full)]
    attrs = {"value": ef.tensor(1.0)}
    (one,) = graph.add_node("constant", (), (number,), attrs, device=cpu).outputs

    def add(op: str, inputs: tuple[Value, ...], kind: TensorType, **attrs: Any) -> Value:
        where = {"scope": f"block{len(graph.nodes) // 400}", "source": "model.py:1: y = f(x)"}
        return graph.add_node(op, inputs, (kind,), attrs, **where).outputs[0]

    while len(graph.nodes) < count:
        a, b = add("sin", (x,), rows), add("sin", (y,), full)
        twin = add("sin", (x,), rows)
        back = add("permute_dims", (add("permute_dims", (a,), flipped, axes=(1, 0)),), rows,
                   axes=(1, 0))  # fmt: skip
        two = add("add", (one, one), number)
        add("exp", (a,), rows)
        x = add("add", (add("multiply", (back, one), rows), twin), rows)
        y = add("multiply", (b, two), full)
    graph.outputs = [x, y]
    return graph


def all_passes(graph: Graph) -> Any:
    """All default passes, repeated as long as they change something."""
    return optimise(graph)


WORK: dict[str, Callable[[Graph], Any]] = {
    **{p.__name__: p for p in DEFAULT},
    "all": all_passes,
    "all again": all_passes,
}


def measure_passes(options: argparse.Namespace) -> None:
    """Print the table of passes, and write JSON if requested."""
    sizes = (10, 100) if options.smallest else SIZES
    graphs = {size: make(size) for size in sizes}
    done = {size: optimise(graph)[0] for size, graph in graphs.items()}
    print("### Passes: seconds by number of nodes\n")
    print(f"| pass | {' | '.join(f'{s:,}' for s in sizes)} | us per node | exponent | |")
    print("|---|" + "---|" * (len(sizes) + 3))
    rows = []
    for name, work in WORK.items():
        if options.only not in name:
            continue
        of = done if name == "all again" else graphs
        times = [shortest(work, g, 1 if size > 50_000 else 3) for size, g in of.items()]
        grows = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
        each = 1e6 * times[-1] / len(of[sizes[-1]].nodes)
        verdict = "ok" if grows <= EXPONENT and each <= MICROSECONDS else "over"
        shown = " | ".join(f"{t:.4f}" for t in times)
        print(f"| {name} | {shown} | {each:.1f} | {grows:.2f} | {verdict} |", flush=True)
        rows.append({"pass": name, "seconds": times, "exponent": grows})
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure_donation(exponents: range) -> None:
    """Print the time of a ufunc with a new buffer and with an existing one."""
    print("| bytes | new | there | ratio |\n|---|---|---|---|")
    for size in (1 << k for k in exponents):
        x, y = np.ones(size // 4, np.float32), np.zeros(size // 4, np.float32)
        count = max(10, 20_000_000 // size)
        new = min(timeit.repeat(partial(np.add, x, y), number=count)) / count
        there = min(timeit.repeat(partial(np.add, x, y, out=y), number=count)) / count
        print(f"| {size:,} | {new * 1e6:.2f} us | {there * 1e6:.2f} us | {new / there:.2f} |")


def main() -> None:
    """Run the measurements that the command line requests."""
    parser = arguments("Passes: seconds by number of nodes")
    parser.add_argument("--donation", action="store_true", help="measure buffers instead")
    options = parser.parse_args()
    if not options.donation:
        measure_passes(options)
    if options.donation or options.smallest:
        measure_donation(range(24, 25) if options.smallest else range(10, 25, 2))


if __name__ == "__main__":
    main()
