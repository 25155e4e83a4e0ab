"""Queues and their like that tasks hold for this process, and eager ops on them.

Such an op is a step of a partition of one node, registered at the first call of the op. A step
waits without a thread, and is aborted by Ctrl-C, a deadline, or the end of the session. The call
returns when the op has ended: programs are steered by the errors of these ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from math import inf
from threading import Lock
from time import monotonic
from typing import Any, Final, NamedTuple, final

import numpy as np

from eagerflow.cluster.processes.client.pending_answers import Pending
from eagerflow.cluster.protocol.failures import read_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, Feeds, HandleHead, Handles
from eagerflow.cluster.protocol.messages import Release
from eagerflow.cluster.protocol.partitions import write_partition
from eagerflow.cluster.protocol.timeouts import ABORT_SECONDS
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.cluster.remote.arrays import RemoteArray
from eagerflow.cluster.remote.tasks import RemoteTask, streams
from eagerflow.core.infer import infer_specs
from eagerflow.core.op import Op, get_op
from eagerflow.dims import Dim
from eagerflow.dims.size_questions import resolving
from eagerflow.errors import (
    CancelledError,
    DataDependentError,
    EagerflowError,
    QueueClosedError,
    TaskLost,
    WaitTimeoutError,
    relocate,
)
from eagerflow.graph.ir import Graph, Node
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.resources_at_tasks import ResourceAtTask
from eagerflow.runtime.threads import deadline
from eagerflow.source import capture
from eagerflow.types import FLOAT64, INT64, TensorSpec, TensorType

#: begins the note that names the node of a graph: no graph of the user's
_NODE_NOTE: Final = "  node: "
#: seconds after a deadline in which the task may answer that the wait has ended
_PATIENCE: Final = ABORT_SECONDS
#: the reason why an element that was taken goes back
_UNWANTED: Final = "the call was interrupted"


class _Call(NamedTuple):
    """An op on a resource, registered at its task.

    Attributes:
        partition: the number of its partition.
        outputs: the number of its results.
    """

    partition: int
    outputs: int


@final
class HeldResource:
    """A resource that a task holds for the lifetime of this object.

    Args:
        task: the task.
        state: the stand-in for the resource in this process.

    Attributes:
        task: the same.
        place: its container, and its name there.

    Raises:
        ResourceError: the container has something else of that name.
    """

    __slots__ = ("__weakref__", "_calls", "_lock", "place", "task")

    def __init__(self, task: RemoteTask, state: ResourceAtTask) -> None:
        self._calls: dict[Any, _Call] = {}
        self._lock = Lock()
        self.place = state.identity.container, state.identity.name
        self.task = task
        task.make_resource(state)

    def __del__(self) -> None:
        task: RemoteTask | None = getattr(self, "task", None)
        if task is None:  # it was not made, or is a copy
            return
        task.drop_resource(self.place)
        if task.lost is None:
            for one in self._calls.values():
                task.connections.release(task.task, Release(0, one.partition))

    def run(
        self, op: Op, state: ResourceAtTask, arrays: Sequence[RemoteArray], attrs: dict[str, Any]
    ) -> tuple[RemoteArray, ...]:
        """Run an op, and wait for its end.

        Args:
            op: the op.
            state: the stand-in for the resource.
            arrays: its operands, at the task.
            attrs: its attributes.

        Raises:
            TaskLost: the task has ended.
            WaitTimeoutError: its timeout is over.
            DeadlineError: the deadline of this thread has passed; then nothing was taken.
            EagerflowError: as the op raises in this process.
        """
        self.check(state)
        deadline.check()
        types = _types(op, state, arrays)
        frames: list[Frame] = []
        feeds: list[Any] = [HandleHead(x.handle) for x in arrays]
        attrs = dict(attrs)
        seconds, number = attrs.pop("timeout", None), attrs.pop("count", None)
        if number is not None:
            feeds.insert(0, encode_value(np.asarray(number, np.int64), frames))
            types.insert(0, TensorType(INT64, ()))
        end = deadline.moment() if op.effect == "blocks" else None
        left = inf if end is None else max(0.0, end - monotonic())
        late = seconds is None or left < seconds
        limit = left if late else seconds
        if limit is not None and limit < inf:  # the task ends the wait: no element is lost
            feeds.append(encode_value(np.asarray(limit, np.float64), frames))
            types.append(TensorType(FLOAT64, ()))
            attrs["timed"] = True
        call = self._call(op, state, types, attrs)
        try:
            return self._run(call, state, tuple(feeds), frames)
        except WaitTimeoutError as error:
            if not late:
                raise
            raise deadline.waited_too_long(error.wrong.partition(":")[0], error.given) from None

    def _call(
        self, op: Op, state: ResourceAtTask, types: Sequence[TensorType], attrs: dict[str, Any]
    ) -> _Call:  # fmt: skip
        """The registered op; it is registered if it is new."""
        key = op.name, *map(str, types), *attrs.items()
        known = self._calls.get(key)
        if known is None:
            with self._lock:
                known = self._calls.get(key)
                if known is None:
                    known = self._calls[key] = self._register(op, state, types, attrs)
        return known

    def _register(
        self, op: Op, state: ResourceAtTask, types: Sequence[TensorType], attrs: dict[str, Any]
    ) -> _Call:  # fmt: skip
        graph = Graph(op.name)
        node = _node(graph, op, state, types, attrs)
        graph.outputs += node.outputs
        connections = self.task.connections
        number = next(connections.partitions)
        message, frames = write_partition([graph], 0, number, {})
        connections.wait(connections.ask(self.task.task, message, frames))
        return _Call(number, len(node.outputs))

    def _begin(
        self, pending: Pending, call: _Call, feeds: Feeds, frames: list[Frame], keep: Handles
    ) -> None:
        """Begin the step of a call."""
        part = call.partition, feeds, frames, keep, streams.number
        self.task.connections.run(pending, {self.task.task: part})

    def _run(
        self, call: _Call, state: ResourceAtTask, feeds: Feeds, frames: list[Frame]
    ) -> tuple[RemoteArray, ...]:  # fmt: skip
        """Run the step of a call, and wait for its end."""
        task, connections = self.task, self.task.connections
        keep = tuple([task.new_handle() for _ in range(call.outputs)])
        pending = connections.new_step()
        try:
            self._begin(pending, call, feeds, frames, keep)
            made = zip(keep, connections.wait(pending, _PATIENCE)[task.task], strict=False)
            return tuple([RemoteArray(task, h, state.device, x.dtype, x.shape) for h, x in made])
        except BaseException as error:
            if pending.head is None:  # the step may have ended before it was aborted
                connections.give_back(task.task, pending, CancelledError(_UNWANTED))
            for handle in keep:
                task.free(handle)
            if isinstance(error, EagerflowError):
                self._explain(error, state, pending.head)
            raise

    def _explain(
        self, error: EagerflowError, state: ResourceAtTask, head: ErrorHead | None
    ) -> None:
        """Put the line of the op, or of an earlier one that failed, into the error of a step."""
        if isinstance(error, TaskLost):
            _name(error, state)
        elif head is not None and head.op:
            self.task.locate(error, head)
        else:
            relocate(error, capture(), settled=True)
            notes = getattr(error, "__notes__", [])
            notes[:] = [note for note in notes if not note.startswith(_NODE_NOTE)]

    def check(self, state: ResourceAtTask) -> None:
        """Raise if the process that held the resource is lost.

        Raises:
            TaskLost: this process of the task has ended.
        """
        if self.task.lost is not None:
            backend: Any = state.device.backend
            task: RemoteTask = backend.task
            error: EagerflowError = TaskLost(
                f"{task.task} was restarted: the queues that it held are lost",
                hint="make it again",
            ) if task is not self.task else read_error(self.task.lost)  # fmt: skip
            _name(error, state)
            raise error

    def end(self, state: ResourceAtTask, failure: str | None) -> None:
        """Close a queue or a barrier, without a wait; it may be closed already.

        Args:
            state: the stand-in for it.
            failure: the failure of the producer, quoted in later errors. It cancels: what waits
                to be put in is refused.
        """
        if state.stands_for is BarrierState:
            attrs = {"cancel": failure is not None, "failure": failure}
            with suppress(QueueClosedError):
                self.run(get_op("barrier_close"), state, (), attrs)
        elif failure is not None:
            self.run(get_op("queue_cancel_and_close"), state, (), {"failure": failure})
        else:  # behind those who wait to put something in
            call = self._call(get_op("queue_close"), state, (), {})
            self._begin(self.task.connections.new_step(), call, (), [], ())


def _name(error: EagerflowError, state: ResourceAtTask) -> None:
    """Name the resource that is lost with its task, and its line."""
    made = "" if state.made is None else f", made at {state.made}"
    error.reword(error.wrong, f"{state!r}{made}")


def _types(
    op: Op, state: ResourceAtTask, arrays: Sequence[RemoteArray]
) -> list[TensorType]:  # fmt: skip
    """The types of the operands, with names for sizes that differ from call to call."""
    many = op.many or state.sparse
    puts = state.types if op.name.startswith("queue_enqueue") else ()
    types = []
    for i, x in enumerate(arrays):
        first: Any = (Dim(f"size_{i}_of_call"),) if many and x.shape else x.shape[:1]
        shape = (*first, *x.shape[1:])
        if i < len(puts):
            shape = (*first, *puts[i].shape) if many else puts[i].shape
        types.append(TensorType(state.device.lanes[x.dtype].dtype, shape))
    return types


def _node(
    graph: Graph, op: Op, state: ResourceAtTask, types: Sequence[TensorType], attrs: dict[str, Any]
) -> Node:  # fmt: skip
    """Add the node of an op on a resource to a graph."""
    device, names = state.device, count()
    inputs = [graph.add_input(kind, "x", device) for kind in types]
    attrs = {**attrs, "resource": state}
    if not inputs:
        attrs["device"] = device

    def fresh(name: str) -> Dim:
        return Dim(f"{name}_{next(names)}_of_call")

    def infer() -> list[TensorSpec]:
        return infer_specs(op, [kind.on(device) for kind in types], attrs)

    specs = resolving(_undecided, fresh=fresh).run(infer)
    graph.resources["resource"] = state
    kinds = [spec.type for spec in specs]
    return graph.add_node(op.name, inputs, kinds, attrs, devices=[device] * len(kinds),
                          device=device)  # fmt: skip


def _undecided(dim: Dim, why: str) -> int:
    raise DataDependentError(f"{why} needs the size {dim}")
