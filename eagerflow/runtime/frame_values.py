"""The values that a step holds: those of each iteration of each frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

from eagerflow.runtime.flow import Flow
from eagerflow.runtime.scheduler import SchedulerInstruction
from eagerflow.source import turn_note

__all__ = ["FrameValues", "StepValues"]

_LOOPS: Final = ("while_loop", "scan")


@final
class FrameValues:
    """What one iteration of a frame holds.

    Attributes:
        slots: the values.
        left: how many entries are still to read each.
        actions: what the entries of the frame do.
        frame: its number.
        parent: the tag of the iteration around.
        iteration: which one it is.
    """

    __slots__ = ("actions", "frame", "iteration", "left", "parent", "slots")

    def __init__(self, flow: Flow, frame: int, parent: int, iteration: int) -> None:
        found = flow.frames[frame]
        self.frame = frame
        self.parent = parent
        self.iteration = iteration
        self.actions = found.actions
        self.left = list(found.readers)
        self.slots: list[Any] = [None] * len(self.left)

    def take(self, slots: Sequence[int]) -> list[Any]:
        """What slots hold, for an entry that reads it; who reads last leaves nothing."""
        found = []
        left, values = self.left, self.slots
        for slot in slots:
            found.append(values[slot])
            left[slot] -= 1
            if not left[slot]:
                values[slot] = None
        return found


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
        """Take the inputs of the step, as far as somebody reads them."""
        root = self.by_tag[0]
        for slot, value in zip(self._flow.inputs, inputs, strict=True):
            if root.left[slot]:
                root.slots[slot] = value

    def outputs(self) -> tuple[Any, ...]:
        """What the step gives."""
        return self._flow.results(self.by_tag[0].slots)

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

    def turns(self, tag: int) -> Iterator[str]:
        """What an error says of the loops around an iteration, from the inside."""
        place = self.by_tag[tag]
        while place.parent >= 0:
            frame = self._flow.frames[place.frame]
            op = next((o for o in _LOOPS if frame.name.startswith(o)), frame.name)
            turn = place.iteration
            if frame.backwards >= 0:
                turn = place.slots[frame.backwards] - 1 - turn
            yield turn_note(op, turn, frame.source)
            place = self.by_tag[place.parent]

    def clear(self) -> None:
        """Let go of all."""
        for place in self.by_tag.values():
            place.slots.clear()
        self.by_tag.clear()
