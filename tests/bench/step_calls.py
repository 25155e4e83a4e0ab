"""Calls of functions in a scalar null step (`tests.bench.null_steps`), for each process.

Times depend on other load on the machine; the number of function calls does not. Functions
written in C count as well.

Run: ``python -m tests.bench.step_calls``; ``--ps 16 --steps 100 --top 40``.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Final

import eagerflow as ef
from eagerflow.cluster.processes.client.connections import Connections
from tests.bench.harness import arguments
from tests.bench.null_steps import scalar_steps
from tests.bench.profiles import counted, profiled_processes, signal_all

#: seconds until deferred work of a step is done
_REST: Final = 0.3


@contextmanager
def _profiled_connections() -> Iterator[cProfile.Profile]:
    """Profile of the thread that owns the sockets of a client made within this block."""
    profile, serve = cProfile.Profile(), Connections._serve

    def profiled(self: Connections) -> None:
        profile.enable()
        serve(self)

    Connections._serve = profiled  # type: ignore[method-assign]
    try:
        yield profile
    finally:
        Connections._serve = serve  # type: ignore[method-assign]


def _calls(profile: cProfile.Profile) -> int:
    return sum(entry.callcount for entry in profile.getstats())


def measure(ps: int, steps: int) -> tuple[dict[str, float], dict[str, pstats.Stats]]:
    """Calls per step by process and thread, and the calls of a worker and of a ps."""
    caller = cProfile.Profile()
    with (
        profiled_processes() as folder,
        _profiled_connections() as connections,
        ef.cluster.local({"worker": 1, "ps": ps}) as cluster,
    ):
        (step,) = scalar_steps(ps, 1)
        for _ in range(1 + steps // 4):
            step()
        processes = {name: task.pid for name, task in cluster.tasks.items()}
        every = [process for process in processes.values() if process is not None]
        sleep(_REST)
        signal_all(every)
        sleep(_REST)
        connections.clear()
        caller.enable()
        for _ in range(steps):
            step()
        caller.disable()
        client = {"client, caller": _calls(caller), "client, sockets": _calls(connections)}
        sleep(_REST)
        signal_all(every)
        told = {
            name: counted(folder, process)
            for name in ("worker:0", "ps:0")
            if (process := processes[name]) is not None
        }
    calls = {**client, **{name: stats.total_calls for name, stats in told.items()}}  # type: ignore[attr-defined]
    return {name: number / steps for name, number in calls.items()}, told


def main() -> None:
    """Print a table."""
    parser = arguments("Calls of a null step")
    parser.add_argument("--ps", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--top", type=int, default=0, help="functions to be listed")
    options = parser.parse_args()
    ps, steps = (1, 3) if options.smallest else (options.ps, options.steps)
    calls, told = measure(ps, steps)
    print(f"1 worker, {ps} ps\n\n| process | calls a step |\n|---|---|")
    for name, number in calls.items():
        print(f"| {name} | {number:,.0f} |")
    for stats in told.values() if options.top else ():
        stats.sort_stats("ncalls").print_stats(options.top)


if __name__ == "__main__":
    main()
