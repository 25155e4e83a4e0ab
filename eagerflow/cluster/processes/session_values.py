"""Values and eager ops of a session at a task: values by handle, ops by template, in streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from time import perf_counter
from typing import Any, Final, final

from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.eager_actions import (
    DefineOp,
    DropResource,
    FreeHandles,
    IssueOp,
    PutValue,
)
from eagerflow.cluster.protocol.failures import write_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, Heads, ShapeHead
from eagerflow.cluster.protocol.message_limits import Limits
from eagerflow.cluster.protocol.messages import Eager, Fetch, RunStep
from eagerflow.cluster.protocol.partitions import Find, read_op
from eagerflow.cluster.protocol.values import Frame, decode_value, encode_value
from eagerflow.core.execute import execute
from eagerflow.core.op import Op
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.errors import ProtocolError
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.runtime.threads.workers import shared

#: seconds from which on an op blocks the thread of the sockets too long
_LONG_SECONDS: Final = 1e-3
#: bytes of inputs from which on the duration of a first run is unpredictable
_LARGE: Final = 1 << 20


@final
class Told(Exception):
    """A failure that is sent to the client.

    Args:
        head: the error as it is sent.
    """

    def __init__(self, head: ErrorHead) -> None:
        super().__init__(head.wrong)
        self.head = head


@final
class _Template:
    """An op with its attributes, as a client has defined it.

    Attributes:
        op: the op.
        attrs: its attributes.
        seconds: running mean of the time it took.
    """

    __slots__ = ("attrs", "op", "seconds")

    def __init__(self, op: Op, attrs: dict[str, Any]) -> None:
        self.op = op
        self.attrs = attrs
        self.seconds = 0.0


@final
class SessionWork:
    """The values of a session, and its eager ops.

    The thread that owns the sockets calls `in_order`, which decides in which thread the other
    methods run, never two at once. After the failure of an op, later ops of its stream do not run
    until the client has been told; ops that depend on it fail with the same error.

    Args:
        task: the name of the server.
        find: finds a resource by container and name.
        limits: limits on the ops that a client defines.
        release: releases a variable of the session by its name.
        devices: the devices of the task.
        allows: the grants for ops, beyond values and state.

    Attributes:
        values: by handle; the error if the value could not be computed.
        busy: whether the pool has a job; only the thread that calls `in_order` makes it so.
    """

    def __init__(
        self, task: str, find: Find, limits: Limits, release: Callable[[str], object],
        devices: AnnouncedDevices, allows: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._devices = devices
        self._allows = allows
        self.values: dict[int, Tensor | tuple[Tensor, ...] | ErrorHead] = {}
        self._task = task
        self._find = find
        self._limits = limits
        self._release = release
        self._templates: dict[int, _Template | ErrorHead] = {}
        self._broken: dict[int, ErrorHead] = {}
        #: by stream, its latest step of one wait, until its values are freed or used
        self._latest: dict[int, tuple[RunStep, Callable[[str], object]]] = {}
        self._taken: dict[int, int] = {}  # the streams by the first handles of these steps
        self._waiting: deque[Callable[[], object]] = deque()
        self.busy = False
        self._lock = Lock()

    # --- order ---

    def in_order(self, job: Callable[[], object], message: Any = None) -> None:
        """Run ``job`` after all earlier jobs: now, or in the pool if some job takes long."""
        with self._lock:
            if self.busy or (type(message) is Eager and self._takes_long(message)):
                self._waiting.append(job)
                if self.busy:
                    return
                self.busy = True
                shared.submit(self._serve)
                return
        job()

    def _takes_long(self, message: Eager) -> bool:
        for action in message.actions:
            if type(action) is IssueOp:
                template = self._templates.get(action.template)
                if type(template) is _Template and (
                    template.seconds > _LONG_SECONDS or template.op.calls_user
                ):
                    return True
                for handle in action.inputs:
                    value = self.values.get(handle)
                    if type(value) is Tensor and getattr(value._data, "nbytes", 0) > _LARGE:
                        return True
        return False

    def _serve(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self.busy = False
                    return
                job = self._waiting.popleft()
            job()

    # --- ops ---

    def run(self, message: Eager, frames: list[Frame]) -> tuple[Heads, list[Frame]]:
        """Carry out the actions of a message.

        Raises:
            Told: the first failure of an op.
        """
        rest = iter(frames)
        failed: ErrorHead | None = None
        token = error_state.set(QUIET)
        try:
            for action in message.actions:
                if type(action) is IssueOp:
                    failed = self._issue(action) or failed
                elif type(action) is FreeHandles:
                    self.free(action.handles)
                else:
                    self._other(action, rest)
        finally:
            error_state.reset(token)
        codec.all_taken(rest)
        if failed is not None:
            raise Told(failed)
        return (), []

    def free(self, handles: Sequence[int]) -> None:
        """Free values."""
        for handle in handles:
            self.values.pop(handle, None)
            if self._taken:
                self._settle(self._taken.get(handle, 0))

    # --- waits ---

    def may_give_back(self, step: RunStep, cancel: Callable[[str], object]) -> None:
        """Note a step of one wait, which may have to give back what it takes, also after its end.

        Args:
            step: the step.
            cancel: gives it back.
        """
        if step.keep and step.stream:
            self._latest[step.stream] = step, cancel
            self._taken[step.keep[0]] = step.stream

    def give_back(self, step: int, reason: str) -> None:
        """Let a step that has ended give back what it has taken: nobody has received it."""
        for known, cancel in list(self._latest.values()):
            if known.step == step:
                cancel(reason)

    def _settle(self, stream: int) -> None:
        """Note that the results of a stream's steps have arrived, or are not needed."""
        known = self._latest.pop(stream, None)
        if known is not None:
            self._taken.pop(known[0].keep[0], None)

    def _other(self, action: Any, rest: Iterator[Frame]) -> None:
        if type(action) is PutValue:
            data = decode_value(action.value, rest)
            if not hasattr(data, "dtype"):
                raise ProtocolError("a value that is held is an array", given=str(action.value))
            lane = self._devices.find(action.device).lanes[data.dtype]
            self.values[action.handle] = make_tensor(data, lane)
        elif type(action) is DefineOp:
            try:
                defined = _Template(*read_op(
                    action, rest, self._find, self._limits, self._allows,
                    find_device=self._devices.find,
                ))  # fmt: skip
            except Exception as error:
                self._templates[action.template] = write_error(error, self._task)
            else:
                self._templates[action.template] = defined
        elif type(action) is DropResource:
            for number in action.templates:
                self._templates.pop(number, None)
            self._release(action.name)

    def _issue(self, action: IssueOp) -> ErrorHead | None:
        """Run an op; gives its error if that is the first of its stream."""
        values, first = self.values, action.first
        template = self._templates.get(action.template)
        error = self._broken.get(action.stream)
        told = error is not None
        inputs: list[Any] = [values.get(handle) for handle in action.inputs]
        if error is None:
            error = template if type(template) is ErrorHead else _first_error(inputs)
            told = error is not None and error.op != 0
        if error is None and type(template) is _Template:
            begin = perf_counter()
            try:
                made = execute(template.op, inputs, template.attrs)
            except Exception as raised:
                error = write_error(raised, self._task)
            else:
                template.seconds = 0.5 * (template.seconds + perf_counter() - begin)
                if not action.count:
                    several = made if type(made) is tuple else (made,)
                    if several:  # an op without outputs has no value to fetch
                        values[first] = several
                elif type(made) is tuple:
                    for i, one in enumerate(made[: action.count]):
                        values[first + i] = one
                else:
                    values[first] = made
                return None
        if error is None:
            error = ErrorHead("ProtocolError", "no such template", task=self._task)
        if not error.op:
            error = with_op(error, first)
        self._broken.setdefault(action.stream, error)
        for i in range(max(1, action.count)):
            values[first + i] = error
        return None if told else error

    # --- requests for values ---

    def check(self, stream: int) -> None:
        """Report the first failure of a stream, once; later ops of the stream run again.

        Raises:
            Told: there was a failure.
        """
        if self._latest:
            self._settle(stream)
        error = self._broken.pop(stream, None) if self._broken and stream else None
        if error is not None:
            raise Told(error)

    def held(self, handle: int) -> Tensor:
        """The value of a handle.

        Raises:
            Told: the op that was to compute the value has failed.
            ProtocolError: no value has that handle.
        """
        value = self.values.get(handle)
        if type(value) is ErrorHead:
            raise Told(value)
        if type(value) is not Tensor:
            raise ProtocolError("no value has that handle", given=str(handle))
        return value

    def fetch(self, message: Fetch) -> tuple[Heads, list[Frame]]:
        """The answer to a `Fetch`: a value, or the types of the outputs of an op with several."""
        self.check(message.stream)
        several = self.values.get(message.handle)
        if type(several) is tuple:
            del self.values[message.handle]
            for i, one in enumerate(several):
                self.values[message.handle + i] = one
            return tuple(map(shape_head, several)), []
        frames: list[Frame] = []
        return (encode_value(self.held(message.handle)._data, frames),), frames


def shape_head(x: Tensor) -> ShapeHead:
    """Dtype and shape of a value that stays at the task."""
    return ShapeHead(x.dtype.name, tuple(map(int, x._data.shape)))


def with_op(head: ErrorHead, op: int) -> ErrorHead:
    """The same error, marked with the eager op that raised it."""
    return ErrorHead(
        head.kind, head.wrong, head.given, head.expected, head.hint, head.source, head.notes,
        head.task, op,
    )  # fmt: skip


def _first_error(inputs: Sequence[Any]) -> ErrorHead | None:
    for value in inputs:
        if type(value) is not Tensor:
            if type(value) is ErrorHead:
                return value
            return ErrorHead("ProtocolError", "no value has the handle of an input")
    return None
