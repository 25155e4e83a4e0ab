"""One step that is observed: how long its nodes took, or what some of them gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

from eagerflow.graph.ir import Node


class InstructionOfNode(Protocol):
    """A line of generated code."""

    @property
    def node(self) -> Node | None:
        """What it runs."""


@final
class NodeTimes:
    """What was observed of the instructions of one region.

    Attributes:
        instructions: all of them.
        chains: those of each chain, by the last one, for which the time of all stands.
        seconds: of each instruction, over all its runs.
        waited: seconds of these that were spent waiting, for a queue or its like.
        runs: how often each ran.
        begun: how often the region did.
    """

    __slots__ = ("begun", "chains", "instructions", "runs", "seconds", "waited")

    def __init__(
        self, instructions: Sequence[InstructionOfNode], chains: Mapping[int, Sequence[int]]
    ) -> None:
        self.instructions = instructions
        self.chains = chains
        count = len(instructions)
        self.seconds, self.waited = [0.0] * count, [0.0] * count
        self.runs = [0] * count
        self.begun = 0


@final
class Observation:
    """What is seen of one step (see `eagerflow.runtime.Executable.observe`).

    The step runs the code that it runs else, with a look at the clock after each instruction. If
    values are wanted it runs without chains, and no times are noted.

    Args:
        executable: the number of the executable.
        done: called with the observation when the step has ended, in its thread.
        values: functions that look at what nodes give, by the names of nodes; called with the raw
            arrays and numbers while the step runs. They neither change nor keep these.
        waits: whether an instruction has run only when its results are there. Then the times of a
            device that works later are those of its kernels, one after the other.

    Attributes:
        regions: what was observed, by the number of the region.
        start: when the step began; None before.
        stop: when it ended; None before.
    """

    __slots__ = ("_done", "executable", "regions", "start", "stop", "values", "waits")

    def __init__(
        self, executable: int, done: Callable[[Observation], object],
        values: Mapping[str, Callable[[Sequence[Any]], object]] | None = None, *,
        waits: bool = False,
    ) -> None:  # fmt: skip
        self.executable = executable
        self.waits = waits
        self.values = values or {}
        self.regions: dict[int, NodeTimes] = {}
        self.start: float | None = None
        self.stop: float | None = None
        self._done = done

    def begin(
        self, region: int, instructions: Sequence[InstructionOfNode],
        chains: Mapping[int, Sequence[int]],
    ) -> None:  # fmt: skip
        """A run of a region begins."""
        if region not in self.regions:
            self.regions.setdefault(region, NodeTimes(instructions, chains))
        self.regions[region].begun += 1

    def add(self, region: int, index: int, seconds: float, waited: float) -> None:
        """An instruction of a region has run."""
        times = self.regions[region]
        times.seconds[index] += seconds
        times.waited[index] += waited
        times.runs[index] += 1

    def show(self, node: Node, outputs: Sequence[Any]) -> None:
        """A node gave this."""
        look = self.values.get(node.name)
        if look is not None:
            look(outputs)

    def end(self, start: float, stop: float) -> None:
        """The step has ended."""
        self.start, self.stop = start, stop
        self._done(self)
