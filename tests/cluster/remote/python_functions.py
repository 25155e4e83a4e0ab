"""Functions that clients may call at a task, and a function beside them that they may not."""

from __future__ import annotations

import ctypes
import os
import sys

import eagerflow as ef


def process(x: ef.Tensor) -> ef.Tensor:
    """The number of the process that it runs in, for each element."""
    return ef.zeros(x.shape, ef.int64) + os.getpid()


def both(x: ef.Tensor, y: ef.Tensor) -> tuple[ef.Tensor, ef.Tensor]:
    """Two results."""
    return x + y, (x * y).sum()


def positive(x: ef.Tensor) -> ef.Tensor:
    """As many results as there are positive elements."""
    return x[x > 0]


def tell(x: ef.Tensor) -> None:
    """Nothing but a line."""
    print("told", x.tolist())


def tells_much(x: ef.Tensor) -> ef.Tensor:
    """As many lines as there are elements."""
    for i in range(x.size):
        print("line", i)
    sys.stderr.write("not ended")
    return x


def fails(x: ef.Tensor) -> ef.Tensor:
    """An error."""
    raise LookupError("not here")


def holds_the_gil(seconds: ef.Tensor) -> ef.Tensor:
    """The same, after so many whole seconds in which no other thread of the process runs Python."""
    ctypes.PyDLL(None).sleep(int(seconds.item()))
    return seconds


def unlisted(x: ef.Tensor) -> ef.Tensor:
    """Runs in the process of the client."""
    return process(x)
