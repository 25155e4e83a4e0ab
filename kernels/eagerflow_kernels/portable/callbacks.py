"""Kernels of the ops that call Python: the resource is what is called, with the arrays."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import portable

__all__: list[str] = []

Array = Any  # of whatever namespace xp is


@portable("py_call")
def py_call(xp: Any, *args: Array, resource: Any) -> tuple[Array, ...]:
    """Call it; it gives a tuple of arrays."""
    return tuple(resource(args))


@portable("print")
def print_(xp: Any, *args: Array, resource: Any) -> tuple[Array, ...]:
    """Call it; it gives nothing."""
    return tuple(resource(args))
