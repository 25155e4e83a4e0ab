"""What ends a node that waits without a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, final

from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.strands.run import RunsGraph

if TYPE_CHECKING:
    from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
    from eagerflow.runtime.scheduled.step import ScheduledStep


class AbstractCompletion(Protocol):
    """What ends a node that waits without a thread: `done` or `failed`, from any thread, once."""

    @property
    def tier(self) -> RunsGraph: ...

    def done(self, *values: Any) -> None: ...

    def failed(self, error: BaseException) -> bool: ...

    def at_end(self, action: Callable[[], object]) -> None: ...


@final
class Completion:
    """What ends a node that waits without a thread: `done` or `failed`, from any thread, once.

    What comes later than the first answer, or after the step was stopped, is ignored.

    Attributes:
        tier: that the node belongs to.
    """

    __slots__ = ("_node", "_step", "_tag", "_tidy", "tier")

    def __init__(self, step: ScheduledStep, tag: int, node: int, tier: ScheduledTier) -> None:
        self.tier = tier
        self._step: ScheduledStep | None = step
        self._tidy = step.at_end
        self._tag = tag
        self._node = node

    @property
    def rendezvous(self) -> Rendezvous:
        """Where the partitions of the step meet."""
        assert self._step is not None  # the node was not answered for
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
        """A thread of the step that has nothing else to do may call ``work``, if that is given."""
        step = self._step
        if step is not None and work is not None:
            step.bring_on(self._tag, self._node, work)

    def done(self, *values: Any) -> None:
        """The results are there: raw arrays and numbers."""
        self._answer(values, None)

    def failed(self, error: BaseException) -> bool:
        """There will be none; whether this was the first answer."""
        return self._answer((), error)

    def end(self, error: BaseException | None, *values: Any) -> bool:
        """The one or the other; whether this was the first answer."""
        return self._answer(values if error is None else (), error)

    def at_end(self, action: Callable[[], object]) -> None:
        """Call ``action`` when the step ends, however it does."""
        self._tidy(action)

    def _answer(self, values: tuple[Any, ...], error: BaseException | None) -> bool:
        step, self._step = self._step, None
        return step is not None and step.complete(self._tag, self._node, values, error)
