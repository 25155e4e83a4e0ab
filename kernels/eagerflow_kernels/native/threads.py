"""One call of a function of NumPy by several threads, each with some of the rows.

Rows are independent of each other, so the bits do not depend on how they are shared out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

_lock: Final = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_size = 0
_mine: Final = threading.local()  # `busy` in threads of the pool: they wait for nobody


def _executor(threads: int) -> ThreadPoolExecutor:
    global _pool, _size
    with _lock:
        if _pool is None or _size < threads:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(threads, "eagerflow-native", initializer=_enter)
            _size = threads
        return _pool


def _enter() -> None:
    _mine.busy = True


def _forget() -> None:
    """In a child made by fork, in which none of the threads is."""
    global _pool, _size, _lock
    _pool, _size = None, 0
    _lock = threading.Lock()  # type: ignore[misc]  # somebody may have held it


os.register_at_fork(after_in_child=_forget)


def call_split(ufunc: np.ufunc, arrays: Sequence[Any], threads: int) -> Any:
    """The results of a call, of which threads compute a part each.

    Args:
        ufunc: elementwise, or along a last axis.
        arrays: its inputs.
        threads: how many parts; the calling thread computes one of them.
    """
    arrays = [np.asarray(x) for x in arrays]
    inner = [core == "(n)" for core in _cores(ufunc)]
    shape = np.broadcast_shapes(
        *(x.shape[:-1] if i else x.shape for x, i in zip(arrays, inner[: ufunc.nin], strict=True))
    )
    axis = max(range(len(shape)), key=lambda a: shape[a], default=None)
    if axis is None or shape[axis] < 2 or getattr(_mine, "busy", False):
        return ufunc(*arrays)
    full = [
        np.broadcast_to(x, (*shape, x.shape[-1]) if i else shape)
        for x, i in zip(arrays, inner[: ufunc.nin], strict=True)
    ]
    outputs = _outputs(ufunc, full, inner, shape)
    count = min(threads, shape[axis])
    bounds = [shape[axis] * part // count for part in range(count + 1)]

    def part(first: int, last: int) -> Callable[[], Any]:
        place = (*(slice(None),) * axis, slice(first, last))
        given = [x[place] for x in full]
        out = tuple(x[place] for x in outputs)
        return lambda: ufunc(*given, out=out)

    parts = [part(*pair) for pair in zip(bounds[:-1], bounds[1:], strict=True)]
    pool = _executor(threads)
    others = [pool.submit(run) for run in parts[1:]]
    try:
        parts[0]()
    finally:
        for other in others:
            other.result()
    results = tuple(x if x.ndim else x[()] for x in outputs)
    return results if len(results) > 1 else results[0]


def _cores(ufunc: np.ufunc) -> list[str]:
    """For each array "(n)" if it has the inner axis, else "()"."""
    if ufunc.signature is None:
        return ["()"] * ufunc.nargs
    inputs, outputs = ufunc.signature.split("->")
    return [*inputs.split(","), *outputs.split(",")]


def _outputs(
    ufunc: np.ufunc, full: list[Any], inner: list[bool], shape: tuple[int, ...]
) -> list[np.ndarray[Any, Any]]:
    length = next((x.shape[-1] for x, i in zip(full, inner, strict=False) if i), 0)
    dtypes = ufunc.types[0].partition("->")[2]
    return [
        np.empty((*shape, length) if i else shape, code)
        for code, i in zip(dtypes, inner[ufunc.nin :], strict=True)
    ]
