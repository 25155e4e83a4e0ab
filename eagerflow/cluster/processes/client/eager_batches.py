"""Eager actions that wait to be sent, put together into messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from msgspec.structs import replace

from eagerflow.cluster.processes.client.pending_answers import Unasked
from eagerflow.cluster.processes.shared_memory.slabs import WrittenSlab
from eagerflow.cluster.protocol.eager_actions import Action, FreeHandles
from eagerflow.cluster.protocol.long_frames import SentFrame
from eagerflow.cluster.protocol.messages import RunStep

#: actions of one message
_BATCH: Final = 2_000

_Batch = tuple[list[Action], list[SentFrame | WrittenSlab]]


@final
class EagerBatches:
    """The actions of each sender that are not sent yet, in order, with their frames.

    Args:
        send: sends actions of a sender, with their frames, in one message.

    Attributes:
        waiting: the actions and frames, by sender.
    """

    def __init__(
        self, send: Callable[[Unasked, list[Action], list[SentFrame | WrittenSlab]], object]
    ) -> None:
        self._send = send
        self.waiting: Final[dict[Unasked, _Batch]] = {}

    def add(
        self, sender: Unasked, action: Action, frames: Sequence[SentFrame | WrittenSlab]
    ) -> None:
        """Add an eager action to the batch of its task; a slab needs a message of its own."""
        alone = bool(frames) and isinstance(frames[0], WrittenSlab)
        if alone and sender in self.waiting:
            self._send(sender, *self.waiting.pop(sender))
        batch = self.waiting.get(sender)
        if batch is None:
            batch = self.waiting[sender] = [], []
        actions, held = batch
        actions.append(action)
        held.extend(frames)
        if alone or len(actions) >= _BATCH:
            self._send(sender, *self.waiting.pop(sender))

    def flush(self, *, but_frees: bool = False) -> None:
        """Send the batches; batches that only free handles may wait for the message of a step."""
        for sender, (actions, frames) in list(self.waiting.items()):
            if not but_frees or any(type(action) is not FreeHandles for action in actions):
                del self.waiting[sender]
                self._send(sender, actions, frames)

    def letting_go(self, task: str, message: RunStep) -> RunStep:
        """The message of a step, extended by the handles of its task that are to be freed."""
        for sender, (actions, _) in self.waiting.items():
            if sender.task == task:
                del self.waiting[sender]
                free = [h for one in actions if type(one) is FreeHandles for h in one.handles]
                return replace(message, free=tuple(free))
        return message
