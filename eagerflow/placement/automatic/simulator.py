"""Discrete-event simulation of a step of a partitioned graph, with known costs.

It imitates the executor. The host runs *regions*: on a device whose values are there at once the
thread of the host does the work; on a device that works later it issues the ops, which the device
runs one after the other, as soon as their operands are there. A value is sent when its region has
run, to a device of another kind when the value is there; copies to one device are done one after
the other. Threads of the host are the cores that virtual CPUs share. All times are simulated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import final

from eagerflow.errors import SchedulerError
from eagerflow.placement.automatic.abstract_simulation import AbstractSimulation
from eagerflow.placement.automatic.simulated_step import GIVEN, Simulated, SimulatedStep
from eagerflow.placement.automatic.strand_simulator import StrandSimulation

#: runs a job of the host; returns its end time, and the continuation to call then
_Job = Callable[[], tuple[float, Callable[[], object]]]


def simulate(step: SimulatedStep) -> Simulated:
    """Simulate a step.

    Raises:
        SchedulerError: regions wait for each other.

    >>> from eagerflow.placement.automatic.simulated_step import (
    ...     SimulatedDevice, SimulatedMove, SimulatedOp, SimulatedRegion, SimulatedStep)
    >>> from eagerflow.placement.automatic.simulator import simulate
    >>> step = SimulatedStep(
    ...     devices=[SimulatedDevice("gpu:0", later=True), SimulatedDevice("gpu:1", later=True)],
    ...     ops=[SimulatedOp(2.0), SimulatedOp(3.0, needs=(2,))],
    ...     regions=[SimulatedRegion(0, (0,)), SimulatedRegion(1, (1,), receives=(0,))],
    ...     moves=[SimulatedMove(0, 0, source=0, target=1, seconds=0.5)],
    ... )
    >>> simulate(step).seconds
    5.5
    """
    return (StrandSimulation(step) if step.strands else _ScheduledSimulation(step)).run()


@final
class _ScheduledSimulation(AbstractSimulation):
    """A run by the scheduler.

    The jobs of the step's thread have the executor's order: ready regions and sends, first in first
    out, and heavy regions if there is nothing else. Jobs that are ready at the beginning come in
    the order in which the scheduler takes its roots: the last first.
    """

    def __init__(self, step: SimulatedStep) -> None:
        super().__init__(step)
        self.idle = [True] * step.threads  # the first is the thread of the step
        self.until = [0.0] * step.threads  # when a thread has done its job
        self.light: deque[_Job] = deque()
        self.heavy: deque[_Job] = deque()
        self.crowded = 0.0  # until when other threads work beside the thread that begins a job
        self.events: list[tuple[float, int, Callable[[], object]]] = []
        self.order = 0
        self.now = 0.0
        self.ran = 0
        self.missing = [len(r.after) + len(r.receives) + len(r.waits) for r in step.regions]
        self.after: dict[int, list[int]] = {}
        self.receives: dict[int, list[int]] = {}
        self.waits: dict[int, list[int]] = {}
        self.sends: dict[int, list[int]] = {}
        self.met: set[int] = set()  # moves that have arrived, or were asked for
        for i, region in enumerate(step.regions):
            for index, of in (
                (self.after, region.after), (self.receives, region.receives),
                (self.waits, region.waits),
            ):  # fmt: skip
                for other in of:
                    index.setdefault(other, []).append(i)
        for i, move in enumerate(step.moves):
            self.sends.setdefault(move.region, []).append(i)

    def run(self) -> Simulated:
        self.begin()
        self.dispatch()
        while self.events:
            self.now, _, happen = heappop(self.events)
            happen()
            self.dispatch()
        if self.ran < len(self.step.regions):
            raise SchedulerError("the regions of a simulated step wait for each other")
        return self.found(self.now)

    def begin(self) -> None:
        """Enqueue the jobs that wait for nothing, by device, the last first."""
        roots: list[tuple[tuple[int, int, int], _Job | None, int]] = []
        for i, count in enumerate(self.missing):
            if not count:
                roots.append(((self.step.regions[i].device, -1, i), None, i))
        for i, move in enumerate(self.step.moves):
            sent, received = move.places
            roots.append(((move.target, received, 0), partial(self.receive, i), i))
            if move.region == GIVEN:
                roots.append(((move.source, sent, 1), partial(self.send, i), i))
        for _, job, i in sorted(roots, key=lambda root: root[0], reverse=True):
            if job is None:
                self.ready(i)
            else:
                self.light.append(job)

    def at(self, time: float, happen: Callable[[], object]) -> None:
        self.order += 1
        heappush(self.events, (time, self.order, happen))

    def tokens(self, index: dict[int, list[int]], which: int) -> None:
        """Count down the regions that wait for something that has come."""
        for region in index.get(which, ()):
            self.missing[region] -= 1
            if not self.missing[region]:
                self.ready(region)

    def ready(self, region: int) -> None:
        heavy = self.step.regions[region].heavy
        (self.heavy if heavy else self.light).append(partial(self.region, region))

    def dispatch(self) -> None:
        """Give idle threads jobs that they may run."""
        for thread, idle in enumerate(self.idle):
            queue = self.light if self.light and not thread else self.heavy
            if idle and queue:
                self.idle[thread] = False
                job = queue.popleft()
                others = [*self.until[:thread], *self.until[thread + 1 :]]
                self.crowded = max(others, default=0.0)
                if self.heavy and any(self.idle):  # another thread begins now
                    self.crowded = inf
                end, then = job()
                self.until[thread] = end
                self.at(end, partial(self.over, thread, then))

    def over(self, thread: int, then: Callable[[], object]) -> None:
        """End a thread's job, and call its continuation."""
        self.idle[thread] = True
        then()

    def region(self, number: int) -> tuple[float, Callable[[], object]]:
        """Run a region, or issue its ops; returns its end time, and the continuation."""
        end = self.issue(number, self.now, self.crowded)
        for i in self.step.regions[number].ops:
            self.tell(i)
        return end, partial(self.region_ran, number)

    def tell(self, number: int) -> None:
        """Release the regions for which the host reads a value when its op or move is done."""
        if number in self.waits:
            self.at(self.when(number), partial(self.tokens, self.waits, number))

    def region_ran(self, number: int) -> None:
        self.ran += 1
        self.tokens(self.after, number)
        self.light.extend([partial(self.send, move) for move in self.sends.get(number, ())])

    def send(self, number: int) -> tuple[float, Callable[[], object]]:
        """Send a value, at once or when it is available."""
        move = self.step.moves[number]
        end = self.now + move.host
        there = self.when(move.value) if move.waits and move.value != GIVEN else end
        if there <= end:
            return end, partial(self.copied, number)
        self.at(there, partial(self.copied, number))
        return end, _nothing

    def copied(self, number: int) -> None:
        """Copy a value to another device."""
        there = self.copy(number, self.now)
        self.tell(self.first_move + number)
        if self.step.devices[self.step.moves[number].target].later:
            self.meet(number)
        else:
            self.at(there, partial(self.meet, number))

    def receive(self, number: int) -> tuple[float, Callable[[], object]]:
        """Ask for a value."""
        return self.now, partial(self.meet, number)

    def meet(self, number: int) -> None:
        """Note that a value has arrived, or was requested; the later event delivers it."""
        if number in self.met:
            self.tokens(self.receives, number)
        self.met.add(number)


def _nothing() -> None:
    """The continuation of a job that goes on without its thread."""
