"""Cost of watching: steps with everything watched relative to steps with nothing watched.

In one process, in rounds of three blocks in random order: two with nothing watched, and one
watched. One row for each program, watched over the mean of the others, and beside it the ratio of
the others to each other (A/A), which says how far such a figure can be trusted: if its median is
off by more than 1 %, the run is void. Figures are medians over the rounds with a 95 % interval
(from resampling the rounds), of processor time, in which other programs do not count and the
thread of the watcher does, and of wall-clock time. A median is blind to what is rare, so the
ratio of the sums of all rounds is shown, too: more rounds, not longer blocks, make it surer.

Watched: a watcher with a view connected that asks for a value in each block. The first quarter of
a block, with the watcher's first message, is not timed, nor is that of the other blocks.

With ``--counts`` no time is taken, so that a busy machine gives the same figures: calls of
Python and of C in a step, memory blocks that a step leaves, events that it emits, and calls of one
look.

Run: ``python -m tests.bench.watching``.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from time import perf_counter, process_time
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.watching import Watcher
from eagerflow.watching.observed_steps import Observed
from tests.bench.harness import arguments
from tests.bench.steps import with_eagerflow

Step = Callable[[], Any]
Block = tuple[float, float]
#: the place of the watched block in a round
_WATCHED = 2
#: distance of the median of A/A from 1 beyond which a run is void
_FAIR = 0.01


class View:
    """The other end of a line without a front-end: it acknowledges, and counts."""

    def __init__(self) -> None:
        self.count = self.nbytes = 0
        self.heard: Callable[[dict[str, Any]], None] = lambda message: None

    def on_msg(self, callback: Callable[[dict[str, Any]], None]) -> None:
        self.heard = callback

    def send(self, data: dict[str, Any], *, buffers: list[bytes]) -> None:
        self.count += 1
        self.nbytes += sum(map(len, buffers))
        self.heard({"content": {"data": {"ack": data["sequence"]}}})

    def close(self) -> None:
        pass


# --- programs ------------------------------------------------------------------------------------


def tiny(count: int) -> Step:
    """Ops on eight numbers."""

    @ef.trace
    def ops(x: ef.Tensor) -> ef.Tensor:
        for i in range(count):
            x = x * 1.0001 if i % 2 else x - 0.1
        return x

    x = ef.zeros(8)
    return lambda: ops(x)


def lstm(times: int, batch: int, hidden: int) -> Step:
    """A training step of an LSTM, written as a loop."""
    return with_eagerflow.lstm(times, batch, 28, hidden, "loop")


@contextmanager
def pipeline() -> Iterator[Step]:
    """Batches from a runner through a queue to a training step."""
    draws = np.random.default_rng(0)
    rows = ef.tensor(draws.normal(size=(4096, 64)).astype("f4"))
    batches = ef.Queue(4, "f32[64,64]", name="batches")
    w = ef.Variable(draws.normal(size=(64, 64)).astype("f4") * 0.1)
    places = ef.Variable(0)

    @ef.trace
    def read() -> None:
        at = places.value
        places.assign((at + 64) % 4032)
        picked = ef.take(rows, at + ef.arange(64), axis=0)
        batches.enqueue(ef.sin(picked) * 0.5)

    loss = ef.value_and_grad(lambda x: (ef.tanh(ef.tanh(x @ w) @ w) ** 2).mean(), wrt=[w])

    @ef.trace
    def train() -> ef.Tensor:
        x = batches.dequeue()
        error, (dw,) = loss(x)
        for _ in range(4):
            more, (dv,) = loss(x)
            error, dw = error + more, dw + dv
        w.assign_sub(0.01 * dw)
        return error

    with ef.spawn(read):
        yield train
        batches.close(cancel_pending=True)


@contextmanager
def plain(step: Step) -> Iterator[Step]:
    yield step


def programs(smallest: bool) -> Iterator[tuple[str, Any]]:
    """The programs' names, each with a context manager that yields the step."""
    sizes = [(8, 16)] if smallest else [(32, 128), (128, 512), (512, 1024)]
    for batch, hidden in sizes:
        name = f"MLP, batch {batch}, hidden {hidden}"
        yield name, lambda b=batch, h=hidden: plain(with_eagerflow.mlp(b, h, traced=True))
    recurrent = (3, 4, 8) if smallest else (28, 32, 64)
    yield "LSTM", lambda: plain(lstm(*recurrent))
    count = 20 if smallest else 200
    yield f"{count} tiny ops", lambda: plain(tiny(count))
    yield "pipeline", pipeline


# --- measuring -----------------------------------------------------------------------------------


def block(step: Step, count: int) -> Block:
    """Processor seconds and wall-clock seconds of one step."""
    for _ in range(max(count // 3, 1)):
        step()
    wall, work = perf_counter(), process_time()
    for _ in range(count):
        step()
    return (process_time() - work) / count, (perf_counter() - wall) / count


def rounds_of(step: Step, count: int, rounds: int, watcher: Watcher) -> list[list[Block]]:
    """For each round the times of a step unwatched, unwatched again, and watched."""
    draws, measured, closed = Random(0), [], perf_counter()
    for _ in range(rounds):
        times: list[Block] = [(0.0, 0.0)] * 3
        for what in draws.sample(range(3), 3):
            if what == _WATCHED:
                for number, observed in watcher.observer.executables.items():
                    watcher.observer.look_at(number, shown(observed))
                    put_off(observed, perf_counter() - closed)
                with watcher:
                    times[what] = block(step, count)
                closed = perf_counter()
            else:
                times[what] = block(step, count)
        measured.append(times)
    return measured


def shown(observed: Observed) -> int:
    """The number of a node with a value."""
    return next(i for i, node in enumerate(observed.index.nodes) if node.op != "constant")


def put_off(observed: Observed, seconds: float) -> None:
    """Let the time in which nothing was watched not count as a pause between observed steps."""
    observed.next += seconds
    observed.check = observed.check[0] + seconds, observed.check[1]


def ratios(measured: list[list[Block]], clock: int, watched: bool) -> list[float]:
    """For each round watched over unwatched, or A/A, by processor time (0) or wall clock (1)."""
    times = [[block[clock] for block in blocks] for blocks in measured]
    return [2 * c / (a + b) if watched else b / a for a, b, c in times]


def whole(measured: list[list[Block]], watched: bool) -> float:
    """The same of the sums of all rounds, by processor time."""
    a, b, c = (sum(blocks[what][0] for blocks in measured) for what in range(3))
    return 2 * c / (a + b) if watched else b / a


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and the bounds of its 95 % interval, from resampled rounds."""
    draws = np.random.default_rng(0)
    resampled = np.median(draws.choice(values, (2000, len(values))), axis=1)
    low, high = np.percentile(resampled, (2.5, 97.5)).tolist()
    return statistics.median(values), low, high


def main() -> None:
    parser = arguments("What looking costs")
    parser.set_defaults(rounds=60)
    parser.add_argument("--counts", action="store_true", help="calls and blocks, no times")
    parser.add_argument("--block", type=float, default=0.4, help="seconds of a block")
    options = parser.parse_args()
    rounds, seconds = (2, 0.0) if options.smallest else (options.rounds, options.block)
    if options.counts or options.smallest:
        print(
            "| program | calls | watched | after | blocks | watched | after | events | of a look |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for name, make in programs(options.smallest):
            if options.only in name:
                with make() as step:
                    print(counts_row(name, step), flush=True)
        if options.counts:
            return
    print(
        "| program | step | rounds | processor, 95 % | of sums | passing time, 95 % | "
        "messages/s | kB/s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for name, make in programs(options.smallest):
        if options.only in name:
            with make() as step:
                rows += measure(name, step, rounds, seconds)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


# --- counting ------------------------------------------------------------------------------------


def calls_of(run: Callable[[], Any]) -> int:
    """Number of calls of Python and of C in this thread."""
    count = 0

    def note(frame: Any, event: str, given: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count - 2  # of `run` itself, and of the end of this


def blocks_of(step: Step, steps: int) -> float:
    """Number of Python's memory blocks that a step leaves."""
    for _ in range(steps):
        step()
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        for _ in range(steps):
            step()
        return (sys.getallocatedblocks() - before) / steps
    finally:
        gc.enable()


def counts_row(name: str, step: Step, steps: int = 20) -> str:
    """Cost of watching a step, in numbers that do not depend on the machine's load."""
    for _ in range(steps):
        step()
    alone = min(calls_of(step) for _ in range(5)), blocks_of(step, steps)
    watcher, view = Watcher(), View()
    watcher._run = lambda: None
    connection = watcher.connect(view)
    with watcher:
        watched = min(calls_of(step) for _ in range(5)), blocks_of(step, steps)
        watcher.collect()
        before = watcher.log.told + watcher.activity.told
        for _ in range(steps):
            step()
        watcher.collect()
        events = (watcher.log.told + watcher.activity.told - before) / steps
        for _ in range(3):  # the first messages send the structure
            look(watcher)
        step()
        looked = calls_of(lambda: look(watcher))
    watcher.disconnect(connection)
    after = min(calls_of(step) for _ in range(5)), blocks_of(step, steps)
    return (  # faster code may have been written meanwhile: so it is asked before and after
        f"| {name} | {alone[0]} | {watched[0]} | {after[0]} | {alone[1]:.1f} | {watched[1]:.1f} | "
        f"{after[1]:.1f} | {events:.1f} | {looked} |"
    )


def look(watcher: Watcher) -> None:
    """The work that the watcher's thread does ten times a second."""
    now = perf_counter()
    watcher.look(now)
    watcher.tell(now)


def warm_up(step: Step, count: int, watcher: Watcher, most: float) -> None:
    """Run until one-time work is done: both kinds of observing code are written."""
    begin = perf_counter()
    while perf_counter() - begin < most:
        block(step, count)
        for number, observed in watcher.observer.executables.items():
            if not observed.values:
                watcher.observer.look_at(number, shown(observed))
        known = list(watcher.observer.executables.values())
        if known and all(o.values and o.costs.steps for o in known):
            break


def measure(name: str, step: Step, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """The rows of a program: A/A, and watched."""
    for _ in range(30):
        step()
    watcher, view, rows = Watcher(), View(), []
    connection = watcher.connect(view)
    with watcher:
        warm_up(step, 10, watcher, 40.0 if seconds else 0.0)
    settled = perf_counter() + 3 * seconds
    while perf_counter() < settled:  # native code comes after some steps
        step()
    _, once = block(step, 10)
    _, once = block(step, max(int(seconds / once / 4), 10) if seconds else 2)
    count = max(int(seconds / once), 2)
    gc.collect()
    before, start = (view.count, view.nbytes), perf_counter()
    seen, spent = observed_steps(watcher), watcher.observer.duty.spent
    measured = rounds_of(step, count, rounds, watcher)
    passed = (perf_counter() - start) / 3
    for title, watched in (("A/A", False), ("watched", True)):
        work, wall = (interval(ratios(measured, clock, watched)) for clock in (0, 1))
        sent = (view.count - before[0]) / passed, (view.nbytes - before[1]) / passed / 1000
        sums, show = whole(measured, watched), "{:.3f} ({:.3f} to {:.3f})".format
        messages = f"{sent[0]:.1f} | {sent[1]:.1f}" if watched else " | "
        void = " (void)" if not watched and abs(work[0] - 1) > _FAIR else ""
        print(
            f"| {name}, {title}{void} | {once * 1e3:.3f} ms | {rounds} | {show(*work)} | "
            f"{sums:.3f} | {show(*wall)} | {messages} |",
            flush=True,
        )
        rows.append({"program": name, "what": title, "processor": work, "passing": wall,
                     "of sums": sums, "seconds": once, "messages": sent[0],
                     "kilobytes": sent[1]})  # fmt: skip
    watcher.disconnect(connection)
    seen, spent = observed_steps(watcher) - seen, watcher.observer.duty.spent - spent
    print(f"in {passed:.0f} s: {seen} observed steps; by its own account {spent / passed:.2%}")
    return rows


def observed_steps(watcher: Watcher) -> int:
    """Number of steps that were observed so far."""
    return sum(o.count for o in watcher.observer.executables.values())


if __name__ == "__main__":
    main()
