"""Cost of cutting a graph over devices of this process, and its gain.

- a Send with its Recv: chains of ops that alternate between two virtual CPUs, against the same
  ops with a control edge in place of each crossing, so that both have as many scheduled nodes;
- a loop over two virtual CPUs, for each iteration, with its three crossings; the same with an
  element of a queue taken and one put in, and over two asynchronous devices;
- two independent chains of four products of 512x512 matrices, each on a virtual CPU of its own,
  against both on one, with one BLAS thread each.

Run: ``python -m tests.bench.partitions``. Placing and cutting are in `tests.bench.placement`.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from tests.bench.harness import arguments
from tests.bench.scheduler import best, cores
from tests.runtime.graphs import by_scheduler

PAIRS = 200
ITERATIONS = 200


def to_and_fro(pairs: int) -> Graph:
    """A chain that crosses between two devices after each op."""
    lines, last, device = ["graph f(%x: f32[2]@cpu:0) {"], "x", 0
    for i in range(pairs):
        there = 1 - device
        kind = f"f32[2]@cpu:{there}"
        lines.append(
            f'%m{i} = transfer(%{last}) {{device=device("cpu:{there}"), '
            f'source=device("cpu:{device}")}} : {kind}'
        )
        lines.append(f"%y{i} = negative(%m{i}) : {kind}")
        last, device = f"y{i}", there
    return Graph.parse("\n".join([*lines, f"return %{last} }}"]))


def halve(x: Any, iterations: Any, device: str) -> Any:
    return ef.while_loop(
        lambda i, y: i < iterations,
        lambda i, y: (i + 1, (y.to(device) * 0.5).to("cpu:0") + 1.0),
        (ef.tensor(0), x),
    )[1]


def queues(iterations: int, repeat: int) -> float:
    """Seconds of the loop with a dequeue and an enqueue in each iteration."""
    taken, given = (ef.Queue(iterations, "f32[2]") for _ in range(2))

    @ef.trace
    def f(x: Any, n: Any) -> Any:
        i = n * 0
        while i < n:
            x = (x.to("cpu:1") * 0.5).to("cpu:0") + taken.dequeue()
            given.enqueue(x)
            i = i + 1
        return x

    x, n, many = ef.ones(2), ef.tensor(iterations), ef.ones((iterations, 2))

    def seconds() -> float:
        taken.enqueue_many(many)
        start = process_time()
        f(x, n)
        spent = process_time() - start
        given.dequeue_many(iterations)
        return spent

    return min(seconds() for _ in range(repeat + 1))


def late(iterations: int, repeat: int, here: str, there: str) -> float:
    """Seconds of a loop over asynchronous devices, until its result is ready."""

    def run(x: Any, n: Any) -> Any:
        return ef.while_loop(
            lambda i, y: i < n,
            lambda i, y: (i + 1, (y.to(there) * 0.5).to(here) + 1.0),
            (ef.tensor(0, device=here), x),
        )[1]

    f, x, n = ef.trace(run), ef.ones(2, device=here), ef.tensor(iterations, device=here)
    f(x, n)
    return best(lambda: f(x, n).numpy(), repeat)


def chains(devices: int, size: int, length: int = 4) -> Graph:
    """Two chains of products, on one device or two."""
    kinds = [f"f32[{size},{size}]@cpu:{i}" for i in (0, devices - 1)]
    lines = [f"graph products(%x: {kinds[0]}, %y: {kinds[1]}) {{"]
    for i in range(length):
        for name, start, kind in (("a", "x", kinds[0]), ("b", "y", kinds[1])):
            last = f"{name}{i - 1}" if i else start
            lines.append(f"%{name}{i} = matmul(%{last}, %{start}) : {kind}")
    return Graph.parse("\n".join([*lines, f"return %a{length - 1}, %b{length - 1} }}"]))


def main() -> None:
    """Print a table."""
    smallest = arguments("Partitions").parse_args().smallest
    pairs, iterations, size, repeat = (4, 4, 16, 1) if smallest else (PAIRS, ITERATIONS, 512, 15)
    x = np.ones(2, np.float32)
    where = cores(1)
    print(f"| what | {where} |\n|---|---|")
    with ef.config(cpu_devices=2):
        short, long = Executable(to_and_fro(2)), Executable(to_and_fro(pairs + 2))
        assert long.tier.name == "partitioned"
        seconds = best(lambda: long(x), repeat) - best(lambda: short(x), repeat)
        print(f"| an op with its Send and Recv | {seconds / pairs * 1e6:.1f} us |")
        for device in ("cpu:0", "cpu:1"):
            f = ef.trace(halve)
            args = (ef.ones(2), ef.tensor(iterations), device)
            f(*args)
            seconds = best(lambda f=f, args=args: f(*args), repeat)
            name = "one device" if device == "cpu:0" else "two devices"
            print(f"| an iteration over {name} | {seconds / iterations * 1e6:.1f} us |")
        seconds = queues(iterations, repeat)
        print(
            f"| an iteration over two devices with queues | {seconds / iterations * 1e6:.1f} us |"
        )
        for devices in (("async:0", "async:0"), ("async:0", "async:1")):
            each = late(iterations, repeat, *devices) / iterations * 1e6
            print(f"| an iteration over {' and '.join(devices)} | {each:.1f} us |")
        graph = ef.trace(halve).graph(ef.ones(2), ef.tensor(iterations), "cpu:0")
        opened = by_scheduler(graph, lambda node: False)
        inputs = [x, np.asarray(iterations)]
        seconds = best(lambda: opened(*inputs), repeat)
        print(f"| the same opened up on one device | {seconds / iterations * 1e6:.1f} us |")
    where = cores(2)
    with ef.config(threads=1, cpu_devices=2):
        a = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32) / size
        one, two = Executable(chains(1, size)), Executable(chains(2, size))
        one.tier = one.tier  # one function, whatever measurements say
        assert all(map(np.array_equal, one(a, a), two(a, a)))
        times = [(best(lambda: two(a, a), 5), best(lambda: one(a, a), 5)) for _ in range(5)]
        ratio = min(t for t, _ in times) / min(t for _, t in times)
        print(f"| two chains of products on two devices, {where} | {ratio:.2f} of one device |")


if __name__ == "__main__":
    main()
