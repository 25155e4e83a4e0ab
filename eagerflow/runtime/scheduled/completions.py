"""Completions: callbacks that end nodes that wait without a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, final

from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.strands.run import RunsGraph

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
    from eagerflow.runtime.scheduled.step_state import AbstractScheduledStep


class AbstractCompletion(Protocol):
    """Ends a node that waits without a thread, by `done` or `failed`, from any thread, once."""

    @property
    def tier(self) -> RunsGraph: ...

    def done(self, *values: Any) -> None: ...

    def failed(self, error: BaseException) -> bool: ...

    def at_end(self, action: Callable[[], object]) -> None: ...


@final
class Completion:
    """Ends a node that waits without a thread, by `done` or `failed`, from any thread, once.

    Answers after the first, or after the step was stopped, are ignored.

    Attributes:
        tier: the tier that the node belongs to.
    """

    __slots__ = ("_node", "_step", "_tag", "_tidy", "tier")

    def __init__(
        self, step: AbstractScheduledStep, tag: int, node: int, tier: ScheduledTier
    ) -> None:
        self.tier = tier
        self._step: AbstractScheduledStep | None = step
        self._tidy = step.at_end
        self._tag = tag
        self._node = node

    @property
    def rendezvous(self) -> Rendezvous:
        """The rendezvous of the step."""
        assert self._step is not None  # there was no answer yet
        assert self._step.rendezvous is not None
        return self._step.rendezvous

    def path(self) -> tuple[tuple[str, int], ...]:
        """The frames around the node, with the numbers of their iterations."""
        return () if self._step is None else self._step.path(self._tag)

    @property
    def answered(self) -> bool:
        """Whether there was an answer."""
        return self._step is None

    def brought_on(self, work: Callable[[], object] | None) -> None:
        """Let an idle thread of the step call ``work``, if that is given."""
        step = self._step
        if step is not None and work is not None:
            step.bring_on(self._tag, self._node, work)

    def done(self, *values: Any) -> None:
        """End the node with its results: raw arrays and numbers."""
        self._answer(values, None)

    def failed(self, error: BaseException) -> bool:
        """End the node with an error; whether this was the first answer."""
        return self._answer((), error)

    def end(self, error: BaseException | None, *values: Any) -> bool:
        """End the node with results, or with an error; whether this was the first answer."""
        return self._answer(values if error is None else (), error)

    def at_end(self, action: Callable[[], object]) -> None:
        """Call ``action`` when the step ends, however it does."""
        self._tidy(action)

    def _answer(self, values: tuple[Any, ...], error: BaseException | None) -> bool:
        step, self._step = self._step, None
        return step is not None and step.complete(self._tag, self._node, values, error)
