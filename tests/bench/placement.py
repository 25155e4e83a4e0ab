"""Cost of placing by rules and of cutting per node, and its growth with the number of nodes.

Run: ``python -m tests.bench.placement``. A graph of blocks that feed each other is placed on null
devices, a block to each or several to one, and cut into a partition for each. The exponent is that
of the time between the two largest sizes; 1 is linear. Processor time counts, so other load
on the machine does not.
"""

from __future__ import annotations

import gc
import json
import math
import random
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.lowering import lower
from eagerflow.hardware import as_device
from eagerflow.placement.apply_rules import place
from eagerflow.placement.cut import cut
from eagerflow.placement.rules import as_rules
from eagerflow.types import TensorType
from tests.bench.harness import arguments

SIZES, DEVICES = (1_000, 10_000, 100_000), 1_000
SECONDS, EXPONENT = 10.0, 1.2  # budgets: of the largest size, all together


def make(count: int, blocks: int) -> Graph:
    """A graph of ``count`` nodes in ``blocks`` scopes; most values are used near where they are."""
    draws = random.Random(0)
    graph, kind = Graph("blocks"), TensorType(ef.float32, (4, 4))
    values = [graph.add_input(kind, "x", as_device("null:0"))]
    for i in range(count):
        taken = [values[max(0, len(values) - 1 - int(draws.expovariate(0.1)))] for _ in range(2)]
        block = i * blocks // count if draws.random() < 0.9 else draws.randrange(blocks)
        node = graph.add_node("add", taken, (kind,), scope=f"block{block}/layer{i % 7}")
        values += node.outputs
    graph.outputs = values[-1:]
    return graph


def by_pattern(blocks: int) -> Any:
    """Rules with a pattern for each block."""
    return {f"block{i}": f"null:{i}" for i in range(blocks)}


def by_function(blocks: int) -> Any:
    """A rule by a function, called for each node."""
    return lambda node: f"null:{node.scope[5:].partition('/')[0]}"


RULES: dict[str, Callable[[int], Any]] = {"patterns": by_pattern, "a function": by_function}


def measure(count: int, blocks: int, make_rules: Callable[[int], Any]) -> dict[str, float]:
    """Processor seconds by stage; the garbage collector is off as while tracing."""
    graph = make(count, blocks)
    rules = as_rules(make_rules(blocks), soft=False, source=None)
    assert rules is not None
    gc.collect()
    gc.disable()
    moments = [time.process_time()]
    try:
        placed = place(graph, rules).graph
        moments.append(time.process_time())
        lowered = lower(placed)
        moments.append(time.process_time())
        parts = cut(lowered).partitions
        moments.append(time.process_time())
    finally:
        gc.enable()
    assert len(parts) == blocks
    placing, lowering, cutting = [b - a for a, b in pairwise(moments)]
    return {"place": placing, "lower": lowering, "cut": cutting, "all": moments[-1] - moments[0]}


def reasons(count: int, blocks: int) -> float:
    """Seconds in which the reasons of all nodes are computed, and the table of them made."""
    from eagerflow.placement.explanations import PlacementExplanation

    rules = as_rules(by_pattern(blocks), soft=False, source=None)
    assert rules is not None
    graph = place(make(count, blocks), rules).graph
    start = time.process_time()
    assert all(node.reason for node in graph.nodes)
    str(PlacementExplanation("blocks", graph, rules))
    return time.process_time() - start


def main() -> None:
    """Measure both kinds of rules, at each size."""
    options = arguments("Placing and cutting").parse_args()
    sizes = (100, 200) if options.smallest else SIZES
    rows: list[dict[str, Any]] = []
    for name, make_rules in RULES.items():
        figures = [measure(n, min(DEVICES, n // 10), make_rules) for n in sizes]
        for work in figures[0]:
            before, last = figures[-2][work], figures[-1][work]
            grown = math.log(max(last, 1e-9) / max(before, 1e-9)) / math.log(sizes[-1] / sizes[-2])
            times = dict(zip(sizes, [seconds[work] for seconds in figures], strict=True))
            rows.append({"rules": name, "work": work, "exponent": grown, "seconds": times})
    times = {n: reasons(n, min(DEVICES, n // 10)) for n in sizes}
    rows.append({"rules": "patterns", "work": "reasons", "exponent": 0.0, "seconds": times})
    show(rows, sizes)
    if options.json:
        options.json.write_text(json.dumps(rows))


def show(rows: list[dict[str, Any]], sizes: tuple[int, ...]) -> None:
    """Print the figures as a table."""
    print("| rules | work |" + "".join(f" {n:,} nodes |" for n in sizes) + " exponent |")
    print("|---|---|" + "---|" * (len(sizes) + 1))
    for row in rows:
        times = "".join(f" {s:.2f} s |" for s in row["seconds"].values())
        print(f"| {row['rules']} | {row['work']} |{times} {row['exponent']:.2f} |")
    print(f"\nbudget: {SECONDS:.0f} s for all of {SIZES[-1]:,} nodes, exponent {EXPONENT}")


if __name__ == "__main__":
    main()
