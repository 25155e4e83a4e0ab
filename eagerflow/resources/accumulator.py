"""The state of an accumulator: the sum of values added since the last take, and its step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from eagerflow.errors import TensorValueError
from eagerflow.events import QueueEvent
from eagerflow.hardware import Device
from eagerflow.resources.attempt_events import tell_operation
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.resources.requests import check_count
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.types import TensorType


@final
class _Take(AbstractAttempt):
    """The attempt that waits for enough values, and takes the sum and count of all values."""

    __slots__ = ("_count", "_taken")

    def __init__(self, accumulator: AccumulatorState, count: int) -> None:
        super().__init__(accumulator, 0, "take")
        self._count = count
        self._taken: tuple[Any, int] | None = None

    def step(self) -> bool:
        state = self.owner
        if state.count < self._count:
            return False
        step = state.step + 1
        self._taken = (state.total, state.count)
        state.total = None
        state.count = 0
        state.step = step
        self.done = True
        return True

    def retract(self) -> None:
        taken, state = self._taken, self.owner
        if taken is not None and not state.count:  # else later values belong to the next step
            step = state.step - 1
            self._taken = None
            state.total, state.count = taken
            state.step = step

    @property
    def value(self) -> tuple[Any, int] | None:
        return self._taken


@final
class AccumulatorState(AbstractMeeting):
    """A sum, the number of its values, and a step: values of an earlier step are dropped.

    Args:
        types: of the parts of a value.
        sparse: whether the parts are rows and their indices.
        device: the device of the parts.
        name: for display.

    Attributes:
        total: the sum, None if there are no values.
        count: the number of values in the sum.
        dropped: the number of values ever dropped, since their step was over.
        step: of the next take.
    """

    __slots__ = ("count", "device", "dropped", "sparse", "step", "total", "types")

    def __init__(
        self,
        types: Sequence[TensorType] = (),
        sparse: bool = False,
        device: Device | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(1, "sparse accumulator" if sparse else "accumulator", name)
        self.types = tuple(types)
        self.sparse = sparse
        self.device = device
        self.total: Any = None
        self.count = self.dropped = 0
        self.step = 0

    def __repr__(self) -> str:
        return f"{self.called(self.kind)} of {', '.join(map(str, self.specs)) or 'values'}"

    def state(self) -> str:
        with self.lock:
            waiting = self.waiting(0)
            parts = [f"{self!r} with {self.contents()}"]
        return ", ".join(parts + ([f"{waiting} waiting to take"] if waiting else []))

    def contents(self) -> str:
        """The number of values and the step: ``1 at step 3, 2 of earlier steps dropped``."""
        dropped = f", {self.dropped} of earlier steps dropped" if self.dropped else ""
        return f"{self.count} at step {self.step}{dropped}"

    def add(self, step: int, value: Any, plus: Callable[[Any, Any], Any]) -> bool:
        """Add a value, unless it is of an earlier step; returns whether it was added.

        Args:
            step: the step that the value was computed for.
            value: the value; it becomes the sum if there is none yet.
            plus: gives the sum of two values.
        """
        if QueueEvent.listeners:
            tell_operation(self, "add")
        with self.lock:
            if step < self.step:
                self.dropped += 1
                return False
            total = value if self.total is None else plus(self.total, value)
            self.total = total
            self.count += 1
        self.settle()
        return True

    def take(self, count: int) -> AbstractAttempt:
        """Wait for ``count`` values or more; the value is the sum and the count.

        Raises:
            TensorValueError: the count is not positive.
        """
        check_count("take", count)
        if not count:
            raise TensorValueError(f"take: {count} values", expected="a positive number of them")
        return _Take(self, count)

    def set_step(self, step: int) -> None:
        """Set the current step."""
        with self.lock:
            self.step = step

    def size(self) -> int:
        """The number of values in the sum."""
        return self.count
