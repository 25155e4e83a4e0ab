"""One process of a task, as this one uses it: templates, handles, streams, failures."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from types import CodeType
from typing import Any, Final, final

import numpy as np

from eagerflow.cluster.processes.client import Connections
from eagerflow.cluster.processes.slabs import BORROWED, WrittenSlab
from eagerflow.cluster.protocol.failures import read_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, HandleHead, Heads
from eagerflow.cluster.protocol.messages import (
    Action,
    DropVariable,
    Fetch,
    FreeHandles,
    IssueOp,
    MakeVariable,
    PutValue,
)
from eagerflow.cluster.protocol.partitions import write_op
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.cluster.remote.arrays import RemoteArray, RemoteVariable
from eagerflow.errors import EagerflowError, TaskLost, relocate
from eagerflow.hardware import Device
from eagerflow.resources.containers import DEFAULT
from eagerflow.source import Source, position
from eagerflow_kernels import strides

#: between the handles of two ops, so many results one may have
_BLOCK: Final = 1 << 14
#: ops that are on their way at once
_AHEAD: Final = 20_000
_NOWHERE: Final[tuple[CodeType | None, int]] = None, 0
#: bytes of values that came from here and are remembered, such as constants
_SMALL: Final = 256
#: of variables that are lost, how many are named
_TOLD: Final = 10
#: of failed ops, of how many the line is remembered
_REMEMBERED: Final = 1_000


@final
class _Streams(threading.local):
    """The stream of each thread."""

    _numbers = count(1)

    def __init__(self) -> None:
        self.number = next(self._numbers)


#: what runs in one thread is one stream, at all tasks
streams: Final = _Streams()


@final
class RemoteTask:
    """One incarnation of a task.

    Args:
        connections: of this client.
        task: its name.
        allows: what ops may reach there besides values and state.

    Attributes:
        task: the same.
        allows: the same.
        connections: the same.
        lost: why it cannot be used any more; None as long as it can.
    """

    def __init__(self, connections: Connections, task: str, allows: Sequence[str] = ()) -> None:
        self.task = task
        self.allows: Final = frozenset(allows)
        self.connections = connections
        self.lost: ErrorHead | None = None
        self._handles = count(1, _BLOCK)
        self._templates: dict[Any, int] = {}
        self._numbers = count(1)
        self._of_variable: dict[tuple[str, str], list[Any]] = {}
        self._variables: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        #: by the first handle of ops that were not acknowledged, their lines
        self._lines: dict[int, tuple[CodeType | None, int]] = {}
        self._failed: OrderedDict[int, tuple[CodeType | None, int]] = OrderedDict()
        self._room = threading.Condition()

    def check(self) -> None:
        """Refuse to go on with what is gone.

        Raises:
            TaskLost: this process of the task has ended.
        """
        if self.lost is not None:
            raise read_error(self.lost)

    # --- ops ---

    def template(self, key: Any, name: str, attrs: Mapping[str, Any]) -> int:
        """The number of an op with its attributes; it is defined there if it is new.

        Args:
            key: equal for the same op and attributes.
            name: of the op.
            attrs: its attributes.
        """
        number = self._templates.get(key)
        if number is None:
            with self._lock:
                number = self._templates.get(key)
                if number is not None:
                    return number
                number = next(self._numbers)
                action, frames = write_op(name, attrs, number)
                self.connections.eager(self, action, frames)
                self._templates[key] = number
                for place in action.resources.values():
                    self._of_variable.setdefault(place, []).append(key)
        return number

    def issue(
        self, template: int, inputs: Sequence[int], device: Device,
        outputs: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None,
    ) -> list[RemoteArray]:  # fmt: skip
        """Have an op run.

        Args:
            template: which one.
            inputs: handles.
            device: where its results are.
            outputs: the dtypes and shapes of its results; None if they are not known: then this
                waits for them.
        """
        if self.lost is not None:
            self.check()
        first = next(self._handles)
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
        """Bring a value there.

        Args:
            array: the value.
            device: of the task.
            borrowed: whether somebody may write into ``array`` afterwards.
        """
        if borrowed and array.nbytes < BORROWED:
            array, borrowed = strides.copied(array), False
        origin = array if array.nbytes <= _SMALL and array.dtype != object else None
        handle = self.put_again(array, device, borrowed=borrowed)
        return RemoteArray(self, handle, device, array.dtype, array.shape, origin)

    def put_again(
        self, array: np.ndarray[Any, Any], device: Device, *, borrowed: bool = False
    ) -> int:
        """Bring a value there; gives its handle."""
        self.check()
        handle = next(self._handles)
        frames: list[Frame] = []
        action = PutValue(handle, encode_value(array, frames), device.name)
        held = [self._held(frame) for frame in frames] if borrowed else frames
        self.connections.eager(self, action, held)
        return handle

    def _held(self, frame: Frame) -> Frame | WrittenSlab:
        """A frame that nobody else writes into."""
        slab = self.connections.slabs.write(self.task, frame)
        return bytes(frame) if slab is None else slab

    def new_handle(self) -> int:
        """A number for a value that the task is going to hold."""
        return next(self._handles)

    def free(self, handle: int) -> None:
        """Nobody uses a value any more; called by finalisers, so it may wait for nothing."""
        if self.lost is None:
            self.connections.later(self, FreeHandles((handle,)))

    def fetch(self, array: RemoteArray) -> np.ndarray[Any, Any]:
        """The elements of a value.

        Raises:
            EagerflowError: what was to make it, or an op of this thread before, has failed.
        """
        self.check()
        value: np.ndarray[Any, Any] = self._ask(Fetch(0, array.handle, streams.number))[0]
        return value

    def synchronize(self, device: Device) -> None:
        """Wait until all ops of this thread have run.

        Raises:
            EagerflowError: one has failed.
        """
        if self.lost is None:
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

    # --- variables ---

    def make_variable(self, state: Any, first: RemoteArray) -> RemoteVariable:
        """Make the variable of a state, with a first value."""
        made = RemoteVariable(self, first.device, state)
        head = HandleHead(first.handle)
        self._ask(MakeVariable(0, *made.place, head, first.device.name, state.trainable))
        self._variables[made.place] = repr(state)
        return made

    @property
    def held(self) -> str | None:
        """The variables that it has, as far as this client uses them, for messages."""
        every = list(self._variables.copy().values())  # finalisers take some out
        more = f" and {len(every) - _TOLD} more" if len(every) > _TOLD else ""
        return f"{', '.join(every[:_TOLD])}{more}" if every else None

    def read_variable(self, variable: RemoteVariable) -> RemoteArray:
        """The value that a variable has now."""
        template = self._templates.get(("read", variable.place))
        if template is None:
            template = self._define_read(variable)
        kind = variable.dtype, variable.shape
        return self.issue(template, (), variable.device, [kind])[0]

    def _define_read(self, variable: RemoteVariable) -> int:
        attrs = {"resource": variable, "device": variable.device}
        return self.template(("read", variable.place), "read", attrs)

    def drop_variable(self, place: tuple[str, str]) -> None:
        """Nobody uses a variable any more; called by finalisers."""
        self._variables.pop(place, None)
        if self.lost is None:
            templates = []
            for key in self._of_variable.pop(place, ()):
                templates.append(self._templates.pop(key))
            own = place[1] if place[0] == DEFAULT.name else ""  # others stay, for other clients
            self.connections.later(self, DropVariable(own, tuple(templates)))

    # --- what became of it ---

    def batch(self, actions: Sequence[Action]) -> _Batch:
        """Who hears of the actions of one message."""
        return _Batch(self, [a.first for a in actions if type(a) is IssueOp])

    def acknowledged(self, ops: Sequence[int], failed: ErrorHead | None) -> None:
        """These ops have run."""
        lines = self._lines
        if failed is not None:
            for op in ops:  # later ones of their streams have not run, and say its line
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
        """Let an error name the line that issued the op."""
        if head is not None and head.op:
            code, offset = self._failed.get(head.op) or self._lines.get(head.op, _NOWHERE)
            if code is not None:
                relocate(error, Source(code, offset), settled=True)

    def lose(self, why: ErrorHead) -> None:
        """The process is gone."""
        if self.lost is None:
            self.lost = why
        self._lines.clear()
        with self._room:
            self._room.notify_all()


@final
class _Batch:
    """The actions of one message.

    Args:
        owner: that has sent them.
        ops: the first handles of its ops.
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
