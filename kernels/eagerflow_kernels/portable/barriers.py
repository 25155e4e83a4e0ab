"""Kernels of barriers."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.portable.elements import check_shapes, stacked
from eagerflow_kernels.portable.waiting import Finish, count_of, register_answers, waits
from eagerflow_kernels.table import Array, portable


@portable("barrier_insert_many")
def barrier_insert_many(
    xp: Any, keys: Array, values: Array, *, resource: Any, component: int
) -> tuple[Array, ...]:
    """Insert one component of several elements."""
    if keys.shape != values.shape[:1]:
        raise ValueError("there are as many keys as values")
    check_shapes(resource.types[component : component + 1], (values,), 1)
    resource.insert_many(component, keys.tolist(), lambda i: values[i, ...].copy())
    return ()


@waits("barrier_take_many")
def barrier_take_many(
    xp: Any, *asked: Array, resource: Any, count: int | None = None, small: bool = False
) -> tuple[Any, Finish]:
    """Take ready elements: keys, and components stacked along a new first axis."""
    types = resource.types

    def finish(elements: Any) -> tuple[Array, ...]:
        names = [key for key, _ in elements]
        keys = xp.asarray(names, dtype=resource.key_dtype.dtype)
        return (keys, *stacked(xp, types, [parts for _, parts in elements]))

    return resource.take_many(count_of(count, asked), small), finish


@portable("barrier_close")
def barrier_close(
    xp: Any, *, resource: Any, cancel: bool, failure: str | None = None
) -> tuple[Array, ...]:  # fmt: skip
    """Refuse new keys from now on; with ``cancel``, all components. A failure is quoted later."""
    resource.close(cancel, failure)
    return ()


register_answers(
    {
        "barrier_incomplete_size": lambda barrier: barrier.incomplete_size(),
        "barrier_ready_size": lambda barrier: barrier.ready_size(),
    }
)
