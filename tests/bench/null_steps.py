"""Null steps over real task servers, as in Figure 6 of Abadi et al. (OSDI 2016).

Workers read parameters of all parameter servers (``ps``), do next to nothing with them, and send
each one an update:

- *scalar*: each ps has one number. The cost of the messages alone is shown for comparison
  (`tests.bench.messages`, rows ``ipc, dealers``), which is the floor.
- *dense*: 100 MB on all ps together; each worker sums every byte. Shown for comparison: the time
  in which this process copies as much, and adds it up. In a second row, of one worker, each ps
  assigns to its part afterwards, as in training, so that no value is sent twice: the time of the
  assignments counts as well, and the same time is shown for comparison. All results are checked.
- *sparse*: 32 rows of 64 numbers from each ps, out of a table that grows 64 times.

Workers run their steps at once, each in a thread of the client.

Run: ``python -m tests.bench.null_steps``; ``--ps 16 --workers 1 --steps 200 --only sparse``;
``--transport tcp`` is encrypted, ``--transport "plain tcp"`` is not. With ``--tensorflow`` those of
TensorFlow's task servers follow (`tests.bench.tensorflow_steps`), in an environment that has it:
``tools/venv.sh .venv-bench bench,dev``.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np

import eagerflow as ef
from tests.bench import tensorflow_steps
from tests.bench.harness import arguments

Step = Callable[[], Any]
KINDS: Final = ("scalar", "dense", "sparse")
_DENSE: Final = 100_000_000  # bytes
_ROWS: Final = 32
_WIDTH: Final = 64


def scalar_steps(ps: int, workers: int) -> list[Step]:
    """Steps that read a number at each parameter server, add these up, and update each."""
    weights = [ef.Variable(1.0, device=f"ps:{i}") for i in range(ps)]

    def step_of(worker: int) -> Step:
        @ef.trace
        def step(x: Any) -> Any:
            reads = []
            for i, w in enumerate(weights):
                with ef.device(f"ps:{i}"):
                    reads.append(w * 1.0)
            with ef.device(f"worker:{worker}"):
                total = x * 1.0
                for read in reads:
                    total = total + read
            for i, w in enumerate(weights):
                with ef.device(f"ps:{i}"):
                    w.assign_sub(total * 0.0)
            return total

        x = ef.tensor(0.0)
        return lambda: step(x)

    return [step_of(worker) for worker in range(workers)]


def dense_steps(ps: int, workers: int, size: int) -> list[Step]:
    """Steps that read a total number of bytes, which each worker sums."""
    weights = _dense_weights(ps, size)

    def step_of(worker: int) -> Step:
        @ef.trace
        def step() -> Any:
            with ef.device(f"worker:{worker}"):
                sums = [w.value.sum() for w in weights]
                return ef.stack(sums).sum()

        return step

    return [step_of(worker) for worker in range(workers)]


def assigning_steps(ps: int, size: int) -> list[Step]:
    """The dense step of one worker, after which each ps assigns 1 and 2 in turn to its part."""
    weights = _dense_weights(ps, size)

    @ef.trace
    def step(level: Any) -> Any:
        with ef.device("worker:0"):
            total = ef.stack([w.value.sum() for w in weights]).sum()
            change = total * 0.0 + (3.0 - 2.0 * level)
            ones = total / level
        for i, w in enumerate(weights):
            with ef.device(f"ps:{i}"):
                w.assign_add(change)
        return ones

    levels = cycle((ef.tensor(1.0), ef.tensor(2.0)))
    return [lambda: step(next(levels))]


def _dense_weights(ps: int, size: int) -> list[ef.Variable]:
    return [ef.Variable(np.ones(size // 4 // ps, "f4"), device=f"ps:{i}") for i in range(ps)]


def sparse_steps(ps: int, workers: int, rows: int) -> list[Step]:
    """Steps that gather rows of a sharded table, add these up, and update the same rows."""
    shape = rows, _WIDTH
    tables = [ef.Variable(np.ones(shape, "f4"), device=f"ps:{i}") for i in range(ps)]
    draw = np.random.default_rng(0)

    def step_of(worker: int) -> Step:
        @ef.trace
        def step(which: Any) -> Any:
            taken = []
            for i, table in enumerate(tables):
                with ef.device(f"ps:{i}"):
                    taken.append(ef.take(table, which, axis=0))
            with ef.device(f"worker:{worker}"):
                total = taken[0]
                for one in taken[1:]:
                    total = total + one
            for i, table in enumerate(tables):
                with ef.device(f"ps:{i}"):
                    table.scatter_add(which, total * 0.0)
            return total.sum()

        return lambda: step(ef.tensor(draw.integers(0, rows, _ROWS)))

    return [step_of(worker) for worker in range(workers)]


def seconds_of(step: Step, count: int, want: float, every: bool = False) -> list[float]:
    """Times of a worker's steps; the result of the last one is checked, or of every one."""
    seconds = []
    for i in range(count):
        begin = perf_counter()
        total = step()
        seconds.append(perf_counter() - begin)
        if every or i == count - 1:
            assert total.item() == want, (total.item(), want)
    return seconds


def row(
    name: str, steps: list[Step], count: int, want: float, cluster: Any, *, every: bool = False
) -> float:
    """Print a row of the table; gives the median in seconds."""
    with ThreadPoolExecutor(len(steps)) as pool:
        list(pool.map(lambda step: seconds_of(step, 1 + count // 4, want, every), steps))
        before = {name: task.processor for name, task in cluster.tasks.items()}
        begun = process_time()
        times = list(pool.map(lambda step: seconds_of(step, count, want, every), steps))
    client = (process_time() - begun) / count * 1e3
    used = {n: (t.processor - before[n]) / count * 1e3 for n, t in cluster.tasks.items()}
    seconds = np.array(times).reshape(-1)
    low, middle, high = np.percentile(seconds * 1e3, [10, 50, 90])
    mean = {job: np.mean([v for n, v in used.items() if n.startswith(job)]) for job in ("w", "ps")}
    print(
        f"| {name} | {middle:.2f} | {low:.2f} | {high:.2f} | {client:.2f} | {mean['w']:.2f} "
        f"| {mean['ps']:.2f} |"
    )
    return float(middle) / 1e3


def copied_and_added(size: int) -> float:
    """Seconds in which this process copies a number of bytes, and adds them up."""
    data, there = np.ones(size // 4, "f4"), np.zeros(size // 4, "f4")
    best = float("inf")
    for _ in range(3):
        begin = perf_counter()
        np.copyto(there, data)
        there.sum()
        best = min(best, perf_counter() - begin)
    return best


def main() -> None:
    """Print a table."""
    parser = arguments("Null steps over task servers")
    parser.add_argument("--ps", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--transport", choices=("ipc", "plain tcp", "tcp"), default="ipc")
    parser.add_argument("--tensorflow", action="store_true", help="TensorFlow's as well")
    options = parser.parse_args()
    ps, steps, size = options.ps, options.steps, _DENSE
    if options.smallest:
        ps, steps, size = 1, 3, 1_000
    workers = options.workers
    kinds = [kind for kind in KINDS if options.only in kind]
    jobs = {"worker": workers, "ps": ps}
    with ef.cluster.local(jobs, transport=options.transport) as cluster:
        print(f"{workers} workers, {ps} ps, {options.transport}\n")
        print("| null step | median ms | p10 | p90 | processor ms: client | a worker | a ps |")
        print("|---|---|---|---|---|---|---|")
        notes = []
        if "scalar" in kinds:
            row("scalar", scalar_steps(ps, workers), steps, ps, cluster)
        if "dense" in kinds:
            want = size // 4 // ps * ps
            some = 1 + steps // 20
            for name, made in (
                ("dense", dense_steps(ps, workers, size)),
                ("dense, and assigned", assigning_steps(ps, size)),
            ):
                before = copied_and_added(size)
                middle = row(name, made, some, want, cluster, every=True)
                here = (before + copied_and_added(size)) / 2
                speeds = f"{size / middle / 1e9:.2f} GB/s; here {size / here / 1e9:.2f} GB/s"
                notes.append(f"{name}: {speeds}, so {here / middle:.2f}")
        if "sparse" in kinds:
            for rows in (1_000, 8_000, 64_000) if steps > 3 else (10,):
                name = f"sparse, {rows:,} rows a ps"
                row(name, sparse_steps(ps, workers, rows), steps, _ROWS * _WIDTH * ps, cluster)
    print("", *notes, sep="\n")
    if options.tensorflow:
        tensorflow_steps.print_rows(ps, workers, steps, kinds, size)


if __name__ == "__main__":
    main()
