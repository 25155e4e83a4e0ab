"""Simulation of a step whose partitions are strands: generators that one thread interleaves.

A device gets its ops in the order of the program here, not in the order in which operands arrive. A
strand gives up the thread where it needs a value that was not sent yet, a value that its device is
still computing, or a heavy region, which another thread may run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple, final

from eagerflow.errors import SchedulerError
from eagerflow.placement.automatic.abstract_simulation import AbstractSimulation
from eagerflow.placement.automatic.simulated_step import (
    GIVEN,
    Simulated,
    SimulatedAct,
    SimulatedStep,
)


class _Awaited(NamedTuple):
    """An event that a strand waits for: the end of a move, an op, or a heavy region."""

    what: str
    number: int


@final
class StrandSimulation(AbstractSimulation):
    """A run by strands.

    Args:
        step: the step to simulate; it has strands.
    """

    def __init__(self, step: SimulatedStep) -> None:
        super().__init__(step)
        self._now = 0.0  # time of the thread of the step
        self._ready: deque[Iterator[_Awaited]] = deque()
        self._over: set[_Awaited] = set()
        self._parked: dict[_Awaited, Iterator[_Awaited]] = {}
        self._heavy: deque[int] = deque()
        self._helpers = [0.0] * (step.threads - 1)  # until when each other thread works
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._count_of_events = 0

    def run(self) -> Simulated:
        """Run the strands to their end.

        Raises:
            SchedulerError: the strands wait for each other.
        """
        self._ready += map(self._strand, self.step.strands)
        while True:
            while self._events and self._events[0][0] <= self._now:
                heappop(self._events)[2]()
            if self._ready:
                strand = self._ready.popleft()
                awaited = next(strand, None)
                if awaited is not None:
                    self._parked[awaited] = strand
            elif self._heavy:
                self._run_heavy()
            elif self._events:
                self._now = self._events[0][0]
            else:
                break
        if self._parked:
            raise SchedulerError("the strands of a simulated step wait for each other")
        return self.found(self._now)

    def _strand(self, acts: Sequence[SimulatedAct]) -> Iterator[_Awaited]:
        for act in acts:
            if act.what == "run":
                yield from self._run(act.number)
            elif act.what == "send":
                self._send(act.number)
            elif act.what == "receive":
                yield from self._until(_Awaited("move", act.number))
            else:
                yield from self._read(act.number)

    def _until(self, awaited: _Awaited) -> Iterator[_Awaited]:
        if awaited not in self._over:
            yield awaited

    def _run(self, number: int) -> Iterator[_Awaited]:
        region = self.step.regions[number]
        for value in region.waits:
            yield from self._read(value)
        if region.heavy:
            self._heavy.append(number)
            yield _Awaited("region", number)
        else:
            self._now = self.issue(number, self._now)

    def _read(self, value: int) -> Iterator[_Awaited]:
        """Wait until a value that the host reads is there."""
        there = self.when(value)
        if there > self._now:
            awaited = _Awaited("value", value)
            self._at(there, awaited)
            yield awaited

    def _send(self, number: int) -> None:
        """Send a value, at once or when it is there."""
        move = self.step.moves[number]
        self._now += move.host
        there = self.when(move.value) if move.waits and move.value != GIVEN else self._now
        if there <= self._now:
            self._copied(number, self._now)
        else:
            self._push(there, partial(self._copied, number, there))

    def _copied(self, number: int, now: float) -> None:
        """Issue a copy, and schedule when its receiver goes on: at once, or at its end."""
        self._at(self.copy(number, now), _Awaited("move", number))

    def _at(self, time: float, awaited: _Awaited) -> None:
        """End an awaited event at a time."""
        if time <= self._now:
            self._end(awaited)
        else:
            self._push(time, partial(self._end, awaited))

    def _push(self, time: float, happen: Callable[[], object]) -> None:
        self._count_of_events += 1
        heappush(self._events, (time, self._count_of_events, happen))

    def _end(self, awaited: _Awaited) -> None:
        self._over.add(awaited)
        strand = self._parked.pop(awaited, None)
        if strand is not None:
            self._ready.append(strand)

    def _run_heavy(self) -> None:
        """Run the first heavy region in the thread of the step, others in idle threads."""
        begin, own = self._now, self._heavy.popleft()
        idle = [i for i, until in enumerate(self._helpers) if until <= begin]
        helped = list(zip(idle, self._heavy, strict=False))
        crowded = inf if helped else max(self._helpers, default=0.0)
        for helper, _ in helped:
            number = self._heavy.popleft()
            self._helpers[helper] = end = self.issue(number, begin, crowded)
            self._push(end, partial(self._end, _Awaited("region", number)))
        self._now = self.issue(own, begin, crowded)
        self._end(_Awaited("region", own))
