"""Kernels of mutexes."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.portable.waiting import Finish, scalar, waits
from eagerflow_kernels.table import Array, portable


@waits("mutex_acquire")
def mutex_acquire(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """Wait until a mutex is free, and hold it; the result is the number of the hold."""
    return resource.acquire(), lambda hold: (scalar(xp, hold),)


@portable("mutex_release")
def mutex_release(xp: Any, hold: Array, *, resource: Any) -> tuple[Array, ...]:
    """Release a hold, and let the next waiter acquire the mutex."""
    resource.release(int(hold))
    return ()
