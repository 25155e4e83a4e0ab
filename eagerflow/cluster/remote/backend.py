"""The backend of a task's devices: ops are issued to the task's process, and run there later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

import numpy as np

from eagerflow.cluster.protocol.op_permissions import may_be_sent
from eagerflow.cluster.remote.arrays import RemoteArray
from eagerflow.cluster.remote.held_resources import HeldResource
from eagerflow.cluster.remote.tasks import RemoteTask
from eagerflow.core.op import Op, find_op
from eagerflow.core.to_tensor import scalar
from eagerflow.errors import TaskLost
from eagerflow.hardware import Device, MemoryStats
from eagerflow.hardware.contract import HostArray, KernelCall, Ready
from eagerflow.ops.state.callbacks import PyFunction
from eagerflow.resources.accumulator import AccumulatorState
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.resources_at_tasks import ResourceAtTask
from eagerflow.resources.variable import VariableState

#: classes of resources that a task can hold, besides variables
_HELD: Final = (QueueState, AccumulatorState, BarrierState)
#: bytes from which on values go directly between tasks, at the cost of more messages
_DIRECT: Final = 1 << 12
#: number of shapes and attributes whose output types a launcher remembers
_REMEMBERED: Final = 4_096


def _through_here(data: RemoteArray, source: Device, target: Device) -> RemoteArray:
    """Bring a value to another task through this process; the default for `move_by`."""
    made: RemoteArray = target.backend.copy_in(data.read(), target.index, borrowed=False)
    return made


_move: Callable[[RemoteArray, Device, Device], RemoteArray] = _through_here


def move_by(move: Callable[[RemoteArray, Device, Device], RemoteArray]) -> None:
    """Set the function by which values are brought from task to task."""
    global _move
    _move = move


@final
class RemoteBackend:
    """The backend of one device of a task.

    The type rule checks an op here, and then the op is issued; it runs at the task in the order of
    the issuing thread. Ops that belong to this process, such as mutexes, functions of Python and
    files, run here, on copies.

    Attributes:
        task: the current process of the task; another one after a restart.
        device: the device; set by the code that makes it.
    """

    kind = "remote"
    array_type = RemoteArray
    holds_bytes = True
    holds_data = True

    device: Device

    def __init__(self, task: RemoteTask) -> None:
        self.task = task

    def count(self) -> int:
        """1: each backend has one device."""
        return 1

    def namespace(self, index: int) -> RemoteNamespace:
        """The namespace that brings results of local kernels to the task."""
        return RemoteNamespace(self)

    # --- ops ---

    def launcher(self, call: KernelCall, index: int) -> Callable[..., Any]:
        """The function that issues an op."""
        op = find_op(call.name)
        assert op is not None
        if op.resource is PyFunction:  # depends on the function that is called
            return partial(self._call_python, op, _Launcher(self, call), self._here(call, index))
        if op.resource in _HELD:
            return partial(self._on_resource, op, call.several, self._here(call, index))
        if may_be_sent(op, self.task.allows, {}):
            return _Launcher(self, call).launch
        return self._here(call, index)

    def _here(self, call: KernelCall, index: int) -> Callable[..., Any]:
        """The function that runs an op in this process, on copies."""
        kernel = call.kernel(np, np.ndarray, "cpu")

        def launch(*arrays: Any, **attrs: Any) -> Any:
            copies = [self.copy_out(x, index) if type(x) is RemoteArray else x for x in arrays]
            return kernel(*copies, **attrs)

        return launch

    def _call_python(
        self, op: Op, there: _Launcher, here: Callable[..., Any], *arrays: Any, **attrs: Any
    ) -> Any:
        listed = may_be_sent(op, self.task.allows, attrs)
        return (there.launch if listed else here)(*arrays, **attrs)

    def _on_resource(
        self, op: Op, several: bool, here: Callable[..., Any], *arrays: Any, resource: Any,
        **attrs: Any,
    ) -> Any:  # fmt: skip
        """Run an op on a queue or its like: at the task, if the task holds it."""
        if type(resource) is not ResourceAtTask:
            return here(*arrays, resource=resource, **attrs)
        held: HeldResource = resource.hold
        resource.check()  # before its operands are sent
        operands = [x if type(x) is RemoteArray else self.put(np.asarray(x)) for x in arrays]
        for x in operands:
            if not x.is_at(self.task):
                raise _gone(repr(x), x.task)
        made = held.run(op, resource, operands, attrs)
        return made if several else made[0]

    def hold(self, state: ResourceAtTask) -> HeldResource:
        """Make the resource that a stand-in stands for at the task, or join it."""
        return HeldResource(self.task, state)

    # --- memory ---

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], index: int) -> RemoteArray:
        """An array of zeros."""
        return self.put(np.zeros(shape, dtype))

    def put(self, array: HostArray, *, borrowed: bool = False) -> RemoteArray:
        """Hold the elements of an array at the task; a borrowed array may change afterwards."""
        return self.task.put(array, self.device, borrowed=borrowed)

    def copy_in(self, array: HostArray, index: int, *, borrowed: bool) -> RemoteArray:
        """Hold the elements of an array of this process at the task."""
        return self.put(array, borrowed=borrowed)

    def copy_out(self, data: Any, index: int) -> HostArray:
        """The elements of a value.

        Raises:
            EagerflowError: the op that was to compute the value has failed.
        """
        array: HostArray = data.read() if type(data) is RemoteArray else data
        return array

    def copy_to_peer(self, data: RemoteArray, index: int, peer: int) -> RemoteArray:
        """The value on this device; a large value of another task goes there directly."""
        if data.device is self.device:
            return data
        task = data.task
        if task is self.task:
            return self._moved_within(data)
        direct = data.nbytes >= _DIRECT and task.connections is self.task.connections
        return (_move if direct else _through_here)(data, data.device, self.device)

    def _moved_within(self, data: RemoteArray) -> RemoteArray:
        """Move a value from another device of the same task."""
        ends = {"device": self.device, "source": data.device}
        template = self.task.template(("transfer", *ends.values()), "transfer", ends)
        return self.task.issue(template, [data.handle], self.device, [(data.dtype, data.shape)])[0]

    # --- completion ---

    def ready(self, data: Any) -> bool:
        """True: a reader waits."""
        return True

    def when_ready(self, data: Any, done: Ready) -> None:
        """Call ``done`` at once: a reader waits."""
        done(None)

    def synchronize(self, index: int) -> None:
        """Wait for the end of all ops that this thread has issued.

        Raises:
            EagerflowError: an op has failed.
            TaskLost: the process of the task has ended.
        """
        self.task.synchronize(self.device)

    def memory(self, index: int) -> MemoryStats:
        """Unknown figures: the memory is another process's."""
        return MemoryStats(None, None, None, None)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        """Refuse a limit: the other process has its own.

        Raises:
            ValueError: always.
        """
        raise ValueError("the memory of a task is limited where it is started")

    def held(self, index: int) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """Nothing: the arrays of another process are not known."""
        return []

    def release(self, index: int) -> None:
        """Do nothing: no memory is reserved here."""


@final
class _Launcher:
    """Issues an op for inputs of some dtypes."""

    def __init__(self, backend: RemoteBackend, call: KernelCall) -> None:
        self._backend = backend
        self._call = call
        self._several = call.several
        #: by shapes and attributes, the types of the outputs and the key of the template
        self._known: dict[Any, tuple[Any, Any]] = {}

    def launch(self, *arrays: Any, **attrs: Any) -> Any:
        task = self._backend.task
        state = attrs.get("resource")
        if type(state) is VariableState and state._data.task is not task:
            if self._call.name != "assign":
                raise _gone(repr(state), state._data.task)
            return self._made_anew(state, *arrays)
        handles, shapes, held = [], [], []
        for x in arrays:
            if type(x) is not RemoteArray:
                x = self._there(x, arrays)
                held.append(x)  # else it is freed before the op is issued
            if x.task is not task and not x.is_at(task):
                raise _gone(repr(x), x.task)
            handles.append(x.handle)
            shapes.append(x.shape)
        named = _key(attrs) if attrs else ()
        key = (*shapes, named)
        known = self._known.get(key)
        if known is None:
            known = self._learn(key, named, arrays, attrs)
        outputs, template_key = known
        template = task._templates.get(template_key)
        if template is None:
            whole = attrs if arrays else {**attrs, "device": self._backend.device}
            template = task.template(template_key, self._call.name, whole)
        made = task.issue(template, handles, self._backend.device, outputs)
        return tuple(made) if self._several else made[0]

    def _made_anew(self, state: VariableState, value: Any) -> RemoteArray:
        """Make a variable again whose value was lost."""
        first = value if type(value) is RemoteArray else self._there(value, ())
        if not first.is_at(self._backend.task):
            raise _gone(repr(first), first.task)
        with state.lock:
            state._data = first.held_by(state)
        return first

    def _learn(
        self, key: Any, named: Any, arrays: Sequence[Any], attrs: dict[str, Any]
    ) -> tuple[Any, Any]:
        """The output types for inputs of these shapes, and the key of the template.

        Raises:
            EagerflowError: the type rule refuses the inputs.
        """
        outputs = self._call.foreseen(arrays, attrs)
        resource = attrs.get("resource")
        place = None if resource is None else resource.identity[2:]
        template = (self._call.name, place) if self._call.name == "read" else (
            self._call.name, place, named, None if arrays else self._backend.device
        )  # fmt: skip
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        known = self._known[key] = outputs, template
        return known

    def _there(self, x: Any, arrays: Sequence[Any]) -> RemoteArray:
        """Bring an operand of this process, an array or a number, to the task."""
        if type(x) is np.ndarray or isinstance(x, np.generic):
            return self._backend.put(np.asarray(x))
        like = next(a for a in arrays if type(a) is RemoteArray)
        made: RemoteArray = scalar(x, self._backend.device.lanes[like.dtype])._data
        return made


def _gone(what: str, task: RemoteTask) -> TaskLost:
    return TaskLost(
        f"{task.task} was restarted, or its cluster was closed: the values it held are lost",
        given=what,
        hint="compute it again; an assignment makes a variable again",
    )


def _key(attrs: dict[str, Any]) -> Any:
    return tuple([(name, _part(value)) for name, value in attrs.items()])


def _part(value: Any) -> Any:
    """A key that distinguishes attributes: 1, 1.0 and True have three keys."""
    kind = type(value)
    if kind is tuple or kind is list:
        return (kind, *map(_part, value))
    if kind is slice:
        return (kind, _part(value.start), _part(value.stop), _part(value.step))
    if kind is float:
        return (kind, repr(value))
    if kind is VariableState or kind is PyFunction:
        return value.identity
    return (kind, value)


@final
class RemoteNamespace:
    """The namespace by which results of kernels in this process become values of a task."""

    def __init__(self, backend: RemoteBackend) -> None:
        self._backend = backend

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """Give a value of the task for an array of either process."""
        if type(value) is RemoteArray:
            return value
        return self._backend.put(np.array(value, dtype))
