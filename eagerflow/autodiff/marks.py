"""Marks: the notes of interpreters on a value, which its handle carries.

A handle's notes are a linked list of `Mark`s, the innermost interpreter's first. They move with the
value when a handle gets another value, so `x[i] = v` and `x += v` are plain ops. A note refers to
its owner weakly, so a value that outlives its tape keeps neither the tape nor its records alive.
"""

from __future__ import annotations

import threading
from typing import Any, Final
from weakref import ref

from eagerflow.core.tensor import Mark, Tensor

Owner = ref[Any]

_lock: Final = threading.Lock()


def find(mark: Mark | None, owner: Owner) -> Any:
    """The last note of ``owner`` on a value, or None."""
    while mark is not None:
        if mark[0] is owner:
            return mark[1]
        mark = mark[2]
    return None


def attach(x: Tensor, owner: Owner, note: Any) -> None:
    """Set a note on a value that other threads may hold; replaces earlier notes of ``owner``.

    Notes of dead interpreters are dropped; else long-lived handles would accumulate them.
    """
    with _lock:
        x._mark = (owner, note, _without(x._mark, owner))


def strip(x: Tensor, owner: Owner) -> None:
    """Drop the notes of ``owner`` on a value."""
    with _lock:
        x._mark = _without(x._mark, owner)


def _without(mark: Mark | None, owner: Owner) -> Mark | None:
    """The notes without those of ``owner`` and of dead interpreters."""
    if mark is None:
        return None
    rest = _without(mark[2], owner)
    if mark[0] is owner or mark[0]() is None:
        return rest
    return mark if rest is mark[2] else (mark[0], mark[1], rest)
