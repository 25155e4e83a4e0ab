"""Memory: dropped objects are freed at once, without the garbage collector."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import textwrap
import tracemalloc

import pytest

import eagerflow as ef


def growth(work, iterations: int) -> int:
    """Bytes that ``iterations`` runs of ``work`` leave behind, with the collector off."""
    work()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        work()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(iterations):
            work()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()


BIG = 100_000  # bytes of one array below, 25,000 float32


def test_a_tape_leaves_nothing() -> None:
    x = ef.ones(25_000)

    def work() -> None:
        with ef.GradientTape() as tape:
            tape.watch(x)
            y = (ef.exp(x) * x).sum()
        tape.gradient(y, x)

    assert growth(work, 50) < BIG


def test_a_tape_without_gradient_leaves_nothing() -> None:
    x = ef.ones(25_000)

    def work() -> None:
        with ef.GradientTape() as tape:
            tape.watch(x)
            ef.exp(x) * x

    assert growth(work, 50) < BIG


def test_grad_of_grad_leaves_nothing() -> None:
    x = ef.ones(25_000)
    second = ef.grad(lambda x: ef.grad(lambda x: (x * x * x).sum())(x).sum())
    assert growth(lambda: second(x), 30) < BIG


def test_ops_leave_nothing() -> None:
    x = ef.ones((4, 4))
    assert growth(lambda: x + x * 2.5 - x.sum(), 20_000) < 20_000


def test_errors_leave_nothing() -> None:
    x, y = ef.ones(25_000), ef.ones(3)

    def work() -> None:
        with contextlib.suppress(ef.errors.ShapeError):
            x * 2.0 + y

    assert growth(work, 50) < BIG


def test_variables_leave_nothing() -> None:
    def work() -> None:
        v = ef.Variable(ef.ones(2_500))
        v.assign_add(ef.ones(2_500))

    assert growth(work, 10_000) < BIG


@pytest.mark.slow
def test_a_million_ops_leave_nothing() -> None:
    x = ef.ones((4, 4))

    def work() -> None:
        for _ in range(1_000):
            x + x

    assert growth(work, 1_000) < 20_000


CELLS = """
import gc, tracemalloc
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import eagerflow as ef")
shell.run_cell("def f():\\n    x = ef.ones(25_000)\\n    y = ef.exp(x)\\n    return y + ef.ones(3)")
tracemalloc.start()
sizes = []
for _ in range(20):
    shell.run_cell("f()")
    gc.collect()
    sizes.append(tracemalloc.get_traced_memory()[0])
print("SIZES", sizes[4], sizes[-1])
"""


def test_twenty_exceptions_in_a_notebook_leave_bytes_in_use_constant() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CELLS)], capture_output=True, text=True, check=True
    )
    line = next(x for x in done.stdout.splitlines() if x.startswith("SIZES"))
    early, late = map(int, line.split()[1:])
    assert late - early < BIG
