"""A step of a partitioned graph, simulated: what runs when, on devices and links with known costs.

It replays what the executor does. The host runs *regions*: on a device whose values are there at
once the thread of the host does the work; on one that works later it issues the ops, which the
device does one after the other, as soon as their operands are there. A value is sent when its
region has been run, to a device of another kind when it is there; copies to one device are done one
after the other. Threads of
the host are the cores that virtual CPUs share. There is no clock here but that of the simulation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Final, final

from eagerflow.errors import SchedulerError

#: the number of what is there from the beginning
GIVEN: Final = -1

#: does a job of the host; gives when that is done, and what happens then
_Job = Callable[[], tuple[float, Callable[[], object]]]


@final
@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A device.

    Attributes:
        name: of it.
        later: whether its work is done later, beside the host.
    """

    name: str
    later: bool


@final
@dataclass(frozen=True, slots=True)
class SimulatedOp:
    """An op of a region.

    Attributes:
        seconds: of work on data.
        call: seconds of the host to call or issue it.
        needs: the numbers of the ops and moves whose values it takes.
        nbytes: of its results, which take memory.
        crowding: how many times as long it takes while other threads of the host work.
    """

    seconds: float
    call: float = 0.0
    needs: tuple[int, ...] = ()
    nbytes: int = 0
    crowding: float = 1.0


@final
@dataclass(frozen=True, slots=True)
class SimulatedRegion:
    """Ops that the host runs, or issues, one after the other.

    Attributes:
        device: its number.
        ops: their numbers.
        after: the numbers of the regions that have to be run before.
        receives: the numbers of the moves that have to arrive before.
        waits: the numbers of ops whose values the host reads before it begins.
        heavy: whether any thread may run it, not only that of the step.
        overhead: seconds of the host.
    """

    device: int
    ops: tuple[int, ...]
    after: tuple[int, ...] = ()
    receives: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    heavy: bool = False
    overhead: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class SimulatedMove:
    """A value that goes to another device.

    Attributes:
        value: the number of the op, or `GIVEN`.
        region: that of the op, or `GIVEN`.
        source: the number of the device that it comes from.
        target: that of the one to which it goes.
        seconds: of the copy.
        host: seconds of the thread of the step.
        nbytes: of the copy, which takes memory.
        waits: whether the host sends it when it is there; else the copy is issued before.
        places: of the Send and of the Recv among the nodes of their partitions.
    """

    value: int
    region: int
    source: int
    target: int
    seconds: float
    host: float = 0.0
    nbytes: int = 0
    waits: bool = False
    places: tuple[int, int] = (0, 0)


@final
@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A step to be simulated. Ops and moves have numbers of one row: ops first.

    Attributes:
        devices: all of them.
        ops: all of them.
        regions: all of them.
        moves: all of them.
        results: the numbers of the ops and moves whose values are given back.
        threads: how many of the host run regions, that of the step among them.
    """

    devices: Sequence[SimulatedDevice]
    ops: Sequence[SimulatedOp]
    regions: Sequence[SimulatedRegion]
    moves: Sequence[SimulatedMove] = ()
    results: tuple[int, ...] = ()
    threads: int = 1


@final
@dataclass(slots=True)
class Simulated:
    """What a simulation found.

    Attributes:
        seconds: until all is done.
        spans: for each op and move when it began and when it was done.
        busy: seconds of work by device.
        peaks: bytes of values held at one time, by device.
    """

    seconds: float
    spans: list[tuple[float, float]]
    busy: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)


def simulate(step: SimulatedStep) -> Simulated:
    """Simulate a step.

    Raises:
        SchedulerError: regions wait for each other.

    >>> from eagerflow.placement.automatic.simulator import (
    ...     SimulatedDevice, SimulatedMove, SimulatedOp, SimulatedRegion, SimulatedStep, simulate)
    >>> step = SimulatedStep(
    ...     devices=[SimulatedDevice("gpu:0", later=True), SimulatedDevice("gpu:1", later=True)],
    ...     ops=[SimulatedOp(2.0), SimulatedOp(3.0, needs=(2,))],
    ...     regions=[SimulatedRegion(0, (0,)), SimulatedRegion(1, (1,), receives=(0,))],
    ...     moves=[SimulatedMove(0, 0, source=0, target=1, seconds=0.5)],
    ... )
    >>> simulate(step).seconds
    5.5
    """
    return _Simulation(step).run()


@final
class _Simulation:
    """One run.

    What the thread of the step has to do is in the order of the executor: regions that are ready
    and sends, first in first out, heavy regions where there is nothing else. What begins at once
    comes in the order in which the scheduler takes its roots: the last first.
    """

    def __init__(self, step: SimulatedStep) -> None:
        self.step = step
        count = len(step.ops) + len(step.moves)
        self.first_move = len(step.ops)
        self.done: list[float | None] = [None] * count
        self.began = [0.0] * count
        self.free = [0.0] * len(step.devices)  # when a device has done what was issued
        self.links: dict[tuple[int, bool], float] = {}  # likewise copies
        self.idle = [True] * step.threads  # the first is that of the step
        self.until = [0.0] * step.threads  # when a thread has done its job
        self.light: deque[_Job] = deque()
        self.heavy: deque[_Job] = deque()
        self.crowded = 0.0  # until when other threads work beside the one that begins a job
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
        ends = [time for time in self.done if time is not None]
        spans = [(a, a if b is None else b) for a, b in zip(self.began, self.done, strict=True)]
        simulated = Simulated(max([*ends, self.now], default=0.0), spans)
        self.count(simulated)
        return simulated

    def begin(self) -> None:
        """What waits for nothing, by device, the last first."""
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
        """Something has come that regions wait for."""
        for region in index.get(which, ()):
            self.missing[region] -= 1
            if not self.missing[region]:
                self.ready(region)

    def ready(self, region: int) -> None:
        heavy = self.step.regions[region].heavy
        (self.heavy if heavy else self.light).append(partial(self.region, region))

    def dispatch(self) -> None:
        """Give threads that are idle what they may do."""
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
        """A thread has done its job."""
        self.idle[thread] = True
        then()

    def region(self, number: int) -> tuple[float, Callable[[], object]]:
        """Run a region, or issue its ops; gives when that is done, and what happens then."""
        region = self.step.regions[number]
        later = self.step.devices[region.device].later
        clock = self.now + region.overhead
        for i in region.ops:
            op = self.step.ops[i]
            clock += op.call
            if later:
                start = max([clock, self.free[region.device], *map(self.when, op.needs)])
                self.free[region.device] = end = start + op.seconds
            else:
                crowding = op.crowding if clock < self.crowded else 1.0
                start, end = clock, clock + crowding * op.seconds
                clock = end
            self.began[i], self.done[i] = start, end
            if i in self.waits:
                self.at(end, partial(self.tokens, self.waits, i))
        return clock, partial(self.region_ran, number)

    def when(self, number: int) -> float:
        """When a value is there."""
        done = self.done[number]
        if done is None:
            raise SchedulerError("an op of a simulated step takes what was not made before")
        return done

    def region_ran(self, number: int) -> None:
        self.ran += 1
        self.tokens(self.after, number)
        self.light.extend([partial(self.send, move) for move in self.sends.get(number, ())])

    def send(self, number: int) -> tuple[float, Callable[[], object]]:
        """Send a value, at once or when it is there."""
        move = self.step.moves[number]
        end = self.now + move.host
        there = self.when(move.value) if move.waits and move.value != GIVEN else end
        if there <= end:
            return end, partial(self.copy, number)
        self.at(there, partial(self.copy, number))
        return end, _nothing

    def copy(self, number: int) -> None:
        """A value is copied to another device; who receives it has it as soon as that is issued."""
        move = self.step.moves[number]
        later = self.step.devices[move.target].later
        lane = (move.target if later else move.source, later)
        there = 0.0 if move.value == GIVEN else self.when(move.value)
        start = max(self.now, there, self.links.get(lane, 0.0))
        self.links[lane] = end = start + move.seconds
        self.began[self.first_move + number] = start
        self.done[self.first_move + number] = end
        if later:
            self.meet(number)
        else:
            self.at(end, partial(self.meet, number))

    def receive(self, number: int) -> tuple[float, Callable[[], object]]:
        """Ask for a value."""
        return self.now, partial(self.meet, number)

    def meet(self, number: int) -> None:
        """A value has arrived, or was asked for: the later of both."""
        if number in self.met:
            self.tokens(self.receives, number)
        self.met.add(number)

    # --- what was found ---

    def count(self, simulated: Simulated) -> None:
        """Add up the work of devices, and the bytes that they hold at one time."""
        step = self.step
        changes: dict[int, list[tuple[float, int]]] = {}
        last = dict.fromkeys(step.results, simulated.seconds)
        where: dict[int, int] = {}
        for region in step.regions:
            for i in region.ops:
                where[i] = region.device
                begin, end = simulated.spans[i]
                name = step.devices[region.device].name
                simulated.busy[name] = simulated.busy.get(name, 0.0) + end - begin
                for value in step.ops[i].needs:
                    last[value] = max(last.get(value, 0.0), end)
        for i, move in enumerate(step.moves):
            where[self.first_move + i] = move.target
            if move.value != GIVEN:
                end = simulated.spans[self.first_move + i][1]
                last[move.value] = max(last.get(move.value, 0.0), end)
        sizes = [*[op.nbytes for op in step.ops], *[move.nbytes for move in step.moves]]
        for i, size in enumerate(sizes):
            if size and i in where:
                begin, end = simulated.spans[i]
                held = changes.setdefault(where[i], [])
                held += [(begin, size), (max(last.get(i, end), end), -size)]
        for device, held in changes.items():
            most = now = 0
            for _, size in sorted(held):
                now += size
                most = max(most, now)
            simulated.peaks[step.devices[device].name] = most


def _nothing() -> None:
    """What happens where a thread has done a job that goes on without it."""
