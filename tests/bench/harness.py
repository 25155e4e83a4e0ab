"""Times small pieces of code of several libraries side by side.

Each contender runs in a process of its own (thread pools of two libraries in one process slow
each other down), the contenders take turns for several rounds (A B C A B C …), and every round is
the best of a few repeats. Medians over rounds, minima and ratios are printed as a table and written
as JSON. Single times on a shared machine mean little; the ratios count.

Every script takes the options of `arguments`; `tests/bench/test_scripts.py` runs each with
``--smallest``, so that none is broken unnoticed.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np  # noqa: F401 - it loads the BLAS library that `environment` names
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it has no types

_WORKER = """
import json, os, sys, time, timeit
clock = time.perf_counter
if os.environ["OMP_NUM_THREADS"] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    clock = time.process_time  # what else runs on the machine does not count
namespace = {}
exec(sys.argv[1], namespace)
statement, target = sys.argv[2], float(sys.argv[3])
timer = timeit.Timer(statement, timer=clock, globals=namespace)
timer.timeit(2)  # the first call may load things, and would be taken for the speed of all
number = 1
while (spent := timer.timeit(number)) < 0.02 and number < 10**7:
    number *= 4
number = max(1, int(number * target / max(spent, 1e-9)))
print(json.dumps(min(timer.repeat(5, number)) / number))
"""


@dataclass(frozen=True)
class Contender:
    """A library's implementation of the work.

    Attributes:
        name: its name in the table.
        setup: Python code run once.
        statement: Python code that is timed.
        needs: the package of a peer, which may not be installed.
        tree: the checkout whose packages are imported; None for the packages of this process.
    """

    name: str
    setup: str
    statement: str
    needs: str = ""
    tree: Path | None = None

    def path(self) -> dict[str, str]:
        """Environment variables with the places of packages."""
        if self.tree is None:
            return {}
        folders = [self.tree, self.tree / "kernels", self.tree / "widgets"]
        return {"PYTHONPATH": os.pathsep.join(map(str, folders))}


@dataclass
class Contest:
    """A row of results: the same work by several contenders, the first of them eagerflow.

    Attributes:
        name: the name of the work.
        contenders: eagerflow first, then NumPy and the peers.
        budget: highest acceptable ratio ours / other, by the other's name.
    """

    name: str
    contenders: list[Contender]
    budget: dict[str, float] = field(default_factory=dict)


def arguments(title: str) -> argparse.ArgumentParser:
    """A parser with the options of every script, as `make bench` gives all scripts the same."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument(
        "--smallest",
        action="store_true",
        help="run everything once, as small as it gets: does it still work?",
    )
    parser.add_argument("--json", type=Path, default=None, help="write the figures here")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=7, help="of contests")
    parser.add_argument("--seconds", type=float, default=0.05, help="of one repeat")
    parser.add_argument(
        "--threads", type=int, default=2, help="1 measures the processor's time, on one processor"
    )
    return parser


def installed(contests: list[Contest], options: argparse.Namespace) -> list[Contest]:
    """The contests that are selected, without contenders whose package is not installed."""
    needed = sorted({c.needs for contest in contests for c in contest.contenders if c.needs})
    absent = [name for name in needed if find_spec(name) is None]
    if absent:
        print(f"left out, as they are not installed: {', '.join(absent)}\n")
    return [
        replace(contest, contenders=[c for c in contest.contenders if c.needs not in absent])
        for contest in contests
        if options.only in contest.name
    ]


def first_alone(contests: list[Contest]) -> list[Contest]:
    """The first contest with its first contender only: does that still work?"""
    return [replace(contest, contenders=contest.contenders[:1]) for contest in contests[:1]]


def answer(text: str, *, here: bool = False) -> Any:
    """The value that a process running this text prints last, as JSON.

    Args:
        text: a program.
        here: whether it runs in this process, as in the smallest run, which starts fewer.

    Raises:
        RuntimeError: the process failed; with its error.
    """
    if here:
        with redirect_stdout(StringIO()) as printed:
            exec(text, {})
        return json.loads(printed.getvalue().splitlines()[-1])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _once(contender: Contender) -> float:
    """The time of one run in this process; it shows that the code runs, and no more."""
    namespace: dict[str, Any] = {}
    exec(contender.setup, namespace)
    return timeit.timeit(contender.statement, globals=namespace, number=1)


def _measure(contender: Contender, seconds: float, threads: int) -> float:
    number = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number}
    environment |= contender.path()
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, contender.setup, contender.statement, str(seconds)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=contender.tree,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{contender.name}:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def shortest(work: Callable[[Any], Any], graph: Any, repeats: int) -> float:
    """The shortest of several times, with the garbage collector off as while tracing."""
    best = math.inf
    for _ in range(repeats):
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        work(graph)
        best = min(best, time.perf_counter() - start)
        gc.enable()
    return best


def _unit(seconds: float) -> str:
    for scale, unit in ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms")):
        if seconds < 1000 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def environment() -> str:
    """Machine and versions that the figures depend on."""
    peers = ("numpy", "torch", "jax", "tensorflow", "numba")
    names = [n for n in peers if find_spec(n) is not None]
    libraries = ", ".join(f"{n} {version(n)}" for n in names)
    return (
        f"{os.cpu_count()} processors ({platform.machine()}); Python {platform.python_version()}, "
        f"{platform.python_compiler()}; {libraries}; {_blas()}"
    )


def _blas() -> str:
    """The BLAS libraries that NumPy has loaded, with the processors that their code is for."""
    libraries = ThreadpoolController().select(user_api="blas").info()
    names = [(x["internal_api"], x["version"], x.get("architecture")) for x in libraries]
    return ", ".join(f"{api} {number} ({core})" for api, number, core in names) or "no BLAS"


def run(title: str, contests: list[Contest], options: argparse.Namespace) -> None:
    """Measure, print the table in Markdown, and write JSON if the command line requests it.

    Args:
        title: the title of the table.
        contests: the contests that `installed` gives.
        options: the options of the command line.
    """
    rows = []
    print(f"### {title}\n\n{environment()}\n")
    print("| work | who | median | min | ours / theirs | budget | |")
    print("|---|---|---|---|---|---|---|")
    for contest in contests:
        times: dict[str, list[float]] = {c.name: [] for c in contest.contenders}
        for _ in range(1 if options.smallest else options.rounds):
            for contender in contest.contenders:
                if options.smallest and not contender.needs:
                    seconds = _once(contender)
                else:
                    seconds = _measure(contender, options.seconds, options.threads)
                times[contender.name].append(seconds)
        rows.append(_report(contest, times))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def _report(contest: Contest, times: dict[str, list[float]]) -> dict[str, object]:
    ours = times[contest.contenders[0].name]
    result: dict[str, object] = {"work": contest.name}
    for name, theirs in times.items():
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        limit = contest.budget.get(name)
        verdict = "" if limit is None else ("ok" if ratio <= limit else "over")
        shown = "" if theirs is ours else f"{ratio:.2f}"
        print(
            f"| {contest.name} | {name} | {_unit(statistics.median(theirs))} | "
            f"{_unit(min(theirs))} | {shown} | {limit or ''} | {verdict} |",
            flush=True,
        )
        result[name] = {"median": statistics.median(theirs), "min": min(theirs), "ratio": ratio}
    return result
