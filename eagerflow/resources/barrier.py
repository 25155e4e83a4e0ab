"""The state of a barrier: elements assembled from parts that come in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, final

from eagerflow.errors import QueueClosedError, TensorValueError
from eagerflow.events import QueueEvent, told
from eagerflow.hardware import Device
from eagerflow.resources.attempt_events import operation_event
from eagerflow.resources.containers import DEFAULT
from eagerflow.resources.queue_kinds import PriorityStore
from eagerflow.resources.queue_state import QueueState, rest_hint
from eagerflow.resources.requests import check_count
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.source import Source
from eagerflow.types import DTYPES, DType, TensorSpec, TensorType

_MISSING: Final = object()
Key = int | bytes


@final
class BarrierState:
    """Elements by key; an element is *ready* when all its parts are there, else *incomplete*.

    Args:
        types: of the parts of an element.
        device: the device of the parts.
        name: for display.
        key_dtype: of the keys, int64 or bytes.

    Attributes:
        identity: its name in its container.
        ready: the queue of ready elements, ``(key, parts)``, in the order of their keys' arrival.
        closed: whether new keys are refused.
        cancelled: whether all parts are refused.
    """

    __slots__ = ("__weakref__", "_calls", "_incomplete", "cancelled", "closed", "device",
                 "identity", "key_dtype", "lock", "name", "ready", "types")  # fmt: skip

    def __init__(
        self, types: Sequence[TensorType], device: Device | None = None, name: str | None = None,
        key_dtype: DType = DTYPES["int64"],
    ) -> None:  # fmt: skip
        self.types = tuple(types)
        self.device = device
        self.name = name
        self.key_dtype = key_dtype
        self.identity = DEFAULT.add(self, name)
        self.ready = QueueState(None, PriorityStore(), "barrier", types, device, name)
        self.lock = self.ready.lock
        self.closed = False
        self.cancelled = False
        self._incomplete: dict[Key, tuple[int, list[Any]]] = {}
        self._calls = 0

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The types with the device."""
        return self.ready.specs

    @property
    def made(self) -> Source | None:
        """The line that made the barrier, None if not known."""
        return self.ready.made

    def __repr__(self) -> str:
        return repr(self.ready)

    def state(self) -> str:
        """The state of the barrier, in words."""
        with self.lock:
            closed = ", closed" if self.closed else ""
            ready, incomplete = self.ready.size(), len(self._incomplete)
        return f"{self!r} with {ready} ready and {incomplete} incomplete{closed}"

    def insert_many(self, part: int, keys: Sequence[Key], value: Callable[[int], Any]) -> None:
        """Insert one part of several elements, all or none.

        Args:
            part: the index of the part.
            keys: of the elements.
            value: gives the part by the position of its key.

        Raises:
            TensorValueError: an element has this part already.
            QueueClosedError: the barrier is closed, and a key is new.
        """
        with self._told("insert_many"):
            with self.lock:
                self._check(part, keys)
                values = [value(i) for i in range(len(keys))]
                self._calls += 1
                for key, x in zip(keys, values, strict=True):
                    self._insert(part, key, x)
                if self.closed:
                    self._finish()
            self.ready.settle()

    def _told(self, operation: str) -> AbstractContextManager[None]:
        """A context that reports an operation, if an instrument listens."""
        if not QueueEvent.listeners:
            return nullcontext()
        return told(operation_event(self.ready, operation))

    def _insert(self, part: int, key: Key, x: Any) -> None:
        call, parts = self._incomplete.setdefault(key, (self._calls, [_MISSING] * len(self.types)))
        parts[part] = x
        if all(y is not _MISSING for y in parts):
            self.ready.settle(self.ready.enqueue((key, tuple(parts)), call), tell=False)
            del self._incomplete[key]

    def _check(self, part: int, keys: Sequence[Key]) -> None:
        if self.cancelled or (self.closed and keys and not self._incomplete):
            raise self.ready.is_over("insert_many: the barrier is closed", self.state())
        seen = set[Key]()
        for key in keys:
            entry = self._incomplete.get(key)
            if key in seen or (entry is not None and entry[1][part] is not _MISSING):
                raise TensorValueError(
                    f"insert_many: key {key!r} already has a value for component {part}",
                    given=self.state(),
                )
            if entry is None and self.closed:
                raise self.ready.is_over(
                    f"insert_many: the barrier is closed, and key {key!r} is new",
                    self.state(),
                    "a key of an element that is incomplete",
                )
            seen.add(key)

    def take_many(self, count: int, partial: bool = False) -> AbstractAttempt:
        """Take ready elements; the value of the attempt is a list of ``(key, parts)``.

        Args:
            count: the number of elements.
            partial: whether fewer will do once the barrier is closed, but at least one.

        Raises:
            TensorValueError: the count is negative.
            QueueClosedError: there will never be enough elements.
        """
        check_count("take_many", count)
        with self.lock:
            if self.closed:
                there = self.ready.size()
                if partial:
                    wanted = count = max(min(count, there), 1)
                else:
                    there, wanted = there + len(self._incomplete), count
                if there < wanted:
                    raise self.ready.is_over(
                        "take_many: the barrier is closed and has too few elements",
                        self.state(),
                        f"{wanted} element{'s' * (wanted != 1)}",
                        None if partial or not there else rest_hint("take_many", wanted),
                    )
        attempt = self.ready.dequeue_many(count, partial)
        attempt.what = "take_many"
        return attempt

    def close(self, cancel: bool = False, failure: str | None = None) -> None:
        """Refuse new keys from now on.

        Args:
            cancel: refuse all parts, and drop incomplete elements.
            failure: the failure of the producer, quoted in later errors.

        Raises:
            QueueClosedError: the barrier is closed already, unless this is the first cancellation.
        """
        self.ready.failure = self.ready.failure or failure
        with self._told("close"):
            with self.lock:
                if self.closed and (self.cancelled or not cancel):
                    raise self.ready.closed_already(self.state(), "barrier")
                self.closed = True
                self.cancelled = cancel
                if cancel:
                    self._incomplete.clear()
                self._finish()
            self.ready.settle()

    def end(self, failure: str | None = None, cause: BaseException | None = None) -> None:
        """Close the barrier; it may be closed already.

        Args:
            failure: the failure of the producer, quoted in later errors. It cancels: all parts are
                refused, and incomplete elements dropped.
            cause: the error of the producer, the cause of later errors.
        """
        self.ready.cause = self.ready.cause or cause
        with suppress(QueueClosedError):
            self.close(failure is not None, failure)

    def _finish(self) -> None:
        """Close the queue of ready elements once none is incomplete. The lock is held."""
        if not self._incomplete and not self.ready.closed:
            self.ready.settle(self.ready.close(), tell=False)

    def ready_size(self) -> int:
        """The number of ready elements."""
        return self.ready.size()

    def incomplete_size(self) -> int:
        """The number of keys that still lack a part."""
        with self.lock:
            return len(self._incomplete)
