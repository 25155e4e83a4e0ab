"""What an executable expects of a tier, a way to run a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from eagerflow.events import StepEvent
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.generated.program_code import Code
from eagerflow.runtime.scheduled.detached import Result


class Tier(Protocol):
    """A way to run a graph."""

    @property
    def name(self) -> str:
        """The kind of tier."""

    @property
    def regions(self) -> Sequence[RegionCode]:
        """The generated functions that it runs in this process."""

    @property
    def direct(self) -> Code | None:
        """Code that a step without observer or deadline may call directly, or None."""

    @property
    def detached(self) -> Detach | None:
        """Makes a step that no caller waits for; None leaves such steps to the scheduler."""

    @property
    def text(self) -> str:
        """The program as readable text."""

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step on raw arrays and numbers, in the calling thread."""


class Detached(Protocol):
    """A step without a waiting caller."""

    @property
    def thread(self) -> int:
        """The thread that works for the step now, 0 for none."""

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin the step, on raw arrays and numbers."""

    def cancel(self, reason: str) -> None:
        """End the step soon."""


class Detach(Protocol):
    """Makes a step without a waiting caller."""

    def __call__(
        self, done: Callable[[Result], object], event: StepEvent | None, *, number: int,
        runner: str,
    ) -> Detached:  # fmt: skip
        """The step, not begun yet.

        Args:
            done: called once, in another thread, with a function that gives the outputs or raises
                the error of the step.
            event: the event of the step, if there is a listener; the step begins and ends it.
            number: the number of the step, for events within it.
            runner: the name of the runner that the step is for, in events.
        """
