"""Kernels of queues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, final

from eagerflow_kernels.portable.elements import check_shapes, own, stacked
from eagerflow_kernels.portable.waiting import Finish, count_of, nothing, register_answers, waits
from eagerflow_kernels.table import Array, portable


def _split(arrays: Sequence[Array], resource: Any) -> tuple[Sequence[Array], Any]:
    """The components of elements, and the priority if there is one."""
    if len(arrays) > len(resource.types):
        return arrays[:-1], arrays[-1]
    return arrays, None


@waits("queue_enqueue")
def queue_enqueue(xp: Any, *arrays: Array, resource: Any) -> tuple[Any, Finish]:
    """Enqueue one element; for a priority queue the priority comes last."""
    parts, priority = _split(arrays, resource)
    check_shapes(resource.types, parts)
    element = tuple([own(x) for x in parts])
    return resource.enqueue(element, 0 if priority is None else int(priority)), nothing


@waits("queue_enqueue_many")
def queue_enqueue_many(xp: Any, *arrays: Array, resource: Any) -> tuple[Any, Finish]:
    """Enqueue elements that lie along the first axis, with a priority for each, or one for all."""
    parts, priority = _split(arrays, resource)
    check_shapes(resource.types, parts, 1)
    count = parts[0].shape[0]
    priorities = (0,) if priority is None else priority.reshape(-1).tolist()
    if len(priorities) not in (1, count):
        raise ValueError("there are as many priorities as elements, or one")
    rows = _Rows(parts)
    return resource.enqueue_many(count, rows.element, priorities, rows.keep), nothing


@final
class _Rows:
    """Elements that lie along the first axis of arrays."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Array]) -> None:
        self._parts = parts

    def element(self, i: int) -> tuple[Array, ...]:
        """One of the elements."""
        return tuple([x[i, ...].copy() for x in self._parts])  # a view would keep all alive

    def keep(self) -> None:
        """Copy memory that has other owners, whose later writes would change elements."""
        self._parts = [own(x) for x in self._parts]


@waits("queue_dequeue")
def queue_dequeue(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """Dequeue one element."""
    return resource.dequeue(), lambda elements: elements[0]


@waits("queue_dequeue_many")
def queue_dequeue_many(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """Dequeue elements, stacked along a new first axis."""
    return resource.dequeue_many(count_of(count, asked)), partial(stacked, xp, resource.types)


@waits("queue_dequeue_up_to")
def queue_dequeue_up_to(
    xp: Any, *asked: Array, resource: Any, count: int | None = None
) -> tuple[Any, Finish]:
    """As `queue_dequeue_many`, but a closed queue may give fewer elements, all that are left."""
    attempt = resource.dequeue_many(count_of(count, asked), True)
    return attempt, partial(stacked, xp, resource.types)


@waits("queue_close")
def queue_close(xp: Any, *, resource: Any) -> tuple[Any, Finish]:
    """Close a queue to new elements, after those of waiting producers."""
    return resource.close(), nothing


@portable("queue_cancel_and_close")
def queue_cancel_and_close(
    xp: Any, *, resource: Any, failure: str | None = None
) -> tuple[Array, ...]:  # fmt: skip
    """Close a queue to new elements, and cancel waiting producers; a failure is quoted there."""
    resource.cancel_and_close(failure=failure)
    return ()


register_answers(
    {
        "queue_closed": lambda queue: bool(queue.closed),
        "queue_size": lambda queue: queue.size(),
    }
)
