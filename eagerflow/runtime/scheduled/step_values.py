"""What a step holds: the values of all iterations that are open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from eagerflow.runtime.scheduled.flow import Flow
from eagerflow.runtime.scheduled.frame_values import FrameValues
from eagerflow.runtime.scheduled.scheduler import SchedulerInstruction

__all__ = ["StepValues"]


@final
class StepValues:
    """What a step holds.

    Attributes:
        by_tag: the iterations that are open; 0 is the outermost.
    """

    __slots__ = ("_flow", "by_tag")

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.by_tag: dict[int, FrameValues] = {0: FrameValues(flow, 0, -1, 0)}

    def put(self, inputs: Sequence[Any]) -> None:
        """Take those inputs of the step that have a reader."""
        root = self.by_tag[0]
        for slot, value in zip(self._flow.inputs, inputs, strict=True):
            if root.left[slot]:
                root.slots[slot] = value

    def follow(self, instruction: SchedulerInstruction) -> None:
        """Move a value from one iteration to another, open one, or close one."""
        kind = instruction[0]
        if kind == "move":
            _, tag, entry, to, port = instruction
            place = self.by_tag[tag]
            action = place.actions[entry]
            source, target = action.inputs[port], action.outputs[0]
            if target >= 0:
                self.by_tag[to].slots[target] = place.slots[source]
            if not action.stays:
                place.left[source] -= 1
                if not place.left[source]:
                    place.slots[source] = None
        elif kind == "open":
            _, tag, parent, frame, iteration = instruction
            self.by_tag[tag] = FrameValues(self._flow, frame, parent, iteration)
        elif kind == "close":
            del self.by_tag[instruction[1]]

    def around(self, tag: int) -> Iterator[FrameValues]:
        """The iterations of loops around an iteration, itself included, the innermost first."""
        place = self.by_tag[tag]
        while place.parent >= 0:
            yield place
            place = self.by_tag[place.parent]

    def loops(self, tag: int) -> tuple[tuple[str, int], ...]:
        """The same by the names of the loops and the numbers of iterations, the outermost first."""
        flow = self._flow
        loops = [(flow.frames[p.frame].name, p.counted(flow)) for p in self.around(tag)]
        return tuple(loops[::-1])

    def clear(self) -> None:
        """Let go of all."""
        for place in self.by_tag.values():
            place.slots.clear()
        self.by_tag.clear()
