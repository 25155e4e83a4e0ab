"""A stage that is read ahead of time, by a thread of its own."""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, final

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.data.jobs import Channel, tell_taken
from eagerflow.data.opening import open_stage
from eagerflow.data.stage import AbstractCursor, AbstractStage, Length, stack_next
from eagerflow.errors import CancelledError
from eagerflow.events import listening

__all__ = ["PrefetchStage"]


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
class _PrefetchCursor(AbstractCursor):
    """Its position is that of the source behind the element that was taken last."""

    __slots__ = ("__weakref__", "_channel", "_device", "_ended", "_source", "_started", "_state")

    def __init__(self, source: AbstractCursor, count: int, device: str | None) -> None:
        self._source = source
        self._device = device
        self._channel: Channel[_Made] = Channel(count)
        self._state: dict[str, Any] | None = None  # before the start, that of the source
        self._started = False
        self._ended = False

    def next(self) -> Any:
        if self._ended:
            raise StopIteration
        if not self._started:
            self._start()
        start, depth = time.perf_counter(), self._channel.depth
        made = self._channel.get()
        if listening():
            tell_taken("prefetch", start, depth, made.value)
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
        weakref.finalize(self, _stop, self._source, self._channel)
        threading.Thread(
            target=_fill, args=(self._source, self._channel, self._device),
            name="eagerflow-prefetch", daemon=True,
        ).start()  # fmt: skip

    def chunk(self, count: int) -> tuple[Any, int]:
        return stack_next(self, count)

    @property
    def state(self) -> dict[str, Any]:
        return self._source.state if self._state is None else self._state

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state)

    def close(self) -> None:
        _stop(self._source, self._channel)


def _stop(source: AbstractCursor, channel: Channel[_Made]) -> None:
    channel.cancel()
    source.close()


def _fill(source: AbstractCursor, channel: Channel[_Made], device: str | None) -> None:
    """What the thread does: it must not know the cursor, which would then never be forgotten."""
    try:
        while True:
            made = _make(source, device)
            channel.put(made)
            if made.last:
                return
            del made
    except CancelledError:
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
