"""A stage that is read ahead of time, by a thread of its own."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.data.jobs import Handover, observed
from eagerflow.data.opening import open_stage
from eagerflow.data.stage import AbstractCursor, AbstractFollower, AbstractStage, Length
from eagerflow.errors import QueueClosedError
from eagerflow.resources.queue import QueueState

__all__ = ["PrefetchStage"]

_NAME: Final = "prefetch"


@final
class PrefetchStage(AbstractStage):
    """The same elements, made while those before are used."""

    __slots__ = ("count", "device", "sources")
    seed = None
    threads = True

    def __init__(self, of: AbstractStage, count: int, device: str | None) -> None:
        self.sources = (of,)
        self.count = count
        self.device = device

    @property
    def length(self) -> Length:
        return self.sources[0].length

    def view(self, epoch: int) -> None:
        return None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _PrefetchCursor(open_stage(self.sources[0], epoch), self.count, self.device)

    def __str__(self) -> str:
        device = "" if self.device is None else f", device={self.device!r}"
        return f"{self.sources[0]}.prefetch({self.count}{device})"


@final
@dataclass(frozen=True, slots=True)
class _Made:
    """What one reading of the source gave, and the position behind it."""

    value: Any
    error: BaseException | None
    state: dict[str, Any]

    @property
    def last(self) -> bool:
        return self.error is not None and (
            isinstance(self.error, StopIteration) or not isinstance(self.error, Exception)
        )


@final
class _PrefetchCursor(AbstractFollower):
    """Its position is that of the source behind the element that was taken last."""

    __slots__ = ("__weakref__", "_ahead", "_device", "_ended", "_started", "_state")

    def __init__(self, source: AbstractCursor, count: int, device: str | None) -> None:
        super().__init__(source)
        self._device = device
        self._ahead = Handover(_NAME, count)
        self._state: dict[str, Any] | None = None  # before the start, that of the source
        self._started = False
        self._ended = False

    def next(self) -> Any:
        if self._ended:
            raise StopIteration
        if not self._started:
            self._start()
        made = self._ahead.take()
        self._state = made.state
        self._ended = made.last
        error, value = made.error, made.value
        del made  # the traceback of the error leads here
        if error is None:
            return value
        try:
            raise error
        finally:
            del error

    def _start(self) -> None:
        self._started = True
        self._state = self._source.state
        weakref.finalize(self, _stop, self._source, self._ahead)
        threading.Thread(
            target=_fill, args=(self._source, self._ahead, self._device),
            name=f"eagerflow-{_NAME}", daemon=True,
        ).start()  # fmt: skip

    @property
    def state(self) -> dict[str, Any]:
        return self._source.state if self._state is None else self._state

    def close(self) -> None:
        _stop(self._source, self._ahead)

    @property
    def queues(self) -> list[QueueState]:
        return [*super().queues, self._ahead.queue]


def _stop(source: AbstractCursor, ahead: Handover) -> None:
    ahead.close()
    source.close()


def _fill(source: AbstractCursor, ahead: Handover, device: str | None) -> None:
    """What the thread does: it must not know the cursor, which would then never be forgotten."""
    try:
        while True:
            made = observed(_NAME, partial(_make, source, device))
            ahead.put(made)
            if made.last:
                return
            del made
    except QueueClosedError:
        return
    finally:
        source.close()


def _make(source: AbstractCursor, device: str | None) -> _Made:
    try:
        value = source.next()
        if device is not None:
            value = tree.map(lambda x: x.to(device) if type(x) is ef.Tensor else x, value)
        return _Made(value, None, source.state)
    except BaseException as error:
        return _Made(None, error, source.state)
