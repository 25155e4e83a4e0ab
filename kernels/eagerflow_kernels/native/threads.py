"""One call of a function of NumPy by several threads, each with some of the rows.

Rows are independent of each other, so the bits do not depend on how they are shared out. The parts
of a call lie ready for whoever comes first, the thread that calls among them: if no other one is
awake in time, it does all of them itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, Final, final

import numpy as np

#: seconds after which a thread that has nothing to do ends
_IDLE: Final = 0.5
#: parts for each thread, so that one that is held up holds up less
_PARTS: Final = 2

Array = np.ndarray[Any, Any]


@final
class _Parts:
    """The parts of one call."""

    __slots__ = ("_done", "_error", "_left", "_lock", "_next")

    def __init__(self, parts: list[Callable[[], Any]]) -> None:
        self._next = iter(parts)  # hands out each part once, to whatever thread asks
        self._left = len(parts)
        self._lock, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()
        self._error: BaseException | None = None

    def work(self) -> None:
        """Run parts as long as there are some."""
        for part in self._next:
            try:
                part()
            except BaseException as error:
                self._error = error
            with self._lock:
                self._left -= 1
                if not self._left:
                    self._done.release()

    def wait(self) -> None:
        """Wait until all have run, and raise what one raised."""
        with self._done:
            pass
        if self._error is not None:
            raise self._error


@final
class _Pool:
    """Threads that work on calls; they end when there is nothing to do."""

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Have no threads: they do not survive a fork."""
        self._lock = threading.Lock()
        self._calls: SimpleQueue[_Parts] = SimpleQueue()
        self._count = 0

    def ask(self, call: _Parts, helpers: int) -> None:
        """Let so many threads work on a call."""
        with self._lock:
            missing = helpers - self._count
            for _ in range(missing):
                threading.Thread(target=self._work, name="eagerflow-native", daemon=True).start()
                self._count += 1
        for _ in range(helpers):
            self._calls.put(call)

    def _work(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._calls.empty():
                        self._count -= 1
                        return
                continue
            call.work()
            del call  # while it waits, a thread holds no arrays


_pool: Final = _Pool()


def call_split(ufunc: np.ufunc, arrays: Sequence[Any], threads: int) -> Any:
    """The results of a call, of which threads compute some rows each.

    Args:
        ufunc: elementwise, or along a last axis.
        arrays: its inputs.
        threads: how many may work, the one that calls among them.
    """
    inner = [core == "(n)" for core in _cores(ufunc)]
    given = [np.asarray(x) for x in arrays]
    pairs = list(zip(given, inner[: ufunc.nin], strict=True))
    shape = np.broadcast_shapes(*(x.shape[:-1] if i else x.shape for x, i in pairs))
    axis = max(range(len(shape)), key=lambda a: shape[a], default=-1)
    if axis < 0 or shape[axis] < 2:
        return ufunc(*given)
    full = [np.broadcast_to(x, (*shape, x.shape[-1]) if i else shape) for x, i in pairs]
    outputs = _outputs(ufunc, full, inner, shape)
    count = min(_PARTS * threads, shape[axis])
    bounds = [shape[axis] * part // count for part in range(count + 1)]
    call = _Parts([_part(ufunc, full, outputs, axis, *pair) for pair in pairwise(bounds)])
    _pool.ask(call, threads - 1)
    call.work()
    call.wait()
    results = tuple(x if x.ndim else x[()] for x in outputs)
    return results if len(results) > 1 else results[0]


def _part(
    ufunc: np.ufunc, full: list[Array], outputs: list[Array], axis: int, first: int, last: int
) -> Callable[[], Any]:
    """What computes some of the rows."""
    place = (*(slice(None),) * axis, slice(first, last))
    given = [x[place] for x in full]
    out = tuple(x[place] for x in outputs)
    return lambda: ufunc(*given, out=out)


def _cores(ufunc: np.ufunc) -> list[str]:
    """For each array "(n)" if it has the inner axis, else "()"."""
    if ufunc.signature is None:
        return ["()"] * ufunc.nargs
    inputs, outputs = ufunc.signature.split("->")
    return [*inputs.split(","), *outputs.split(",")]


def _outputs(
    ufunc: np.ufunc, full: list[Array], inner: list[bool], shape: tuple[int, ...]
) -> list[Array]:
    """New arrays for the results."""
    length = next((x.shape[-1] for x, i in zip(full, inner, strict=False) if i), 0)
    dtypes = ufunc.types[0].partition("->")[2]
    return [
        np.empty((*shape, length) if i else shape, code)
        for code, i in zip(dtypes, inner[ufunc.nin :], strict=True)
    ]
