"""The values of a step, in the slots of each open iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from eagerflow.error_messages import iteration_note
from eagerflow.runtime.scheduled.scheduled_nodes import FrameLayout
from eagerflow.runtime.scheduled.scheduler import SchedulerInstruction


@final
class FrameValues:
    """The values of one iteration of a frame.

    Attributes:
        slots: the values.
        left: for each slot the number of nodes that are still to read it.
        actions: the actions of the nodes of the frame.
        frame: the frame.
        parent: the tag of the iteration around.
        iteration: its number.
        path: as `StepValues.path` gives it; None before the first call of that.
    """

    __slots__ = ("actions", "frame", "iteration", "left", "parent", "path", "slots")

    def __init__(self, frame: FrameLayout, parent: int, iteration: int) -> None:
        self.frame = frame
        self.parent = parent
        self.iteration = iteration
        self.path: tuple[tuple[str, int], ...] | None = None
        self.actions = frame.actions
        self.left = list(frame.readers)
        self.slots: list[Any] = [None] * len(self.left)

    def take(self, slots: Sequence[int]) -> list[Any]:
        """The values of slots, for a node that reads them; the last reader empties a slot."""
        taken = []
        left, values = self.left, self.slots
        for slot in slots:
            taken.append(values[slot])
            left[slot] -= 1
            if not left[slot]:
                values[slot] = None
        return taken

    def iteration_note(self) -> str:
        """A note that names the loop and the iteration, for errors."""
        return iteration_note(self.frame.op, self.counted(), self.frame.source)

    def counted(self) -> int:
        """The number of the iteration as the program counts them, which may be downwards."""
        slot = self.frame.backwards
        return self.iteration if slot < 0 else int(self.slots[slot]) - 1 - self.iteration


@final
class StepValues:
    """All values of a step.

    Attributes:
        by_tag: the open iterations; tag 0 is the graph itself.
    """

    __slots__ = ("_frames", "by_tag")

    def __init__(self, frames: Sequence[FrameLayout]) -> None:
        self._frames = frames
        self.by_tag: dict[int, FrameValues] = {0: FrameValues(frames[0], -1, 0)}

    def put(self, slots: Sequence[int], inputs: Sequence[Any]) -> None:
        """Store the inputs of the step that have a reader."""
        root = self.by_tag[0]
        for slot, value in zip(slots, inputs, strict=True):
            if root.left[slot]:
                root.slots[slot] = value

    def follow(self, instruction: SchedulerInstruction) -> None:
        """Move a value from one iteration to another, open one, or close one."""
        kind = instruction[0]
        if kind == "move":
            _, tag, node, to, port = instruction
            iteration = self.by_tag[tag]
            action = iteration.actions[node]
            source, target = action.inputs[port], action.outputs[0]
            if target >= 0:
                self.by_tag[to].slots[target] = iteration.slots[source]
            if not action.stays:
                iteration.left[source] -= 1
                if not iteration.left[source]:
                    iteration.slots[source] = None
        elif kind == "open":
            _, tag, parent, frame, number = instruction
            self.by_tag[tag] = FrameValues(self._frames[frame], parent, number)
        elif kind == "close":
            del self.by_tag[instruction[1]]

    def around(self, tag: int) -> Iterator[FrameValues]:
        """Iterate over the iterations around an iteration, itself included, innermost first."""
        iteration = self.by_tag[tag]
        while iteration.parent >= 0:
            yield iteration
            iteration = self.by_tag[iteration.parent]

    def loops(self, tag: int) -> tuple[tuple[str, int], ...]:
        """The loops around an iteration, by name and iteration as users count, outermost first."""
        return tuple([(p.frame.name, p.counted()) for p in self.around(tag)][::-1])

    def path(self, tag: int) -> tuple[tuple[str, int], ...]:
        """As `loops`, by frame key and with upward counts, which all partitions agree on."""
        inner = self.by_tag[tag]
        if inner.path is None:
            known = (inner.frame.key, inner.iteration)
            inner.path = (*self.path(inner.parent), known) if inner.parent > 0 else (known,)
        return inner.path

    def clear(self) -> None:
        """Let go of all values."""
        for iteration in self.by_tag.values():
            iteration.slots.clear()
        self.by_tag.clear()
