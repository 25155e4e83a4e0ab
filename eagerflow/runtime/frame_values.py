"""What a step holds of one iteration of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from eagerflow.runtime.flow import Flow
from eagerflow.source import turn_note

__all__ = ["FrameValues"]

_OPS: Final = ("while_loop", "scan")


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

    def turn(self, flow: Flow) -> tuple[str, int]:
        """The name of the loop, and which turn of it this is, as people count."""
        frame, turn = flow.frames[self.frame], self.iteration
        if frame.backwards >= 0:
            turn = self.slots[frame.backwards] - 1 - turn
        return frame.name, turn

    def turn_note(self, flow: Flow) -> str:
        """In which turn of which loop this is, for errors."""
        name, turn = self.turn(flow)
        op = next((o for o in _OPS if name.startswith(o)), name)
        return turn_note(op, turn, flow.frames[self.frame].source)
