"""`Completion`: how an op that waits without a thread tells its step that it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.flow import Flow
    from eagerflow.runtime.scheduled.step import FlowStep

__all__ = ["Completion"]


@final
class Completion:
    """What ends an entry that waits without a thread: `done` or `failed`, from any thread, once.

    What comes later than the first answer, or after the step was stopped, is ignored.

    Attributes:
        flow: that the entry belongs to.
    """

    __slots__ = ("_entry", "_step", "_tag", "_tidy", "flow")

    def __init__(self, step: FlowStep, tag: int, entry: int, flow: Flow) -> None:
        self.flow = flow
        self._step: FlowStep | None = step
        self._tidy = step.at_end
        self._tag = tag
        self._entry = entry

    @property
    def answered(self) -> bool:
        """Whether there was an answer."""
        return self._step is None

    def done(self, *values: Any) -> None:
        """The results are there: raw arrays and numbers."""
        self._answer(values, None)

    def failed(self, error: BaseException) -> bool:
        """There will be none; whether this was the first answer."""
        return self._answer((), error)

    def at_end(self, action: Callable[[], object]) -> None:
        """Call ``action`` when the step ends, however it does."""
        self._tidy(action)

    def _answer(self, values: tuple[Any, ...], error: BaseException | None) -> bool:
        step, self._step = self._step, None
        return step is not None and step.complete(self._tag, self._entry, values, error)
