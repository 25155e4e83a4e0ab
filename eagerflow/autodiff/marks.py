"""The notes of differentiators on values.

A handle carries the notes on the value that it holds: a linked list of `Mark`s, the innermost
interpreter's first. They move with the value when a handle gets another one, so ``x[i] = v`` and
``x += v`` are plain ops. The owner of a note is told by a weak reference, so a value that outlives
its tape keeps neither the tape nor its records.
"""

from __future__ import annotations

import threading
from typing import Any, Final
from weakref import ref

from eagerflow.core.tensor import Mark, Tensor

__all__ = ["Owner", "attach", "find", "strip"]

Owner = ref[Any]

_lock: Final = threading.Lock()


def find(mark: Mark | None, owner: Owner) -> Any:
    """The last note of ``owner``, None if there is none."""
    while mark is not None:
        if mark[0] is owner:
            return mark[1]
        mark = mark[2]
    return None


def attach(x: Tensor, owner: Owner, note: Any) -> None:
    """Set a note on a value that other threads may hold, in place of earlier notes.

    Notes of interpreters that are gone are dropped, or a handle that lives long would collect them.
    """
    with _lock:
        x._mark = (owner, note, _without(x._mark, owner))


def strip(x: Tensor, owner: Owner) -> None:
    """Drop the notes of ``owner`` on a value."""
    with _lock:
        x._mark = _without(x._mark, owner)


def _without(mark: Mark | None, owner: Owner) -> Mark | None:
    """The notes of all others that still exist."""
    if mark is None:
        return None
    rest = _without(mark[2], owner)
    if mark[0] is owner or mark[0]() is None:
        return rest
    return mark if rest is mark[2] else (mark[0], mark[1], rest)
