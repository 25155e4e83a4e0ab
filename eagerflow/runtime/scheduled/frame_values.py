"""What a step holds of one iteration of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from eagerflow.graph.signatures import is_loop, signatures
from eagerflow.loop_errors import iteration_note
from eagerflow.runtime.scheduled.flow import Flow

__all__ = ["FrameValues"]

_LOOPS: Final = tuple(filter(is_loop, signatures))


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
        layout = flow.frames[frame]
        self.frame = frame
        self.parent = parent
        self.iteration = iteration
        self.actions = layout.actions
        self.left = list(layout.readers)
        self.slots: list[Any] = [None] * len(self.left)

    def take(self, slots: Sequence[int]) -> list[Any]:
        """What slots hold, for an entry that reads it; the last reader empties the slot."""
        taken = []
        left, values = self.left, self.slots
        for slot in slots:
            taken.append(values[slot])
            left[slot] -= 1
            if not left[slot]:
                values[slot] = None
        return taken

    def iteration_note(self, flow: Flow) -> str:
        """In which iteration of which loop this is, for errors."""
        frame = flow.frames[self.frame]
        op = next((o for o in _LOOPS if frame.name.startswith(o)), frame.name)
        return iteration_note(op, self.counted(flow), frame.source)

    def counted(self, flow: Flow) -> int:
        """The number of the iteration as the program counts them, which may be downwards."""
        slot = flow.frames[self.frame].backwards
        return self.iteration if slot < 0 else int(self.slots[slot]) - 1 - self.iteration
