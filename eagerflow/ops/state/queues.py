"""Queues: buffers between producers and consumers, with back-pressure on both.

The kinds of queues are in `eagerflow.resources.queue_kinds`, their ops in `queue_ops.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, final

from eagerflow.core.interpreter import is_traced, stack
from eagerflow.core.op import Op, bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import Dim
from eagerflow.errors import (
    QueueClosedError,
    ShapeError,
    TensorValueError,
    TraceError,
)
from eagerflow.formatting import escape
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.ops.state.counts_and_timeouts import (
    bind_wait,
    checked_count,
    integer,
    timeout_of,
)
from eagerflow.ops.state.queue_elements import (
    Elements,
    check,
    part_of,
    told,
)
from eagerflow.ops.state.queue_ops import (
    CANCEL_AND_CLOSE,
    CLOSE,
    CLOSED,
    DEQUEUE,
    DEQUEUE_MANY,
    DEQUEUE_UP_TO,
    ENQUEUE,
    ENQUEUE_MANY,
    SIZE,
)
from eagerflow.resources.queue_kinds import KINDS
from eagerflow.resources.queue_levels import to_html
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.resources_at_tasks import (
    ResourceAtTask,
    ResourceRecipe,
    resource_on,
)
from eagerflow.resources.waiting_operations import loops_over_queues
from eagerflow.types import INT64, TensorType
from eagerflow.unknown_names import hint_at

__all__ = ["Queue"]


@final
class Queue:
    """A queue of elements between producers and consumers, each of which waits for the other.

    An element is a tensor or a pytree of tensors. `enqueue` waits while the queue is full,
    `dequeue` while it is empty, each in the order of requests. Any number of threads and traced
    functions may do so at once. Waiting uses no CPU, and Ctrl-C interrupts it. After `close`,
    no element is accepted, and the remaining elements can be taken; a request for more raises a
    `QueueClosedError`, or a `RunnerFailedError` if a runner closed it as it failed. The rules are
    TensorFlow's, case by case: see ``docs/queues.md``.

    In a traced function these are nodes that wait for all effects before them, and later effects
    wait for them (see `eagerflow.unordered`). Elements taken are constants to derivatives.

    Args:
        capacity: the maximum number of elements; None for no limit.
        like: an example element, for dtypes and shapes: a tensor or a pytree of tensors. A string
            such as ``"f32[n,3]"`` in place of a tensor names the sizes that may differ from element
            to element; within an element, a name stands for one size.
        kind: ``"fifo"``, first in, first out; ``"shuffle"``, random order; ``"padding"``, first in,
            first out, and sizes may differ: `dequeue_many` pads with zeros (all sizes of a tensor,
            the named sizes of a string); ``"priority"``, the lowest number first, in order among
            equals.
        min_after_dequeue: for a shuffle queue, the number of elements that remain to choose from,
            until the queue is closed.
        seed: for a shuffle queue, a seed for reproducible order; random by default.
        device: device of the elements; by default that of ``like``. A queue on a device of a task
            (`eagerflow.cluster`) is in the process of that task.
        name: name for display, and for other clients in a container.
        container: name of a container of the task. All clients that name the same container, queue,
            kind, type and capacity have the same queue. By default a queue is private.

    Raises:
        TensorValueError: the capacity, the kind or an option is not valid.
        DTypeError: ``like`` is no tensor and no type, or a number is no integer.
        ResourceError: the container has another resource of that name, or the device belongs to no
            task.

    Source: Abadi et al., TensorFlow: A System for Large-Scale Machine Learning, OSDI 2016, §3.1.

    >>> queue = ef.Queue(10, ef.tensor([0.0, 0.0]))
    >>> queue.enqueue([1.0, 2.0])
    >>> queue.enqueue([3.0, 4.0])
    >>> queue.dequeue()
    Tensor([1., 2.], f32[2]@cpu:0)
    >>> queue
    Queue(fifo, f32[2]@cpu:0, 1 of 10)
    """

    __slots__ = ("__weakref__", "_elements", "_kind", "_shapes", "resource")

    def __init__(
        self,
        capacity: int | None,
        like: object,
        *,
        kind: Literal["fifo", "shuffle", "padding", "priority"] = "fifo",
        min_after_dequeue: int = 0,
        seed: int | None = None,
        device: DeviceLike = None,
        name: str | None = None,
        container: str | None = None,
    ) -> None:
        room = _checked_capacity(capacity)
        if kind not in [*KINDS]:  # it may be unhashable
            raise TensorValueError(f"Queue: kind={kind!r}", expected=", ".join(map(repr, KINDS)))
        self._kind = KINDS[kind]
        if not self._kind.chooses and (min_after_dequeue or seed is not None):
            raise TensorValueError(
                "Queue: min_after_dequeue and seed are of shuffle queues", given=f"kind={kind!r}"
            )
        least = integer("Queue: min_after_dequeue", min_after_dequeue)
        if not 0 <= least < (float("inf") if room is None else room):
            raise TensorValueError(
                f"Queue: min_after_dequeue={min_after_dequeue}",
                given=f"capacity={capacity}",
                expected="0 or more, and less than the capacity",
            )
        self._elements = elements = Elements("Queue", like, device, self._kind.fills_up)
        shapes = [t.shape for t in elements.types]
        named = any(isinstance(size, Dim) for shape in shapes for size in shape)
        #: shapes that need no further check
        self._shapes: list[Any] | None = None if named else shapes
        types, where = elements.types, elements.device
        self.resource: QueueState | ResourceAtTask = resource_on(
            where, ResourceRecipe(kind, types, room, least, seed), name, container,
            lambda: QueueState(room, self._kind.store(least, seed), kind, types, where, name),
        )  # fmt: skip

    @property
    def capacity(self) -> int | None:
        """The maximum number of elements; None for no limit."""
        room = self.resource.room
        return None if room == float("inf") else int(room)

    @property
    def kind(self) -> str:
        """The kind of queue: the order in which elements are taken."""
        return self.resource.kind

    @property
    def name(self) -> str | None:
        """The name of the queue, for display."""
        return self.resource.name

    @property
    def closed(self) -> bool:
        """Whether the queue accepts no more elements; in a traced function, a tensor of each run.

        >>> queue = ef.Queue(10, ef.tensor(0))
        >>> left = ef.trace(lambda: ef.where(queue.closed, queue.size(), -1))
        >>> left()
        Tensor(-1, i64[]@cpu:0)
        >>> queue.close()
        >>> queue.closed, left()
        (True, Tensor(0, i64[]@cpu:0))
        """
        state = self.resource
        if isinstance(state, ResourceAtTask):
            closed: Any = bind(CLOSED, resource=state, device=state.device)
            return closed if is_traced() else bool(closed)
        return told(CLOSED, state, bool(state.closed))

    def __repr__(self) -> str:
        state = self.resource
        if isinstance(state, ResourceAtTask):
            room = "" if self.capacity is None else f", at most {self.capacity}"
            return f"Queue({self._heading()}{room})"
        return f"Queue({self._heading()}, {state.level()})"

    def _repr_html_(self) -> str:
        state = self.resource
        if isinstance(state, ResourceAtTask):
            return f"<code>{escape(repr(self))}</code>"
        return to_html(f"Queue({self._heading()})", [state.level()])

    def _heading(self) -> str:
        state = self.resource
        name = "" if state.name is None else f" {state.name!r}"
        return f"{state.kind}{name}, {', '.join(map(str, state.specs))}"

    # --- enqueueing ---

    def enqueue(
        self,
        element: object,
        *,
        priority: TensorLike | None = None,
        timeout: TensorLike | None = None,
    ) -> None:
        """Add an element; waits while the queue is full.

        Args:
            element: an element of the structure, dtypes and shapes of the queue.
            priority: for a priority queue: an integer; the lowest is taken first.
            timeout: maximum number of seconds to wait.

        Raises:
            QueueClosedError: the queue is closed, or was closed and cancelled while this waited.
            WaitTimeoutError: the queue was full until the timeout.
            ShapeError: the structure or a shape differs.
            DTypeError: a dtype differs.

        >>> queue = ef.Queue(10, {"x": ef.zeros(2), "label": ef.tensor(0)})
        >>> queue.enqueue({"x": [1.0, 2.0], "label": 3})
        >>> queue.dequeue()["label"]
        Tensor(3, i64[]@cpu:0)
        """
        self._put(ENQUEUE, "enqueue", element, priority, timeout)

    def enqueue_many(
        self,
        elements: object,
        *,
        priority: TensorLike | None = None,
        timeout: TensorLike | None = None,
    ) -> None:
        """Add the elements along the first axis of each part, as space permits.

        They stay together: no other element comes in between. There may be more than the
        capacity; then this waits until earlier elements are taken. If it fails after a wait, some
        of the elements may have been added.

        Args:
            elements: a tree as for `enqueue`, with an additional first axis.
            priority: for a priority queue: an integer for each element, or one for all.
            timeout: maximum number of seconds to wait.

        Raises:
            QueueClosedError: the queue is closed, or was closed and cancelled while this waited.
            WaitTimeoutError: the queue was full until the timeout.
            ShapeError: the structure or a shape differs, or parts have different lengths.
            DTypeError: a dtype differs.

        >>> queue = ef.Queue(10, ef.tensor(0), kind="priority")
        >>> queue.enqueue_many([10, 20, 30], priority=[2, 1, 1])
        >>> queue.dequeue_many(3)
        Tensor([20, 30, 10], i64[3]@cpu:0)
        """
        self._put(ENQUEUE_MANY, "enqueue_many", elements, priority, timeout)

    def _put(
        self,
        op: Op,
        what: str,
        element: object,
        priority: TensorLike | None,
        timeout: TensorLike | None,
    ) -> None:
        state, seconds = self.resource, timeout_of(what, timeout)
        if isinstance(state, ResourceAtTask):
            state.check()  # before the elements are sent
        inputs = self._elements.split(what, element, many=op is ENQUEUE_MANY, holder=state)
        if self._kind.has_priorities != (priority is not None):
            raise TensorValueError(
                f"{what}: a priority is for priority queues, and they need one",
                given=f"{state!r}, priority={priority!r}",
            )
        if priority is not None:
            inputs.append(part_of(what, priority, TensorType(INT64, ()).on(state.device)))
        eager = op is ENQUEUE and not stack.installed  # else a size may be symbolic
        if eager and self._shapes == [x._data.shape for x in inputs]:
            bind(op, *inputs, resource=state, timeout=seconds)  # dtypes have been checked
        else:
            check(op, what, inputs, state)
            bind_wait(op, inputs, state.device, seconds, resource=state)

    # --- dequeueing ---

    def dequeue(self, *, timeout: TensorLike | None = None) -> Any:
        """Take the next element; waits while the queue is empty.

        Args:
            timeout: maximum number of seconds to wait.

        Raises:
            QueueClosedError: the queue is closed and empty.
            WaitTimeoutError: the queue was empty until the timeout.

        >>> queue = ef.Queue(10, ef.tensor(0))
        >>> queue.enqueue(5)
        >>> queue.dequeue()
        Tensor(5, i64[]@cpu:0)
        """
        return self._take(DEQUEUE, timeout_of("dequeue", timeout))

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the elements, until the queue is closed and empty.

        Raises:
            RunnerFailedError: a runner that failed closed the queue.
            TraceError: the iteration is in a traced function, which would be traced without end.

        >>> queue = ef.Queue(10, ef.tensor(0))
        >>> queue.enqueue(5)
        >>> queue.close()
        >>> list(queue)
        [Tensor(5, i64[]@cpu:0)]
        """
        if is_traced():
            raise TraceError(
                f"a traced function cannot iterate over Queue({self._heading()})",
                hint="take one element in each call, x = queue.dequeue(), and let a runner repeat "
                "it: ef.spawn(f)",
            )
        return self._until_closed()

    def _until_closed(self) -> Iterator[Any]:
        while True:
            try:
                element = self.dequeue()
            except QueueClosedError:
                loops_over_queues.ended += 1
                return
            yield element

    def dequeue_many(self, n: TensorLike, *, timeout: TensorLike | None = None) -> Any:
        """Take ``n`` elements, stacked along a new first axis; waits until there are as many.

        Elements are collected as they arrive, so ``n`` may exceed the capacity (except for a
        priority queue, which returns the lowest). If it fails, collected elements go back.

        Args:
            n: number of elements; a size of a tensor, such as ``x.shape[0]``, or an integer tensor
                may differ between runs of a traced function.
            timeout: maximum number of seconds to wait; likewise.

        Returns:
            A tree of tensors ``[n, ...]``; in a padding queue, of the size of the largest element.

        Raises:
            QueueClosedError: the queue is closed and has fewer elements; these stay in it. Of a
                runner, whose end this is, there is a warning instead.
            WaitTimeoutError: there were fewer elements within the timeout.
            ShapeError: the sizes of elements may differ, and the queue is no padding queue.

        >>> queue = ef.Queue(10, ef.tensor([0]), kind="padding")
        >>> for element in ([1], [2, 3], []):
        ...     queue.enqueue(ef.tensor(element, dtype="int64"))
        >>> queue.dequeue_many(3)
        Tensor([[1, 0],
                [2, 3],
                [0, 0]], i64[3,2]@cpu:0)
        """
        return self._take_many(DEQUEUE_MANY, "dequeue_many", n, timeout)

    def dequeue_up_to(self, n: TensorLike, *, timeout: TensorLike | None = None) -> Any:
        """As `dequeue_many`, but if the queue is closed, fewer remaining elements suffice.

        Raises:
            QueueClosedError: the queue is closed and empty.
            WaitTimeoutError: there were fewer within the timeout, and the queue is not closed.

        >>> queue = ef.Queue(10, ef.tensor(0))
        >>> queue.enqueue_many([1, 2, 3])
        >>> queue.close()
        >>> queue.dequeue_up_to(2), queue.dequeue_up_to(2)
        (Tensor([1, 2], i64[2]@cpu:0), Tensor([3], i64[1]@cpu:0))
        """
        return self._take_many(DEQUEUE_UP_TO, "dequeue_up_to", n, timeout)

    def _take_many(self, op: Op, what: str, n: TensorLike, timeout: TensorLike | None) -> Any:
        state, count = self.resource, checked_count(what, n)
        if not self._kind.fills_up and self._shapes is None:
            raise ShapeError(
                f"{what}: elements of different sizes do not stack",
                given=repr(state),
                hint="a queue of kind='padding' fills them up",
            )
        return self._take(op, timeout_of(what, timeout), count)

    def _take(self, op: Op, seconds: Any, count: Any = None) -> Any:
        state = self.resource
        outputs = bind_wait(op, [], state.device, seconds, count, resource=state)
        return self._elements.join(outputs)

    # --- size and closing ---

    def size(self) -> Tensor:
        """The number of elements, as a tensor ``i64[]``.

        >>> ef.Queue(10, ef.tensor(0.0)).size()
        Tensor(0, i64[]@cpu:0)
        """
        state = self.resource
        return bind(SIZE, resource=state, device=state.device)

    def close(self, cancel_pending: bool = False, *, timeout: TensorLike | None = None) -> None:
        """Close the queue: it accepts no more elements.

        Remaining elements can be taken; consumers that wait for more get a `QueueClosedError`.

        Args:
            cancel_pending: whether waiting producers are cancelled. Else this waits until their
                elements are added.
            timeout: maximum number of seconds to wait.

        Raises:
            QueueClosedError: the queue is closed already, and ``cancel_pending`` is false.
            WaitTimeoutError: producers were still waiting at the timeout; the queue stays open.
        """
        state = self.resource
        if cancel_pending:
            bind(CANCEL_AND_CLOSE, resource=state, device=state.device)
        else:
            bind_wait(CLOSE, [], state.device, timeout_of("close", timeout), resource=state)


#: names of other frameworks; their replacements: `hints/attribute_names.py`
_HINTED: Final = """
    append empty extend full get get_many get_nowait is_closed join maxsize pop popleft push put
    put_many put_nowait qsize shutdown task_done
"""
hint_at(Queue, _HINTED.split())


def _checked_capacity(capacity: int | None) -> int | None:
    if capacity is None:
        return None
    limit = integer("Queue: capacity", capacity)
    if limit < 1:
        raise TensorValueError(
            f"Queue: capacity={capacity}", expected="1 or more, or None for any number"
        )
    return limit
