"""One process of a task, as the client uses it: templates, handles, streams, failures."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from types import CodeType
from typing import Any, Final, final

import numpy as np

from eagerflow.cluster.processes.client.connections import Connections
from eagerflow.cluster.processes.shared_memory.slabs import BORROWED, WrittenSlab
from eagerflow.cluster.protocol.eager_actions import (
    Action,
    DropResource,
    FreeHandles,
    IssueOp,
    PutValue,
)
from eagerflow.cluster.protocol.failures import read_error
from eagerflow.cluster.protocol.long_frames import PIECE, SentFrame
from eagerflow.cluster.protocol.message_heads import ErrorHead, HandleHead, Heads
from eagerflow.cluster.protocol.messages import Fetch, MakeResource, MakeVariable
from eagerflow.cluster.protocol.partitions import write_op
from eagerflow.cluster.protocol.recipes import write_recipe
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.cluster.remote.arrays import RemoteArray, RemoteVariable
from eagerflow.errors import EagerflowError, TaskLost, relocate
from eagerflow.hardware import Device
from eagerflow.resources.containers import DEFAULT
from eagerflow.resources.resources_at_tasks import ResourceAtTask
from eagerflow.source import Source, capture, position
from eagerflow_kernels import strides

#: distance between the first handles of two ops: the limit of results of one op
_BLOCK: Final = 1 << 14
#: limit of issued ops without an answer
_AHEAD: Final = 20_000
_NOWHERE: Final[tuple[CodeType | None, int]] = None, 0
#: of all tasks and their processes: what comes late, for a process that has ended, names nothing in
#: the next one
_handles: Final = count(1, _BLOCK)
_templates: Final = count(1)
#: bytes up to which sent values, such as constants, are remembered here
_SMALL: Final = 256
#: number of lost variables that a message names
_TOLD: Final = 10
#: number of failed ops whose lines are remembered
_REMEMBERED: Final = 1_000


@final
class _Streams(threading.local):
    """The number of each thread's stream."""

    _numbers = count(1)

    def __init__(self) -> None:
        self.number = next(self._numbers)


#: ops of one thread form one stream, at all tasks
streams: Final = _Streams()


@final
class RemoteTask:
    """One incarnation of a task.

    Args:
        connections: the connections of this client.
        task: the name of the task.
        allows: grants for ops there, beyond values and state.

    Attributes:
        task: the same.
        allows: the same.
        connections: the same.
        lost: the reason why the process is lost; None while it is usable.
    """

    def __init__(self, connections: Connections, task: str, allows: Sequence[str] = ()) -> None:
        self.task = task
        self.allows: Final = frozenset(allows)
        self.connections = connections
        self.lost: ErrorHead | None = None
        self._templates: dict[Any, int] = {}
        self._of_resource: dict[tuple[str, str], list[Any]] = {}
        self._resources: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        #: the lines of ops that are not acknowledged, by their first handles
        self._lines: dict[int, tuple[CodeType | None, int]] = {}
        self._failed: OrderedDict[int, tuple[CodeType | None, int]] = OrderedDict()
        self._room = threading.Condition()

    def check(self) -> None:
        """Raise if the process is lost.

        Raises:
            TaskLost: this process of the task has ended.
        """
        if self.lost is not None:
            raise read_error(self.lost)

    # --- ops ---

    def template(self, key: Any, name: str, attrs: Mapping[str, Any]) -> int:
        """The number of an op with its attributes; a new template is defined at the task.

        Args:
            key: equal for the same op and attributes.
            name: the name of the op.
            attrs: its attributes.
        """
        number = self._templates.get(key)
        if number is None:
            with self._lock:
                number = self._templates.get(key)
                if number is not None:
                    return number
                number = next(_templates)
                action, frames = write_op(name, attrs, number)
                self.connections.eager(self, action, frames)
                self._templates[key] = number
                for place in action.resources.values():
                    self._of_resource.setdefault(place, []).append(key)
        return number

    def issue(
        self, template: int, inputs: Sequence[int], device: Device,
        outputs: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None,
    ) -> list[RemoteArray]:  # fmt: skip
        """Issue an op.

        Args:
            template: the number of its template.
            inputs: the handles of its inputs.
            device: the device of its results.
            outputs: the dtypes and shapes of its results; None if they are not known: then the
                call waits for them.
        """
        if self.lost is not None:
            self.check()
        first = next(_handles)
        lines = self._lines
        lines[first] = position(3)
        if len(lines) > _AHEAD:
            self._wait_for_room()
        number = 0 if outputs is None else len(outputs)
        action = IssueOp(template, streams.number, tuple(inputs), first, number)
        self.connections.eager(self, action)
        if outputs is None:
            outputs = [(x.dtype, x.shape) for x in self._ask(Fetch(0, first, streams.number))]
        return [RemoteArray(self, first + i, device, *kind) for i, kind in enumerate(outputs)]

    def put(
        self, array: np.ndarray[Any, Any], device: Device, *, borrowed: bool = False
    ) -> RemoteArray:
        """Send a value to the task.

        Args:
            array: the value.
            device: its device, one of the task's.
            borrowed: whether ``array`` may be written into afterwards.
        """
        if borrowed and array.nbytes < BORROWED:
            array, borrowed = strides.copied(array), False
        origin = array if array.nbytes <= _SMALL and array.dtype != object else None
        handle = self.put_again(array, device, borrowed=borrowed)
        return RemoteArray(self, handle, device, array.dtype, array.shape, origin)

    def put_again(
        self, array: np.ndarray[Any, Any], device: Device, *, borrowed: bool = False
    ) -> int:
        """Send a value to the task; gives its handle."""
        self.check()
        handle = next(_handles)
        frames: list[Frame] = []
        action = PutValue(handle, encode_value(array, frames), device.name)
        held = [self._held(frame) for frame in frames] if borrowed else frames
        self.connections.eager(self, action, held)
        return handle

    def _held(self, frame: Frame) -> SentFrame | WrittenSlab:
        """A copy of a frame: a slab if possible, else pieces that are sent at once, or bytes."""
        connections = self.connections
        slab = connections.slabs.write(self.task, frame)
        if slab is not None:
            return slab
        if len(frame) <= PIECE or connections.slabs.reaches(self.task):
            return bytes(frame)
        ahead = connections.send_ahead(self.task, frame, lambda: self.lost is not None)
        self.check()
        if ahead is None:
            raise TaskLost(f"{self.task} is lost: the cluster was closed")
        return ahead

    def new_handle(self) -> int:
        """A handle for a value that the task is going to hold."""
        return next(_handles)

    def free(self, handle: int) -> None:
        """Free a value; called by finalisers, so it must not wait."""
        if self.lost is None:
            self.connections.later(self, FreeHandles((handle,)))

    def fetch(self, array: RemoteArray) -> np.ndarray[Any, Any]:
        """The elements of a value.

        Raises:
            EagerflowError: the value's op, or an earlier op of this thread, has failed.
        """
        self.check()
        value: np.ndarray[Any, Any] = self._ask(Fetch(0, array.handle, streams.number))[0]
        return value

    def synchronize(self, device: Device) -> None:
        """Wait for the end of all ops of this thread.

        Raises:
            EagerflowError: an op has failed.
            TaskLost: this process of the task has ended, and what was issued to it is lost.
        """
        last = self.put(np.zeros(0, np.uint8), device)
        self._ask(Fetch(0, last.handle, streams.number))

    def _ask(self, message: Any, frames: Sequence[Frame] = ()) -> list[Any]:
        self.check()
        pending = self.connections.ask(self.task, message, frames)
        try:
            return self.connections.wait(pending)[self.task]
        except EagerflowError as error:
            self.locate(error, pending.head)
            raise

    # --- variables, queues and their like ---

    def make_variable(self, state: Any, first: RemoteArray) -> RemoteVariable:
        """Make the variable of a state, with a first value."""
        made = RemoteVariable(self, first.device, state)
        head = HandleHead(first.handle)
        self._make(MakeVariable(0, *made.place, head, first.device.name, state.trainable))
        self._resources[made.place] = repr(state)
        return made

    def make_resource(self, state: ResourceAtTask) -> None:
        """Make the resource that a stand-in stands for, or join it."""
        self._make(write_recipe(state.recipe, state.identity, state.device.name))
        self._resources[state.identity.container, state.identity.name] = repr(state)

    def _make(self, message: MakeVariable | MakeResource) -> None:
        """Make or join a resource; an error of the task names the line of this call."""
        try:
            self._ask(message)
        except EagerflowError as error:
            if not isinstance(error, TaskLost):
                relocate(error, capture(), settled=True)
            raise

    @property
    def held(self) -> str | None:
        """The names of this client's variables and queues at the task, for messages."""
        every = list(self._resources.copy().values())  # finalisers remove some
        more = f" and {len(every) - _TOLD} more" if len(every) > _TOLD else ""
        return f"{', '.join(every[:_TOLD])}{more}" if every else None

    def read_variable(self, variable: RemoteVariable) -> RemoteArray:
        """The current value of a variable."""
        template = self._templates.get(("read", variable.place))
        if template is None:
            template = self._define_read(variable)
        kind = variable.dtype, variable.shape
        return self.issue(template, (), variable.device, [kind])[0]

    def _define_read(self, variable: RemoteVariable) -> int:
        attrs = {"resource": variable, "device": variable.device}
        return self.template(("read", variable.place), "read", attrs)

    def drop_resource(self, place: tuple[str, str]) -> None:
        """Drop a variable or another resource; called by finalisers."""
        self._resources.pop(place, None)
        if self.lost is None:
            templates = []
            for key in self._of_resource.pop(place, ()):
                templates.append(self._templates.pop(key))
            own = place[1] if place[0] == DEFAULT.name else ""  # others stay, for other clients
            self.connections.later(self, DropResource(own, tuple(templates)))

    # --- outcomes ---

    def batch(self, actions: Sequence[Action]) -> _Batch:
        """The callbacks for the actions of one message."""
        return _Batch(self, [a.first for a in actions if type(a) is IssueOp])

    def acknowledged(self, ops: Sequence[int], failed: ErrorHead | None) -> None:
        """Handle the outcome of some ops; after a failure, keep their lines for `locate`."""
        lines = self._lines
        if failed is not None:
            for op in ops:  # later ops of their streams have not run, and report its line
                self._failed[op] = lines.get(op, _NOWHERE)
            while len(self._failed) > _REMEMBERED + len(ops):
                self._failed.popitem(last=False)
        full = len(lines) > _AHEAD
        for op in ops:
            lines.pop(op, None)
        if full:
            with self._room:
                self._room.notify_all()

    def _wait_for_room(self) -> None:
        with self._room:
            self._room.wait_for(lambda: len(self._lines) <= _AHEAD or self.lost, 60.0)

    def locate(self, error: EagerflowError, head: ErrorHead | None) -> None:
        """Set the source of an error to the line that issued the op."""
        if head is not None and head.op:
            code, offset = self._failed.get(head.op) or self._lines.get(head.op, _NOWHERE)
            if code is not None:
                relocate(error, Source(code, offset), settled=True)

    def lose(self, why: ErrorHead) -> None:
        """Mark the process as lost."""
        if self.lost is None:
            self.lost = why
        self._lines.clear()
        with self._room:
            self._room.notify_all()


@final
class _Batch:
    """The callbacks for the actions of one message.

    Args:
        owner: the sender.
        ops: the first handles of the ops among the actions.
    """

    __slots__ = ("_ops", "_owner")

    def __init__(self, owner: RemoteTask, ops: list[int]) -> None:
        self._owner = owner
        self._ops = ops

    def done(self, results: Mapping[str, tuple[Heads, list[Frame]]]) -> None:
        self._owner.acknowledged(self._ops, None)

    def failed(self, head: ErrorHead) -> None:
        if head.kind == TaskLost.__name__ and not head.op:
            self._owner.lose(head)
        else:
            self._owner.acknowledged(self._ops, head)
