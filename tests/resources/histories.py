"""Recorded histories of queue operations, and the sequential models to check them against."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerflow.dims import Dim
from eagerflow.errors import EagerflowError
from eagerflow.resources.queue_kinds import KINDS
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.types import DTYPES, TensorType
from eagerflow_kernels.portable.waiting import waiting
from tests.resources.linear import Model, Operation

LEAST = 1  # minimum number of elements in shuffle queues
CAPACITY = 3


def make_queue(kind: str, seed: int = 0) -> QueueState:
    record = KINDS[kind]
    types = [TensorType(DTYPES["int64"], (Dim("n"),))] if record.fills_up else []
    return QueueState(CAPACITY, record.store(LEAST, seed), kind, types)


class QueueModel:
    """The sequential model of a queue; its state is the elements in order, and closed or not.

    Elements of priority queues are ``(priority, element)``, those of padding queues one to three
    equal numbers.
    """

    def __init__(self, kind: str, bounded: bool) -> None:
        self.kind = kind
        self.room = CAPACITY if bounded else 10**9

    def __call__(self, state: Any, move: str, value: Any) -> Iterator[Any]:
        states: Iterator[Any] = getattr(self, move.replace(" ", "_"))(*state, value)
        return states

    def put(self, items: Any, closed: bool, value: Any) -> Iterator[Any]:
        if not closed and len(items) < self.room:
            yield (*items, value), closed

    def refused(self, items: Any, closed: bool, value: Any) -> Iterator[Any]:
        if closed:
            yield items, closed

    def size(self, items: Any, closed: bool, value: Any) -> Iterator[Any]:
        if len(items) == value:
            yield items, closed

    def close(self, items: Any, closed: bool, value: Any) -> Iterator[Any]:
        if not closed:
            yield items, True

    def too_few(self, items: Any, closed: bool, value: Any) -> Iterator[Any]:
        if closed and len(items) < value:
            yield items, closed

    def all(self, items: Any, closed: bool, value: Any) -> Iterator[Any]:
        if sorted(items, key=lambda x: x[0])[: len(value)] == list(value):
            rest = list(items)
            for x in value:
                rest.remove(x)
            yield tuple(rest), closed

    def take(self, items: Any, closed: bool, value: Any) -> Iterator[Any]:
        shuffle = self.kind == "shuffle"
        least = LEAST if shuffle and not closed else 0
        places = range(len(items)) if shuffle else range(min(len(items), 1))
        for i in places if len(items) > least else ():
            if items[i] == value:
                yield items[:i] + items[i + 1 :], closed


def model_of(kind: str, bounded: bool) -> Model:
    """The sequential model of a kind of queue."""
    return QueueModel(kind, bounded)


class Recorder:
    """Begins operations on a queue, and records the times at which they begin and end.

    Operations on padding queues come from the kernels of the ops, which do the padding.
    """

    def __init__(self, kind: str, seed: int = 0) -> None:
        self.kind = kind
        self.queue = make_queue(kind, seed)
        self.time = itertools.count()
        self.values = itertools.count()
        self.begun: list[tuple[Operation, AbstractAttempt, Any]] = []
        self.finishes: dict[AbstractAttempt, Any] = {}

    def make(self, action: str, count: int, priority: int) -> tuple[AbstractAttempt, Any]:
        """An attempt, with the elements that it enqueues or the number that it wants."""
        queue = self.queue
        if action == "close":
            return queue.close(), None
        if self.kind == "padding":
            return self.make_padded(action, count, priority + 1)
        if action.startswith("enqueue"):
            values = [next(self.values) for _ in range(count)]
            priorities = [(priority + 7 * i) % 3 for i in range(count)]
            brought = list(zip(priorities, values, strict=True))
            elements: list[Any] = brought if self.kind == "priority" else values
            return queue.enqueue_many(count, elements.__getitem__, priorities), elements
        return queue.dequeue_many(count, action == "up_to"), count

    def make_padded(self, action: str, count: int, size: int) -> tuple[AbstractAttempt, Any]:
        queue = self.queue
        if action.startswith("enqueue"):
            rows = [(next(self.values) + 1,) * size for _ in range(count)]
            given = np.array(rows, np.int64).reshape(count, size)
            return waiting["queue_enqueue_many"](np, given, resource=queue)[0], rows
        op = "queue_dequeue_up_to" if action == "up_to" else "queue_dequeue_many"
        attempt, self.finishes[attempt] = waiting[op](np, resource=queue, count=count)
        return attempt, count

    def shown(self, element: Any) -> Any:
        """The form of an element in the history."""
        return tuple(element[0].tolist()) if self.kind == "padding" else element

    def taken(self, attempt: AbstractAttempt) -> list[Any]:
        """The elements taken by an operation; for padding queues, checks the finished batch."""
        rows = [self.shown(x) for x in attempt.value]
        if self.kind == "padding" and attempt.done and rows:
            (batch,) = self.finishes[attempt](attempt.value)
            widest = max(map(len, rows))
            assert batch.tolist() == [[*row, *[0] * (widest - len(row))] for row in rows]
        return rows

    def begin(self, action: str, count: int, priority: int) -> None:
        if action == "size":
            op = Operation("size", next(self.time))
            op.moves.append(("size", self.queue.size()))
            op.end = next(self.time)
            self.begun.append((op, self.queue.close(), None))
            return
        attempt, given = self.make(action, count, priority)
        op = Operation(action, next(self.time))
        self.begun.append((op, attempt, given))

        def ended() -> None:
            op.end = next(self.time)

        attempt.begin(ended)

    def history(self) -> list[Operation]:
        """The operations, with their moves."""
        for op, attempt, given in self.begun:
            if op.kind != "size":
                self.finish(op, attempt, given)
        return [op for op, _, _ in self.begun]

    def finish(self, op: Operation, attempt: Any, given: Any) -> None:
        try:
            attempt.result()
        except EagerflowError as error:
            op.error = type(error).__name__
        if op.kind == "close":
            if attempt.done and not op.error:
                op.moves = [("close", None)]
            elif op.error == "QueueClosedError":
                op.moves = [("refused", None)]
        elif op.kind.startswith("enqueue"):
            op.moves = [("put", x) for x in given[: attempt.sent]]
            if op.error == "QueueClosedError":
                op.moves.append(("refused", None))
        elif op.error == "QueueClosedError":
            op.moves = [("too few", 1 if op.kind == "up_to" else given)]
        elif self.kind == "priority":
            op.moves = [("all", tuple(attempt.value))] if attempt.value else []
        else:
            op.moves = [("take", x) for x in self.taken(attempt)]

    @property
    def gave_back(self) -> bool:
        """Whether some operation gave elements back after an error, which the models exclude."""
        return any(op.error and op.kind in ("dequeue_many", "up_to") for op, _, _ in self.begun)
