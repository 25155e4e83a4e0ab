"""Cost of a call of a program above NumPy's own time, and of each of its nodes.

Run: ``python -m tests.bench.programs``.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from tests.bench.harness import arguments

LENGTHS = (1, 10, 100, 1_000)


def chain(length: int) -> Graph:
    """A graph of a number of additions, one after the other."""
    lines = ["graph chain(%x: f32[3]@cpu:0) {"]
    for i in range(length):
        before = f"%a{i - 1}" if i else "%x"
        lines.append(f"%a{i} = add({before}, %x) : f32[3]@cpu:0")
    return Graph.parse("\n".join([*lines, f"return %a{length - 1}", "}"]))


def seconds(function: Callable[[], Any], number: int) -> float:
    """The best time of one call."""
    return min(timeit.repeat(function, number=number, repeat=15)) / number


def main() -> None:
    """Print a table."""
    options = arguments("Calls of programs").parse_args()
    x = np.ones(3, dtype=np.float32)
    print("| nodes | program | NumPy | more, per call | more, per node |\n|---|---|---|---|---|")
    for length in LENGTHS[:1] if options.smallest else LENGTHS:
        program = Executable(chain(length))

        def plain(length: int = length) -> None:
            y = x
            for _ in range(length):
                y = np.add(y, x)

        number = 1 if options.smallest else max(20_000 // length, 20)
        ours = seconds(lambda program=program: program(x), number)
        theirs = seconds(plain, number)
        more = (ours - theirs) * 1e9
        print(
            f"| {length} | {ours * 1e6:.2f} us | {theirs * 1e6:.2f} us | {more:.0f} ns | "
            f"{more / length:.0f} ns |"
        )


if __name__ == "__main__":
    main()
