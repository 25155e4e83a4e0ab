"""Cost of compiling: its own time, memory that stays in use, and slowdown of concurrent steps.

Run: ``python -m tests.bench.compiling``. Three tables: the processor's time for graphs of several
lengths, whose kernels are all different; the memory of a process that makes functions and
drops them; and the times of a step of 40 ops while another thread compiles, beside those of before.
"""

from __future__ import annotations

import gc
import math
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.runtime.generated.instructions import flatten
from eagerflow.runtime.generated.native_kernels import NativeProgram
from eagerflow_kernels.native.compiler_slices import in_slices
from tests.bench.harness import arguments

#: number of ops between two ops without a kernel
_CHAIN = 24


def graph_of(length: int, first: float) -> Any:
    """A graph of a number of elementwise ops, in chains with constants of their own."""

    def work(x: Any) -> Any:
        for i in range(length // 2):
            x = x * (first + i) + 0.5
            if i % (_CHAIN // 2) == 0:
                x = ef.lgamma(x)
        return x

    with warnings.catch_warnings():  # warnings of loops that are unrolled, as intended here
        warnings.simplefilter("ignore", ef.errors.TraceWarning)
        return flatten(ef.trace(work).graph(ef.ones(8)))


def report_times(lengths: tuple[int, ...]) -> None:
    """Print the compile times of graphs, and the exponent of growth by length."""
    print("| nodes | kernels | processor time | per node | exponent |\n|---|---|---|---|---|")
    before = None
    for length in lengths:
        program = graph_of(length, 2.0 * length)
        start = time.process_time()
        kernels = len(NativeProgram(program).kernels)
        spent = time.process_time() - start
        grows = math.log(spent / before[1]) / math.log(length / before[0]) if before else math.nan
        shown = "" if before is None else f"{grows:.2f}"
        each = f"{spent / length * 1e6:.0f} us"
        print(f"| {length} | {kernels} | {spent:.2f} s | {each} | {shown} |", flush=True)
        before = length, spent


def _memory() -> float:
    """Resident memory of the process, in MiB."""
    gc.collect()
    match = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def report_memory(count: int) -> None:
    """Print the memory of a process that makes functions, compiles them and drops them."""
    print("\n| functions made and dropped | memory |\n|---|---|")
    x = ef.ones(100)
    for i in range(count + 1):
        if i % max(1, count // 10) == 0:
            print(f"| {i} | {_memory():.1f} MiB |", flush=True)
        f = ef.trace(lambda x: (x * 2.5 + 1.0) * x, compile="now")
        f(x)
        del f


def _times(step: Any, x: Any, until: Any) -> list[float]:
    times: list[float] = []
    while not until(len(times)):
        start = time.perf_counter()
        step(x)
        times.append(time.perf_counter() - start)
    return sorted(times)


def report_steps_beside(length: int, runs: int) -> None:
    """Print the times of a step while nothing is compiled, and during a compilation."""

    @ef.trace(compile="off")
    def step(x: Any) -> Any:
        for _ in range(20):
            x = ef.sqrt(x) + 1.0
        return x

    x, program = ef.ones(50_000), graph_of(length, 1.25)
    _times(step, x, lambda count: count >= 20)
    idle = _times(step, x, lambda count: count >= runs)

    def compile() -> None:
        with in_slices():
            NativeProgram(program)

    thread = Thread(target=compile)
    thread.start()
    beside = _times(step, x, lambda count: count > 0 and not thread.is_alive())
    thread.join()
    print(
        "\n| a step of 40 ops | steps | mean | median | 99 % | largest |\n|---|---|---|---|---|---|"
    )
    for name, times in (("alone", idle), ("beside the compiler", beside)):
        some = [np.mean(times), *np.quantile(times, [0.5, 0.99, 1])]
        print(f"| {name} | {len(times)} | {' | '.join(f'{1e3 * t:.2f} ms' for t in some)} |")


if __name__ == "__main__":
    options = arguments("Compiling").parse_args()
    with TemporaryDirectory() as folder:
        os.environ["EAGERFLOW_CACHE"] = folder  # an empty cache of kernels
        ef.config(kernels="native")
        lengths = (48, 96) if options.smallest else (1_250, 2_500, 5_000, 10_000, 20_000)
        count, beside = (10, (96, 50)) if options.smallest else (10_000, (2_500, 1_000))
        reports: dict[str, Callable[[], None]] = {
            "times": lambda: report_times(lengths),
            "memory": lambda: report_memory(count),
            "steps": lambda: report_steps_beside(*beside),
        }
        for name, report in reports.items():
            if options.only in name:
                report()
