"""A node that waits until the values are there which it reads in the memory of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.step import ScheduledStep


@final
class LateValue:
    """What a device tells when a value is there. It lets go of the step when that ends.

    Args:
        step: the step.
        job: the node that is to be run then.
    """

    __slots__ = ("_held",)

    def __init__(self, step: ScheduledStep, job: tuple[int, int, list[Any]]) -> None:
        self._held: tuple[ScheduledStep, tuple[int, int, list[Any]]] | None = step, job

    def stop(self) -> None:
        """The step ends: its node is not to be run any more."""
        self._held = None

    def ready(self, error: Exception | None) -> None:
        """The value is there, or never will be: the node finds out, and says it with its line."""
        held = self._held
        self._held = None
        if held is not None:
            step, job = held
            step.go_on(job)
