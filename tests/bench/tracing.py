"""Time to trace, optimise and prepare a graph, by the number of ops, and its memory.

Run: ``python -m tests.bench.tracing``.
"""

from __future__ import annotations

import gc
import math
import tracemalloc
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import eagerflow as ef
from tests.bench.harness import arguments

SIZES = (100, 1_000, 10_000, 100_000)


def program(ops: int) -> Callable[[Any], Any]:
    """A function of a number of ops, all different."""

    def f(x: Any) -> Any:
        for i in range(ops // 4):
            x = ef.exp(x * (1.0 / (i + 1))) - x
            x = ef.tanh(x)
        return x

    return f


def tracing(sizes: tuple[int, ...] = SIZES) -> None:
    """Print times per op, and the exponent of growth."""
    print("| ops | traced and ready | per op | exponent |\n|---|---|---|---|")
    before: tuple[int, float] | None = None
    for ops in sizes:
        times = []
        for iteration in range(3):
            plain = program(ops)
            plain.__qualname__ = (
                f"f{ops}_{iteration}"  # otherwise traces of the previous function would be found
            )
            f = ef.trace(plain)
            start = perf_counter()
            f.graph(ef.zeros((4, 4)))
            times.append(perf_counter() - start)
            if ops >= 100_000:
                break
        seconds = min(times)
        exponent = "" if before is None else math.log(seconds / before[1], ops / before[0])
        shown = exponent if exponent == "" else f"{exponent:.2f}"
        print(f"| {ops} | {seconds:.3f} s | {seconds / ops * 1e6:.0f} us | {shown} |", flush=True)
        before = (ops, seconds)


def peak(function: Callable[[], Any]) -> int:
    """Peak number of bytes allocated while ``function`` runs, above those before."""
    function()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    function()
    nbytes = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return nbytes


def memory(count: int = 1_000) -> None:
    """Print the peak of a training step, traced and eager, and the growth of a cache."""

    def loss(w: Any, v: Any, x: Any) -> Any:
        h = ef.tanh(x @ w)
        return ((ef.tanh(h @ v) - x) ** 2).mean()

    w, v, x = (ef.random.normal((512, 512)) for _ in range(3))
    step = ef.grad(loss, argnums=(0, 1))
    traced = ef.trace(step)
    eager, ours = peak(lambda: step(w, v, x)), peak(lambda: traced(w, v, x))
    print(f"\npeak of a step, 512x512: eager {eager / 1e6:.2f} MB, traced {ours / 1e6:.2f} MB")

    @ef.trace
    def special(x: Any) -> Any:
        for _ in range(int(x.shape[0]) % 7):
            x = x + 1.0
        return ef.exp(x) * 2.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.errors.TraceWarning)
        special(ef.zeros(1))
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for size in range(2, count + 2):
            special(ef.zeros(size))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    print(f"{count:,} sizes of a function that asks for its size: {grown / 1e6:.2f} MB more")


if __name__ == "__main__":
    if arguments("Tracing").parse_args().smallest:
        tracing(SIZES[:1])
        memory(10)
    else:
        tracing()
        memory()
