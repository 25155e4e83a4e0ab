"""Growth of the cost of graph work with size: text, checks, files, copies, pictures.

Run: ``python -m tests.bench.graph_text``. The exponent is that of the time between the two
largest sizes; 1 is linear.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.graph.edit import clone, needed, substitute_sizes
from eagerflow.graph.text.graph_files import from_file_bytes, to_bytes
from eagerflow.graph.verify import verify
from eagerflow.pictures.by_own_layout import draw
from eagerflow.pictures.contents import contents_of
from eagerflow.types import TensorType
from tests.bench.harness import arguments, shortest

SIZES = (1_000, 10_000, 100_000)
BUDGET = 1.2  # for the exponent


def make(count: int) -> Graph:
    """A graph with sums, scopes, sources and a symbolic size, as in a deep network."""
    graph = Graph("network")
    device = ef.hardware.as_device("cpu:0")
    full = TensorType(ef.float32, (ef.Dim("n"), 128))
    row = TensorType(ef.float32, (ef.Dim("n"), 1))
    before = value = graph.add_input(full, device=device)
    for i in range(count):
        where = {"scope": f"block{i // 400}/layer{i // 40}", "source": f"model.py:{i}: y = f(x)"}
        if i % 4 == 1:
            attrs = {"axis": (1,), "keepdims": True}
            node = graph.add_node("sum", (value,), (row,), attrs, **where)
        elif i % 4 == 3:
            node = graph.add_node("exp", (value,), (full,), **where)
        else:
            node = graph.add_node("add", (value, before), (full,), **where)
        before, value = value, node.outputs[0]
    graph.outputs = [value]
    return graph


WORK: dict[str, Callable[[Graph], Any]] = {
    "print": str,
    "parse": lambda g: g.parse(g.text),
    "verify": verify,
    "save": to_bytes,
    "load": lambda g: from_file_bytes(g.data),
    "clone": clone,
    "needed": lambda g: needed(g, g.outputs),
    "sizes": lambda g: substitute_sizes(g.copy, {"n": ef.Dim("n")}),
    "to_dot": lambda g: g.to_dot(),
    "draw": lambda g: draw(contents_of(g)),
}


def prepared(graph: Graph) -> Any:
    """``graph`` with the inputs of some of the work."""
    other: Any = graph
    other.text, other.data = str(graph), to_bytes(graph)
    other.copy = clone(graph)[0]
    return other


def main() -> None:
    """Measure, print the table, and write JSON if requested."""
    options = arguments("Graphs: seconds by number of nodes").parse_args()
    sizes = (10, 20) if options.smallest else SIZES
    graphs = {size: prepared(make(size)) for size in sizes}
    build = {"build": lambda g: make(len(g.nodes))}
    print("### Graphs: seconds by number of nodes\n")
    print(f"| work | {' | '.join(f'{s:,}' for s in sizes)} | us per node | exponent | |")
    print("|---|" + "---|" * (len(sizes) + 3))
    rows = []
    for name, work in {**build, **WORK}.items():
        if options.only not in name:
            continue
        times = [shortest(work, g, 1 if size > 50_000 else 3) for size, g in graphs.items()]
        grows = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
        verdict = "ok" if grows <= BUDGET else "over"
        shown = " | ".join(f"{t:.4f}" for t in times)
        each = 1e6 * times[-1] / sizes[-1]
        print(f"| {name} | {shown} | {each:.1f} | {grows:.2f} | {verdict} |", flush=True)
        rows.append({"work": name, "seconds": times, "exponent": grows})
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
