"""Cost of scheduling, and its gain.

Measured are, each with the shortest of some runs:

- scheduled nodes of a random graph of 10,000 nodes of one op each, which have one to
  three edges from the 100 before them: told that one is done, it says which can run. One core.
- the same with values, locks and queues: a step of the executor whose scheduled nodes are calls of
  a function that does nothing. One core.
- nodes of one region, in a straight line: calls of a kernel that does nothing. One core.
- two chains of four products of 512x512 matrices each, with one BLAS thread on two cores: a program
  as it is, which runs them at once, against the same as one function.
- iterations of a loop of three ops on a scalar and a counter: as one scheduled node, and opened
  up.

Run: ``python -m tests.bench.scheduler``. Small loops beside ``tf.while_loop`` are in
`tests.bench.loops`, training steps of an LSTM in `tests.bench.recurrent`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core.op import define
from eagerflow.graph import Graph
from eagerflow.graph.ir import Node
from eagerflow.runtime import Executable, generated_or_scheduled
from eagerflow.runtime.scheduled.actions import Action
from eagerflow.runtime.scheduled.plan import RUN, Plan, ScheduledNode
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.scheduler import Scheduler, done, start
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.types import TensorType
from eagerflow_kernels import table
from tests.bench.harness import arguments
from tests.runtime.graphs import by_scheduler, straight

NODES = 10_000
ITERATIONS = 1_000
#: the cores that this process may use, where the system reports them
EVERY = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def best(function: Callable[[], Any], repeat: int) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(repeat):
        begin = perf_counter()
        function()
        times.append(perf_counter() - begin)
    return min(times)


def random_plan(count: int) -> Plan:
    source = random.Random(0)
    nodes = [ScheduledNode(RUN) for _ in range(count)]
    for i in range(1, count):
        near = range(max(0, i - 100), i)
        for j in {source.choice(near) for _ in range(source.randint(1, 3))}:
            nodes[j].edges.append((0, i, 0))
    return Plan(nodes)


def schedule(plan: Plan, log: bool) -> None:
    """Complete each instruction of the scheduler at once, without other work."""
    step = Scheduler(plan, log=log)
    todo = step.handle(start())
    while todo:
        kind, *rest = todo.pop()
        if kind == "run":
            todo += step.handle(done(*rest))


def null_flow(plan: Plan) -> ScheduledTier:
    """A tier of scheduled nodes that call a function which does nothing."""
    flow = ScheduledTier(Graph("null"))
    nothing = ()
    flow.plan = plan
    node = Node("null", "null", (), {})
    flow.frames[0].actions = [Action(node, lambda given: nothing, ()) for _ in plan.labels]
    return flow


def straight_line(number: int) -> Callable[[], Any]:
    """A region of ops whose kernel does nothing."""

    def infer(x: TensorType) -> TensorType:
        return x

    define("bench_null", infer=infer, nondifferentiable=True, precision="exact")
    table.portable("bench_null")(lambda xp, x: x)
    lines = ["graph line(%x: f32[2]@cpu:0) {"]
    for i in range(number):
        lines.append(f"%v{i} = bench_null(%{f'v{i - 1}' if i else 'x'}) : f32[2]@cpu:0")
    program = Executable(Graph.parse("\n".join([*lines, f"return %v{number - 1} }}"])))
    x = np.zeros(2, np.float32)
    return lambda: program(x)


def products(size: int = 512, length: int = 4) -> Graph:
    kind = f"f32[{size},{size}]@cpu:0"
    lines = [f"graph products(%x: {kind}, %y: {kind}) {{"]
    for i in range(length):
        for name, start_ in (("a", "x"), ("b", "y")):
            last = f"{name}{i - 1}" if i else start_
            lines.append(f"%{name}{i} = matmul(%{last}, %{start_}) : {kind}")
    last_ = length - 1
    return Graph.parse("\n".join([*lines, f"return %a{last_}, %b{last_} }}"]))


def loop(x: Any, iterations: int) -> Any:
    """Newton's steps for a square root: three ops an iteration."""
    return ef.while_loop(
        lambda y, i: i < iterations,
        lambda y, i: (0.5 * (y + x / y), i + 1),
        (x, 0),
    )[0]


def cores(count: int) -> str:
    """Limit this process to a number of cores, where the system can; gives the resulting number."""
    if EVERY:
        os.sched_setaffinity(0, EVERY[:count])
        count = len(EVERY[:count])
    return "1 core" if count == 1 else f"{count} cores"


def two_chains() -> str:
    """The figure of two chains of products at once, as text for the table."""
    x = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32) / 512
    graph = products()
    serial, at_once = straight(graph), Executable(graph)
    for _ in range(2 * (generated_or_scheduled._TIMED_RUNS + 1)):  # until it has chosen
        assert all(map(np.array_equal, serial(x, x), at_once(x, x)))
    if at_once.tier.name == "generated":
        return "did not turn out to be faster"
    times = [(best(lambda: at_once(x, x), 5), best(lambda: serial(x, x), 5)) for _ in range(5)]
    ratio = min(a for a, _ in times) / min(b for _, b in times)
    return f"{ratio:.2f} of the time of one function"


def main() -> None:
    """Print a table."""
    smallest = arguments("Scheduler and executor").parse_args().smallest
    nodes, iterations, repeat = (100, 10, 1) if smallest else (NODES, ITERATIONS, 15)
    where = cores(1)
    print(f"| what | {where} |\n|---|---|")
    plan = random_plan(nodes)
    edges = sum(len(targets or ()) for targets in plan.frames[0].targets)
    print(f"| the random graph | {nodes:,} nodes, {edges:,} edges |")
    for log in (False, True):
        name = "with a log" if log else "without a log"
        seconds = best(lambda log=log: schedule(plan, log), repeat)
        print(f"| scheduler {name} | {nodes / seconds:,.0f} nodes/s |")
    flow = null_flow(plan)
    for log in (False, True):
        name = "with a log" if log else "without a log"
        seconds = best(lambda log=log: ScheduledStep(flow, log=log).run([]), repeat)
        print(f"| executor {name} | {nodes / seconds:,.0f} null nodes/s |")
    run = straight_line(nodes)
    print(f"| one region | {nodes / best(run, repeat):,.0f} null ops/s |")
    looped = ef.trace(loop).graph(ef.tensor(2.0), iterations)
    value = np.asarray(2.0, np.float32)
    runs = {
        "one scheduled node": Executable(looped),
        "opened up": by_scheduler(looped, lambda node: False),
    }
    inputs = [value if v.name == "x" else iterations for v in looped.inputs]
    for name, runner in runs.items():
        seconds = best(lambda runner=runner: runner(*inputs), repeat)
        print(f"| while_loop, {name}, {iterations} iterations | {seconds * 1e3:.2f} ms |")
    where = cores(2)
    with ef.config(threads=1):
        print(f"| two chains of products at once, {where}, 1 BLAS thread | {two_chains()} |")


if __name__ == "__main__":
    main()
