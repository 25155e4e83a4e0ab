"""Advice below the tables of a profile, where they show that a setting would help."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from eagerflow import settings
from eagerflow.core.op import find_op
from eagerflow.core.op_records.cost_formulas import product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagerflow.profiling.profiles import OpStatistics

#: the share of all ops that products take, and their mean seconds, from which and up to which the
#: number of threads is of interest
_SHARE: Final = 0.2
_SMALL: Final = 2e-3


def advice(rows: Sequence[OpStatistics]) -> list[str]:
    """The lines of advice.

    Small products on several threads are slow where other programs run: the threads of the linear
    algebra library wait for each other, and each may have to wait for a processor first.

    Args:
        rows: of the ops.
    """
    cores, load = _cores(), _load()
    if settings.current().threads is not None or cores < 2 or load <= cores:
        return []
    products = [row for row in rows if _is_product(row)]
    calls = sum(row.calls for row in products)
    if sum(row.share for row in products) < _SHARE:
        return []
    mean = sum(row.total for row in products) / calls
    if mean > _SMALL:
        return []
    return [
        f"hint: this machine is busy (load {load:.0f} on {cores} processors), and threads that "
        "share small products wait for each other: try ef.config(threads=1)"
    ]


def _is_product(row: OpStatistics) -> bool:
    op = find_op(row.name)
    return op is not None and op.cost is product and row.device.startswith("cpu")


def _cores() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load() -> float:
    """The mean number of programs that ran, or waited for a processor, in the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
