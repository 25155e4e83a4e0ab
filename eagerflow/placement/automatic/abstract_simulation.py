"""What simulations of a step have in common: the work of devices and links, and its sum."""

from __future__ import annotations

from abc import ABC, abstractmethod

from eagerflow.errors import SchedulerError
from eagerflow.placement.automatic.simulated_step import GIVEN, Simulated, SimulatedStep


class AbstractSimulation(ABC):
    """One run of a step. Devices and links do what they are given one after the other.

    Args:
        step: what is simulated.

    Attributes:
        step: the same.
        first_move: the number of the first move, in the row of ops and moves.
        done: for each op and move when it is done; None as long as it was not issued.
    """

    def __init__(self, step: SimulatedStep) -> None:
        self.step = step
        self.first_move = len(step.ops)
        self.done: list[float | None] = [None] * (len(step.ops) + len(step.moves))
        self._began = [0.0] * len(self.done)
        self._free = [0.0] * len(step.devices)  # when a device has done what was issued
        self._links: dict[tuple[int, bool], float] = {}  # likewise copies

    @abstractmethod
    def run(self) -> Simulated:
        """Run the step to its end.

        Raises:
            SchedulerError: parts of it wait for each other.
        """

    def when(self, number: int) -> float:
        """When a value is there.

        Raises:
            SchedulerError: nothing was given that makes it.
        """
        done = self.done[number]
        if done is None:
            raise SchedulerError("an op of a simulated step takes what was not made before")
        return done

    def issue(self, number: int, begin: float, crowded: float = 0.0) -> float:
        """Run a region, or issue its ops; gives when the host has done that.

        Args:
            number: of the region.
            begin: when the host begins with it.
            crowded: until when other threads of the host work beside this one.
        """
        region = self.step.regions[number]
        later = self.step.devices[region.device].later
        clock = begin + region.overhead
        for i in region.ops:
            op = self.step.ops[i]
            clock += op.call
            if later:
                start = max([clock, self._free[region.device], *map(self.when, op.needs)])
                self._free[region.device] = end = start + op.seconds
            else:
                crowding = op.crowding if clock < crowded else 1.0
                start, end = clock, clock + crowding * op.seconds
                clock = end
            self._began[i], self.done[i] = start, end
        return clock

    def copy(self, number: int, now: float) -> float:
        """Copy a value to another device; gives when who receives it may go on.

        That is at once where the device works later, as what is done there waits for the copy.

        Args:
            number: of the move.
            now: when the copy is issued.
        """
        move = self.step.moves[number]
        later = self.step.devices[move.target].later
        lane = (move.target if later else move.source, later)
        there = 0.0 if move.value == GIVEN else self.when(move.value)
        start = max(now, there, self._links.get(lane, 0.0))
        self._links[lane] = end = start + move.seconds
        self._began[self.first_move + number] = start
        self.done[self.first_move + number] = end
        return now if later else end

    # --- what was found ---

    def found(self, until: float) -> Simulated:
        """What it comes to, of a step with which the host has done then."""
        ends = [time for time in self.done if time is not None]
        spans = [(a, a if b is None else b) for a, b in zip(self._began, self.done, strict=True)]
        simulated = Simulated(max([*ends, until], default=0.0), spans)
        self._count(simulated)
        return simulated

    def _count(self, simulated: Simulated) -> None:
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
