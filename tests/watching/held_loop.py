"""A thread that is held within an iteration of a loop of a graph, for tests that look at it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import eagerflow as ef


@contextmanager
def held_loop(iteration: int) -> Iterator[threading.Thread]:
    """A thread that is held in an iteration of a loop until the block ends."""
    inside, go, begun = threading.Event(), threading.Event(), 0

    def hold(x):
        nonlocal begun
        begun += 1
        if begun > iteration:
            inside.set()
            assert go.wait(60)
        return x

    @ef.trace
    def f(x):
        def body(i, y):
            return i + 1, ef.py_call(hold, "f32[2]", y)

        return ef.while_loop(lambda i, y: i < iteration + 2, body, (0, x))[1]

    f.graph(ef.ones(2))
    thread = threading.Thread(target=f, args=(ef.ones(2),))
    thread.start()
    assert inside.wait(60)
    try:
        yield thread
    finally:
        go.set()
        thread.join()
