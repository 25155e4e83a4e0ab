"""What scheduling costs, and what it gains.

Counted are: entries of the scheduler that are told and asked for, in a random graph of 10,000
entries with up to three edges each; the same executed, each entry being a call of a function that
does nothing; nodes in a straight line, which are one region; two chains of products of matrices,
one after the other and at once; and turns of a loop with a tiny body, structured and lowered.

Run: ``python -m tests.bench.scheduler``; with ``--peer`` it times ``tf.while_loop`` (graph mode, no
XLA) instead, for an interpreter that has TensorFlow.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core.op import define
from eagerflow.graph import Graph
from eagerflow.runtime import Program
from eagerflow.runtime.actions import EntryAction
from eagerflow.runtime.executor import Executor
from eagerflow.runtime.flow import Flow
from eagerflow.runtime.plan import RUN, Plan, PlanEntry
from eagerflow.runtime.scheduler import Scheduler, done, start
from eagerflow.runtime.step import FlowStep
from eagerflow.types import TensorType
from eagerflow_kernels import table

ENTRIES = 10_000
TURNS = 1_000


def best(function: Callable[[], Any], repeat: int = 15) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(repeat):
        begin = perf_counter()
        function()
        times.append(perf_counter() - begin)
    return min(times)


def random_plan() -> Plan:
    source = random.Random(0)
    entries = [PlanEntry(RUN) for _ in range(ENTRIES)]
    for i in range(1, ENTRIES):
        near = range(max(0, i - 100), i)
        for j in {source.choice(near) for _ in range(source.randint(1, 3))}:
            entries[j].edges.append((0, i, 0))
    return Plan(entries)


def schedule(plan: Plan, log: bool) -> None:
    """Answer the scheduler, and do nothing else."""
    step = Scheduler(plan, log=log)
    todo = step.handle(start())
    while todo:
        kind, *rest = todo.pop()
        if kind == "run":
            todo += step.handle(done(*rest))


def null_flow(plan: Plan) -> Flow:
    """Entries that call a function which does nothing."""
    flow = Flow(Graph.parse("graph (%x: f32[]@cpu:0) { return %x }"))
    nothing = ()
    flow.plan = plan
    flow.inputs = flow.outputs = []
    flow.frames[0].actions = [EntryAction(None, lambda: nothing) for _ in range(ENTRIES)]
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
    program = Program(Graph.parse("\n".join([*lines, f"return %v{number - 1} }}"])))
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


def loop(x: Any) -> Any:
    """Newton's steps for a square root: three ops a turn."""
    return ef.while_loop(
        lambda y, i: i < TURNS,
        lambda y, i: (0.5 * (y + x / y), i + 1),
        (x, 0),
    )[0]


def peer() -> None:
    import tensorflow as tf  # noqa: PLC0415 - it is not installed where the others run

    @tf.function(autograph=False)
    def f(x: Any) -> Any:
        return tf.while_loop(
            lambda y, i: i < TURNS, lambda y, i: (0.5 * (y + x / y), i + 1), (x, tf.constant(0))
        )[0]

    x = tf.constant(2.0)
    f(x)
    seconds = best(lambda: f(x).numpy())
    print(f"| tf.while_loop, {TURNS} turns | {seconds * 1e3:.2f} ms |")


def main() -> None:
    """Print a table."""
    print("| what | |\n|---|---|")
    plan = random_plan()
    for log in (False, True):
        name = "with a log" if log else "without a log"
        seconds = best(lambda log=log: schedule(plan, log))  # type: ignore[misc]
        print(f"| scheduler {name} | {ENTRIES / seconds:,.0f} entries/s |")
    flow = null_flow(plan)
    for log in (False, True):
        name = "with a log" if log else "without a log"
        seconds = best(lambda log=log: FlowStep(flow, log=log).run([]))  # type: ignore[misc]
        print(f"| executor {name} | {ENTRIES / seconds:,.0f} null entries/s |")
    run = straight_line(ENTRIES)
    print(f"| one region | {ENTRIES / best(run):,.0f} null ops/s |")
    x = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32) / 512
    with ef.config(threads=1):
        graph = products()
        serial, at_once = Program(graph), Executor(graph)
        assert all(map(np.array_equal, serial(x, x), at_once(x, x)))
        ratio = best(lambda: at_once(x, x)) / best(lambda: serial(x, x))
    print(f"| two chains of products, at once / one after the other | {ratio:.2f} |")
    looped = ef.trace(loop).graph(ef.tensor(2.0))
    value = np.asarray(2.0, np.float32)
    runs = {"structured": Program(looped), "lowered": Executor(looped, lambda node: False)}
    inputs = [value if v.name == "x" else TURNS for v in looped.inputs]
    for name, runner in runs.items():
        seconds = best(lambda runner=runner: runner(*inputs))  # type: ignore[misc]
        print(f"| while_loop {name}, {TURNS} turns | {seconds * 1e3:.2f} ms |")


if __name__ == "__main__":
    peer() if "--peer" in sys.argv else main()
