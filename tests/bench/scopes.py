"""Cost of an open device scope for an op without operands to move.

Each row is run without a scope and within one, alternately, in short runs on one core; the time is
that of the process, so other load on the machine counts little. Shown are the median without a
scope and the medians of the differences of neighbouring runs: in a scope for the device, in one
for a pattern, and in a scope that a generator opened and runs in.

With ``--all`` every public function of the table of ops runs as well: the difference is divided by
the ops that the function binds, and the largest quotients are shown. A function that takes 20 us
or more by itself varies by more than the limit.

Run: ``python -m tests.bench.scopes``.
"""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import process_time
from typing import Any, Final

import numpy as np

import eagerflow as ef
from eagerflow.core.interpreter import AbstractInterpreter
from eagerflow.core.monitors import monitored
from tests.bench.harness import arguments
from tests.ops.cases import ALL_CASES
from tests.ops.table import arguments as arrays
from tests.ops.table import function_of, layout_of, map_arrays, one_of_each_kind

ROUNDS: Final = 150
#: number of calls in one run
CALLS: Final = 400
#: maximum number of rows shown of the table of all functions
SHOWN: Final = 12
#: extra seconds that an op with nothing to move may take in a scope
LIMIT: Final = 0.3e-6

x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
y = ef.tensor([[5.0, 6.0], [7.0, 8.0]])
mask = x > y

ROWS: Final[dict[str, Callable[[], Any]]] = {
    "x + y": lambda: x + y,
    "x * 2.5": lambda: x * 2.5,
    "-x": lambda: -x,
    "x[0]": lambda: x[0],
    "x @ y": lambda: x @ y,
    "ef.add(x, y)": lambda: ef.add(x, y),
    "ef.multiply(x, 2.5)": lambda: ef.multiply(x, 2.5),
    "ef.exp(x)": lambda: ef.exp(x),
    "ef.matmul(x, y)": lambda: ef.matmul(x, y),
    "x.sum()": lambda: x.sum(),
    "ef.where(mask, x, y)": lambda: ef.where(mask, x, y),
    "ef.concat([x, y])": lambda: ef.concat([x, y]),
    "x.reshape((4,))": lambda: x.reshape((4,)),
    "ef.zeros(2)": lambda: ef.zeros(2),
}


def in_generator(work: Callable[[], Any], calls: int) -> Generator[float]:
    """Times of runs in a scope that this generator opens."""
    with ef.device("cpu:0"):
        while True:
            yield run(work, calls)


def run(work: Callable[[], Any], calls: int) -> float:
    """Seconds of one call, as the mean over a run."""
    begin = process_time()
    for _ in range(calls):
        work()
    return (process_time() - begin) / calls


def run_within(block: Callable[[], AbstractContextManager[Any]], work: Any, calls: int) -> float:
    with block():
        return run(work, calls)


def differences(work: Callable[[], Any], rounds: int, calls: int) -> tuple[float, dict[str, float]]:
    """Median seconds without a scope, and for each kind of scope the median extra seconds."""
    generator = in_generator(work, calls)
    kinds = {
        "device": partial(run_within, partial(ef.device, "cpu:0"), work, calls),
        "pattern": partial(run_within, partial(ef.device, "cpu:*"), work, calls),
        "generator": partial(next, generator),
    }
    without: list[float] = []
    more: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, timed in kinds.items():
            before = run_within(nullcontext, work, calls)
            within = timed()
            if kind == "generator":
                generator.close()  # its scope is open, and not in force, while it waits
                generator = in_generator(work, calls)
                kinds[kind] = partial(next, generator)
            without.append(before)
            more[kind].append(within - before)
    return statistics.median(without), {k: statistics.median(v) for k, v in more.items()}


class Counter(AbstractInterpreter):
    """A monitor that counts ops."""

    def __init__(self) -> None:
        self.ops = 0

    def bind(self, op: Any, inputs: Any, attrs: dict[str, Any]) -> Any:
        self.ops += 1
        return self.below.bind(op, inputs, attrs)


def functions_of_the_table() -> Iterator[tuple[str, Callable[[], Any]]]:
    """A call of each public function in the table of ops, on the first dtype of a case."""
    for name, case in {case.name: case for case in ALL_CASES if not case.untraceable}.items():
        given = arrays(case, one_of_each_kind(case)[0], layout_of(case))
        tensors = [map_arrays(ef.asarray, one) for one in given]
        yield name, partial(function_of(case), *tensors, **case.kwargs)


def print_worst(rounds: int, calls: int, only: str) -> None:
    """Print the functions with the largest extra time in a scope, per op that they bind."""
    rows = []
    for name, work in functions_of_the_table():
        if only not in name:
            continue
        counter = Counter()
        with monitored(counter):
            work()
        plain, more = differences(work, rounds, calls)
        ops = max(counter.ops, 1)
        rows.append((more["device"] / ops, name, plain, ops))
    rows.sort(reverse=True)
    over = sum(extra > LIMIT for extra, *_ in rows)
    print(f"\n{len(rows)} functions; {over} take over {LIMIT * 1e6:.1f} us more for each op\n")
    print("| function | us | ops | more in a scope, for each |")
    print("|---|---|---|---|")
    for extra, name, plain, ops in rows[:SHOWN]:
        print(f"| `{name}` | {1e6 * plain:.2f} | {ops} | {1e6 * extra:.2f} |")


def main() -> None:
    """Print the tables."""
    parser = arguments("Scopes")
    parser.add_argument("--all", action="store_true", help="all public functions as well")
    options = parser.parse_args()
    rounds, calls = (1, 2) if options.smallest else (ROUNDS, CALLS)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| op | us | more in a scope | in a pattern | in that of a generator |")
    print("|---|---|---|---|---|")
    for name, work in ROWS.items():
        if options.only in name:
            plain, more = differences(work, rounds, calls)
            cells = " | ".join(f"{1e6 * one:.2f}" for one in more.values())
            print(f"| `{name}` | {1e6 * plain:.2f} | {cells} |", flush=True)
    if options.all:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            print_worst(max(1, rounds // 5), max(1, calls // 8), options.only)


if __name__ == "__main__":
    main()
