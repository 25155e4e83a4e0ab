"""Advice below the tables of a profile, where they show that a setting would help."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from eagerflow import settings
from eagerflow.core.op import find_op
from eagerflow.core.op_records.cost_formulas import product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagerflow.profiling.outside_statistics import OutsideStatistics
    from eagerflow.profiling.profiles import OpStatistics

#: the share of all ops that products take, and their mean seconds, from which and up to which the
#: number of threads is of interest
_SHARE: Final = 0.2
_SMALL: Final = 2e-3
#: calls from which a median says something, and the share of all ops from which the time beyond
#: medians is told of
_CALLS: Final = 3
_MORE: Final = 0.25
#: the ops of one element, and the share of their function outside of ops, from which it is of
#: interest that it runs single ops
_OPS: Final = 20
_OUTSIDE: Final = 0.1
#: seconds of Python's code around an op, and the fraction of the function's time that they must be
_OF_OP: Final = 2e-5
_MOST: Final = 0.3


def advice(
    rows: Sequence[OpStatistics], parts: Sequence[OutsideStatistics] = ()
) -> list[str]:  # fmt: skip
    """The lines of advice.

    Args:
        rows: of the ops.
        parts: of the time outside of ops.
    """
    return [*_on_loops(parts), *_on_busy_machine(rows)]


def _on_loops(parts: Sequence[OutsideStatistics]) -> list[str]:
    """Advice on functions of pipelines that run many ops, each of which takes far longer in Python.

    So does a loop over the elements of a tensor.
    """
    return [
        f"hint: {part.name}{f' at {part.place}' if part.place else ''} runs "
        f"{part.ops // part.calls} ops for each element, each with more time in Python than in "
        "its kernel: if it loops over a tensor x, loop over x.numpy() or x.tolist() instead"
        for part in parts
        if part.kind == "call"
        and part.share >= _OUTSIDE
        and part.ops >= _OPS * part.calls > 0
        and part.ops * _OF_OP >= _MOST * part.total
    ]


def _on_busy_machine(rows: Sequence[OpStatistics]) -> list[str]:
    """Advice on a machine where more programs run than it has processors."""
    cores, load = _cores(), _load()
    if load <= cores:
        return []
    busy = f"hint: this machine is busy (load {load:.0f} on {cores} processors)"
    hints = []
    if _are_interrupted(rows):
        hints.append(
            f"{busy}, and totals include the time in which other programs ran: medians hardly do"
        )
    if cores > 1 and settings.current().threads is None and _share_products(rows):
        hints.append(
            f"{busy}, and threads that share small products wait for each other: try "
            "ef.config(threads=1)"
        )
    return hints


def _are_interrupted(rows: Sequence[OpStatistics]) -> bool:
    """Whether single calls took much of the time: more than all calls together by their median.

    Calls of one op may also differ by their sizes, so this is asked on a busy machine alone. The
    time of operations on queues is that of their waits.
    """
    busy = [row for row in rows if not _waits(row)]
    more = [row.total - row.calls * row.median for row in busy if row.calls >= _CALLS]
    return sum(more) > _MORE * sum(row.total for row in busy) > 0.0


def _waits(row: OpStatistics) -> bool:
    op = find_op(row.name)
    return op is not None and op.effect == "blocks"


def _share_products(rows: Sequence[OpStatistics]) -> bool:
    """Whether small products take much of the time.

    Small products on several threads are slow where other programs run: the threads of the linear
    algebra library wait for each other, and each may have to wait for a processor first.
    """
    products = [row for row in rows if _is_product(row)]
    if sum(row.share for row in products) < _SHARE:
        return False
    return sum(row.total for row in products) <= _SMALL * sum(row.calls for row in products)


def _is_product(row: OpStatistics) -> bool:
    op = find_op(row.name)
    return op is not None and op.cost is product and row.device.startswith("cpu")


def _cores() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load() -> float:
    """The mean number of programs that ran, or waited for a processor, in the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
