"""Base of the simulations of a step: the work of devices and links."""

from __future__ import annotations

from abc import ABC, abstractmethod

from eagerflow.errors import SchedulerError
from eagerflow.placement.automatic.simulated_step import GIVEN, Simulated, SimulatedStep


class AbstractSimulation(ABC):
    """A simulated run of a step. Each device and each link works first in, first out.

    Args:
        step: the step to simulate.

    Attributes:
        step: the same.
        first_move: the number of the first move; ops and moves are numbered together.
        done: for each op and move its end time; None until it is issued.
    """

    def __init__(self, step: SimulatedStep) -> None:
        self.step = step
        self.first_move = len(step.ops)
        self.done: list[float | None] = [None] * (len(step.ops) + len(step.moves))
        self._began = [0.0] * len(self.done)
        self._free = [0.0] * len(step.devices)  # when a device has done all issued ops
        self._links: dict[tuple[int, bool], float] = {}  # when a link has done all copies

    @abstractmethod
    def run(self) -> Simulated:
        """Run the step to its end.

        Raises:
            SchedulerError: parts of the step wait for each other.
        """

    def when(self, number: int) -> float:
        """The time at which a value is available.

        Raises:
            SchedulerError: its op or move was not issued.
        """
        done = self.done[number]
        if done is None:
            raise SchedulerError("an op of a simulated step takes a value that was not made before")
        return done

    def issue(self, number: int, begin: float, crowded: float = 0.0) -> float:
        """Run a region, or issue its ops; returns the time at which the host is done.

        Args:
            number: the number of the region.
            begin: when the host begins with it.
            crowded: until when other threads of the host work beside this one.
        """
        region = self.step.regions[number]
        later = self.step.devices[region.device].later
        clock = begin + region.overhead
        for i in region.ops:
            op = self.step.ops[i]
            clock = max([clock, *map(self.when, op.reads)]) + op.call
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
        """Copy a value to another device; returns when its receiver may go on.

        On a device that works later this is at once, as the device's own work waits for the copy.

        Args:
            number: the number of the move.
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

    # --- results ---

    def found(self, until: float) -> Simulated:
        """The result of the simulation.

        Args:
            until: when the host is done with the step.
        """
        ends = [time for time in self.done if time is not None]
        spans = [(a, a if b is None else b) for a, b in zip(self._began, self.done, strict=True)]
        return Simulated(max([*ends, until], default=0.0), spans)
