"""Edges and routes of a step whose partitions are strands: queues between generators.

All strands of a step are run by one thread, one at a time, and each sends and receives along an
edge in the order of iterations. So an edge is a queue without keys and without a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, final

from eagerflow.runtime.rendezvous.credits import CREDIT, CREDIT_BYTES, nbytes_of

#: gives up control for what it waits for: an edge, a route, or what other threads bring
Strand = Generator[Any, None, tuple[Any, ...]]


@final
class RouteCount:
    """What lies at the end of a route, from one device to another.

    Attributes:
        full: whether there is so much that who sends more has to wait for its receiver.
        waiting: the strand that does.
        ready: the strands that can go on.
    """

    __slots__ = ("_count", "_nbytes", "full", "ready", "waiting")

    def __init__(self, ready: deque[Strand]) -> None:
        self.ready = ready
        self.waiting: Strand | None = None
        self.full = False
        self._count = 0
        self._nbytes = 0

    def add(self, count: int, nbytes: int) -> None:
        """So many values more lie there, with so many bytes."""
        self._count += count
        self._nbytes += nbytes
        self.full = self._count >= CREDIT or self._nbytes >= CREDIT_BYTES


@final
class EdgeQueue:
    """What was sent along an edge and not received yet.

    Attributes:
        values: the values, with the bytes that they count for.
        waiting: the strand that waits for one.
    """

    __slots__ = ("_route", "values", "waiting")

    def __init__(self, route: RouteCount) -> None:
        self.values: deque[tuple[Any, int]] = deque()
        self.waiting: Strand | None = None
        self._route = route

    def send(self, value: Any) -> None:
        """Put a value there."""
        nbytes = nbytes_of(value)
        self.values.append((value, nbytes))
        route = self._route
        route.add(1, nbytes)
        if self.waiting is not None:
            route.ready.append(self.waiting)
            self.waiting = None

    def take(self) -> Any:
        """The value that was sent first."""
        value, nbytes = self.values.popleft()
        route = self._route
        route.add(-1, -nbytes)
        if route.waiting is not None:
            route.ready.append(route.waiting)
            route.waiting = None
        return value
