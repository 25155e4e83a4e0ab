"""Edges and routes of a step whose partitions are strands: queues between generators.

All strands of a step are run by one thread, one at a time, and each sends and receives along an
edge in the order of iterations. So an edge is a queue without keys and without a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, final

from eagerflow.runtime.rendezvous.credits import CREDIT, CREDIT_BYTES, nbytes_of

#: a generator that yields the object that it waits for: an edge, a route, or an `Awaited`
Strand = Generator[Any, None, tuple[Any, ...]]


@final
class RouteCount:
    """The count of values at the end of a route, from one device to another.

    Attributes:
        full: whether the credit is used up, so that a sender has to wait for its receiver.
        waiting: the strand that waits for credit.
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
        """Add to the number of values there, and to their bytes."""
        self._count += count
        self._nbytes += nbytes
        self.full = self._count >= CREDIT or self._nbytes >= CREDIT_BYTES


@final
class EdgeQueue:
    """Values that were sent along an edge and not received yet.

    Attributes:
        values: the values, each with its bytes as credit counts them.
        waiting: the strand that waits for a value.
    """

    __slots__ = ("_route", "values", "waiting")

    def __init__(self, route: RouteCount) -> None:
        self.values: deque[tuple[Any, int]] = deque()
        self.waiting: Strand | None = None
        self._route = route

    def send(self, value: Any) -> None:
        """Append a value."""
        nbytes = nbytes_of(value)
        self.values.append((value, nbytes))
        route = self._route
        route.add(1, nbytes)
        if self.waiting is not None:
            route.ready.append(self.waiting)
            self.waiting = None

    def take(self) -> Any:
        """Remove and return the oldest value."""
        value, nbytes = self.values.popleft()
        route = self._route
        route.add(-1, -nbytes)
        if route.waiting is not None:
            route.ready.append(route.waiting)
            route.waiting = None
        return value
