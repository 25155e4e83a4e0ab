"""Observation of one step: the times of its nodes, or the values of some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

from eagerflow.graph.ir import Node


class InstructionOfNode(Protocol):
    """An instruction of a generated program."""

    @property
    def node(self) -> Node | None:
        """The node that it runs."""


@final
class NodeTimes:
    """Observed times of the instructions of one region.

    Attributes:
        instructions: the instructions of the region.
        chains: the instructions of each chain, by its last one, which has the time of all.
        seconds: of each instruction, over all its runs.
        waited: the part of these seconds spent waiting, for a queue or its like.
        runs: number of runs of each instruction.
        is_part: whether it is one of several regions, whose durations are reported one by one.
            The region of a whole graph is numbered like the first of them, if both ways to run the
            graph are in use, and takes as long as the step.
        begun: number of runs of the region.
    """

    __slots__ = ("begun", "chains", "instructions", "is_part", "runs", "seconds", "waited")

    def __init__(
        self, instructions: Sequence[InstructionOfNode], chains: Mapping[int, Sequence[int]],
        is_part: bool,
    ) -> None:  # fmt: skip
        self.instructions = instructions
        self.chains = chains
        self.is_part = is_part
        count = len(instructions)
        self.seconds, self.waited = [0.0] * count, [0.0] * count
        self.runs = [0] * count
        self.begun = 0


@final
class Observation:
    """Times or values of one step (see `eagerflow.runtime.Executable.observe`).

    The step runs its usual code, and reads the clock after each instruction. If values are wanted
    it runs without chains, and no times are noted.

    Args:
        executable: the number of the executable.
        done: called with the observation when the step has ended, in its thread.
        values: functions that inspect the results of nodes, by the names of nodes; called with the
            raw arrays and numbers while the step runs. They neither change nor keep these.
        waits: whether an instruction counts as run only when its results are there. Then the times
            of an asynchronous device are those of its kernels, one after the other.
        after: number of steps to pass over before the observed one.

    Attributes:
        regions: the times observed, by the number of the region.
        start: when the step began; None before.
        stop: when it ended; None before.
    """

    __slots__ = ("_done", "after", "executable", "regions", "start", "stop", "values", "waits")

    def __init__(
        self, executable: int, done: Callable[[Observation], object],
        values: Mapping[str, Callable[[Sequence[Any]], object]] | None = None, *,
        waits: bool = False, after: int = 0,
    ) -> None:  # fmt: skip
        self.executable = executable
        self.after = after
        self.waits = waits
        self.values = values or {}
        self.regions: dict[int, NodeTimes] = {}
        self.start: float | None = None
        self.stop: float | None = None
        self._done = done

    def passes_over(self) -> bool:
        """Count a step that begins; whether it is one to pass over."""
        self.after -= 1
        return self.after >= 0

    def begin(
        self, region: int, instructions: Sequence[InstructionOfNode],
        chains: Mapping[int, Sequence[int]], *, is_part: bool,
    ) -> None:  # fmt: skip
        """Note that a run of a region begins."""
        if region not in self.regions:
            self.regions.setdefault(region, NodeTimes(instructions, chains, is_part))
        self.regions[region].begun += 1

    def add(self, region: int, index: int, seconds: float, waited: float) -> None:
        """Add the time of one run of an instruction."""
        times = self.regions[region]
        times.seconds[index] += seconds
        times.waited[index] += waited
        times.runs[index] += 1

    def show(self, node: Node, outputs: Sequence[Any]) -> None:
        """Pass the outputs of a node to its function, if it has one."""
        look = self.values.get(node.name)
        if look is not None:
            look(outputs)

    def end(self, start: float, stop: float) -> None:
        """Note that the step has ended."""
        self.start, self.stop = start, stop
        self._done(self)
