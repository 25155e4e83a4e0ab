"""The prefetch stage, which a thread of its own reads ahead of the consumer."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import eagerflow as ef
from eagerflow.data.base.stage import AbstractCursor, AbstractFollower, AbstractStep
from eagerflow.data.workers.jobs import AbstractOutcome, Handover, observed
from eagerflow.data.workers.open_stage import open_stage
from eagerflow.extending import QueueState, ending, tree

_NAME: Final = "prefetch"


@final
@dataclass(eq=False, repr=False)
class PrefetchStage(AbstractStep):
    """The elements of the source, made ahead while earlier elements are used."""

    threads = True
    count: int
    device: str | None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _PrefetchCursor(open_stage(self.of, epoch), self.count, self.device)

    def __str__(self) -> str:
        device = "" if self.device is None else f", device={self.device!r}"
        return f"{self.of}.prefetch({self.count}{device})"


@final
class _Made(AbstractOutcome):
    """The outcome of one read of the source.

    Attributes:
        state: the position of the source behind the element.
        last: whether it is the last outcome.
    """

    def __init__(self, value: Any, error: BaseException | None, state: dict[str, Any]) -> None:
        super().__init__(value, error)
        self.state = state
        goes_on = isinstance(error, Exception) and not isinstance(error, StopIteration)
        self.last = error is not None and not goes_on


@final
class _PrefetchCursor(AbstractFollower):
    """A cursor whose position is that of the source behind the element taken last."""

    def __init__(self, source: AbstractCursor, count: int, device: str | None) -> None:
        super().__init__(source)
        self._device = device
        self._ahead = Handover(_NAME, count)
        self._state: dict[str, Any] | None = None  # None before the start: that of the source
        self._started = False
        self._feed: _Feed | None = None  # the thread holds a weak reference
        self._ended = False

    def next(self) -> Any:
        if self._ended:
            raise StopIteration
        if not self._started:
            self._start()
        made = self._ahead.take()
        self._state = made.state
        self._ended = made.last
        return made.result()

    def _start(self) -> None:
        self._started = True
        self._state = self._source.state
        self._feed = _Feed(self._source, self._ahead, self._device)
        thread = threading.Thread(
            target=_fill, args=(weakref.ref(self._feed),), name=f"eagerflow-{_NAME}", daemon=True
        )
        ending.start(thread)

    def __del__(self) -> None:
        if not self._ahead.closed:
            self.close()

    @property
    def state(self) -> dict[str, Any]:
        return self._source.state if self._state is None else self._state

    def close(self) -> None:
        self._ahead.close()
        self._source.close()

    @property
    def queues(self) -> list[QueueState]:
        return [*super().queues, self._ahead.queue]


@final
@dataclass(eq=False, repr=False)
class _Feed:
    """The producer side of a prefetch: it reads a source ahead of the consumer."""

    _source: AbstractCursor
    _ahead: Handover
    _device: str | None

    def fill(self) -> threading.Lock | None:
        """Read until there is no room; returns a lock that is released at room, None at the end."""
        make, last = partial(_make, self._source, self._device), False
        while not (last or self._ahead.closed):
            made = observed(_NAME, make)
            last = made.last
            bell = self._ahead.put(made, waits=not last)
            if bell is not None and not last:
                return bell
        self._source.close()
        return None


def _fill(feed: weakref.ref[_Feed]) -> None:
    """The target of the thread; while it waits it holds no reference to the iterator."""
    while (bell := _filled(feed)) is not None:
        bell.acquire()


def _filled(feed: weakref.ref[_Feed]) -> threading.Lock | None:
    referent = feed()
    return None if referent is None else referent.fill()


def _make(source: AbstractCursor, device: str | None) -> _Made:
    try:
        value = source.next()
        if device is not None:
            value = tree.map(lambda x: x.to(device) if type(x) is ef.Tensor else x, value)
        return _Made(value, None, source.state)
    except BaseException as error:
        return _Made(None, error, source.state)
