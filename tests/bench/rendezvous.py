"""Cost of handing a value from one partition to another within a process.

Measured are pairs of one send and one receive, keys included, in one thread on one core: the time
of the process, in the shortest of some runs. A transfer between two partitions may take 15 us in
all, with the nodes of the scheduler that send and receive; the rendezvous has 3 us of that.

Run: ``python -m tests.bench.rendezvous``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import process_time
from typing import Any, Final

import numpy as np

from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.bench.harness import arguments

PAIRS: Final = 20_000
EDGE: Final = "y -> cpu:1"
ROUTES: Final = {EDGE: Route("cpu:0", "cpu:1")}
VALUE: Final = np.ones(4, np.float32)


def _done(value: Any, dead: bool, error: Exception | None) -> None:
    pass


def _sent(error: Exception | None) -> None:
    pass


def value_first(pairs: int) -> None:
    meeting = Rendezvous(1, ROUTES)
    for i in range(pairs):
        meeting.send(Key(1, EDGE, (("while_loop", i),)), VALUE, sent=_sent)
        meeting.receive(Key(1, EDGE, (("while_loop", i),)), _done)
    assert meeting.end() == []


def receiver_first(pairs: int) -> None:
    meeting = Rendezvous(1, ROUTES)
    for i in range(pairs):
        meeting.receive(Key(1, EDGE, (("while_loop", i),)), _done)
        meeting.send(Key(1, EDGE, (("while_loop", i),)), VALUE, sent=_sent)
    assert meeting.end() == []


def far_ahead(pairs: int) -> None:
    """All values are sent before the first is received, so most senders wait for credit."""
    meeting = Rendezvous(1, ROUTES)
    for i in range(pairs):
        meeting.send(Key(1, EDGE, (("while_loop", i),)), VALUE, sent=_sent)
    for i in range(pairs):
        meeting.receive(Key(1, EDGE, (("while_loop", i),)), _done)
    assert meeting.end() == []


def steps(pairs: int) -> None:
    """Each pair is in a step of its own, outside of loops."""
    for i in range(pairs):
        meeting = Rendezvous(i, ROUTES)
        meeting.send(Key(i, EDGE), VALUE, sent=_sent)
        meeting.receive(Key(i, EDGE), _done)
        meeting.end()


def seconds(work: Callable[[int], None], pairs: int, repeat: int) -> float:
    """Seconds of one pair."""
    times = []
    for _ in range(repeat):
        begin = process_time()
        work(pairs)
        times.append(process_time() - begin)
    return min(times) / pairs


def main() -> None:
    """Print a table."""
    smallest = arguments("Rendezvous").parse_args().smallest
    pairs, repeat = (100, 1) if smallest else (PAIRS, 15)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| one send and one receive | us |\n|---|---|")
    rows = {
        "the value first": value_first, "the receiver first": receiver_first,
        "all values first": far_ahead, "a step for each": steps,
    }  # fmt: skip
    for name, work in rows.items():
        print(f"| {name} | {seconds(work, pairs, repeat) * 1e6:.2f} |")


if __name__ == "__main__":
    main()
