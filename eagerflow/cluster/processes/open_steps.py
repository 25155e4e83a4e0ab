"""A step at a task from its request to its end: inputs, cancellation, results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from eagerflow.cluster.processes.session_values import SessionWork, shape_head
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.message_heads import HandleHead, Head, Heads
from eagerflow.cluster.protocol.messages import RunStep
from eagerflow.cluster.protocol.values import Frame, decode_value, encode_value
from eagerflow.core.tensor import make_tensor
from eagerflow.errors import ProtocolError
from eagerflow.runtime.scheduled.detached import DetachedStep, Result
from eagerflow.runtime.scheduled.light_steps import LightStep
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.waiting_steps import WaitingStep
from eagerflow.runtime.threads.deadline import broken_off
from eagerflow.types import TensorType


@final
class OpenStep:
    """A step from its request to its end.

    Earlier requests of the session may take long, so a step can be cancelled before it begins.
    One thread may cancel the step while another begins it: each writes first, and then looks at
    what the other has written.

    Attributes:
        ended: the reason of a cancellation; None if the step goes on.
    """

    __slots__ = ("_running", "ended")

    def __init__(self) -> None:
        self.ended: str | None = None
        self._running: DetachedStep | LightStep | WaitingStep | None = None

    def cancel(self, reason: str) -> None:
        """End the step soon; one wait that has ended gives back what it has taken."""
        self.ended = reason
        if self._running is not None:
            self._running.cancel(reason)

    def begin(self, step: LightStep, feeds: Sequence[Any]) -> None:
        """Begin a step, or cancel it if that was asked for before."""
        self._running = step
        if self.ended is not None:
            step.cancel(self.ended)
        step.begin(feeds)

    def runs(self, step: DetachedStep | LightStep | WaitingStep) -> None:
        """Note that the step has begun, and cancel it if that was asked for before."""
        self._running = step
        if self.ended is not None:
            step.cancel(self.ended)


def feeds_of(
    tier: ScheduledTier, held: SessionWork, message: RunStep, frames: list[Frame]
) -> list[Any]:
    """The inputs of a step.

    Raises:
        ProtocolError: they are not of the types of the inputs.
    """
    left = iter(frames)
    given = [
        held.held(feed.handle)._data if type(feed) is HandleHead else decode_value(feed, left)
        for feed in message.feeds
    ]
    codec.all_taken(left)
    _check(tier, given)
    return given


def _check(tier: ScheduledTier, feeds: Sequence[Any]) -> None:
    """Refuse feeds that do not have the types of the inputs."""
    inputs = tier.graph.inputs
    if len(feeds) != len(inputs):
        raise ProtocolError(
            "another number of feeds than of inputs", given=f"{len(feeds)}, not {len(inputs)}"
        )
    for value, x in zip(inputs, feeds, strict=True):
        kind = value.type
        if isinstance(kind, TensorType):
            fits = getattr(x, "dtype", None) == kind.dtype.dtype and len(x.shape) == kind.ndim
            sizes = zip(kind.shape, getattr(x, "shape", ()), strict=False)
            fits = fits and all(type(a) is not int or a == b for a, b in sizes)
        else:
            fits = type(x) in (bool, kind.kind)
        if not fits:
            raise ProtocolError(f"a feed is not of the type of %{value.name}", expected=str(kind))


def results_of(
    opened: OpenStep, message: RunStep, held: SessionWork, tier: ScheduledTier, result: Result
) -> tuple[Heads, Sequence[Frame]]:
    """The results of a step, as they are sent; the values that the task keeps are kept here."""
    values = result()
    if opened.ended is not None:  # nobody wants them
        raise broken_off(opened.ended)
    if not values:
        return (), ()
    frames: list[Frame] = []
    if not message.keep:
        return tuple([encode_value(value, frames) for value in values]), frames
    heads: list[Head] = []
    for value, lane, handle in zip(values, tier.lanes, message.keep, strict=True):
        if handle and lane is not None:
            kept = held.values[handle] = make_tensor(value, lane)
            heads.append(shape_head(kept))
        else:
            heads.append(encode_value(value, frames))
    return tuple(heads), frames
