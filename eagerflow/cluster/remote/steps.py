"""Steps of graphs that use tasks: each partition runs on its device, that of this process too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, Final, final

from eagerflow import events
from eagerflow.cluster.processes.client import Connections
from eagerflow.cluster.processes.pending_answers import Pending
from eagerflow.cluster.protocol.failures import read_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, HandleHead, Handles
from eagerflow.cluster.protocol.messages import Release
from eagerflow.cluster.protocol.op_permissions import may_be_sent
from eagerflow.cluster.protocol.partitions import resources_of, write_partition
from eagerflow.cluster.protocol.timeouts import ABORT_SECONDS
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.cluster.remote.arrays import RemoteArray
from eagerflow.cluster.remote.backend import RemoteBackend
from eagerflow.cluster.remote.message_folding import fold
from eagerflow.cluster.remote.tasks import RemoteTask, streams
from eagerflow.cluster.state_machines.client import StepPart
from eagerflow.core.op import find_op
from eagerflow.errors import CancelledError, EagerflowError, PlacementError
from eagerflow.events import StepEvent, step_of
from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import lower
from eagerflow.graph.signatures import lead_of
from eagerflow.hardware import Device
from eagerflow.hardware.registry import first_cpu
from eagerflow.placement.cut import Partition, cut
from eagerflow.placement.placed_graph import pinned
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.executable import run_tasks_by
from eagerflow.runtime.generated.instructions import lane_of
from eagerflow.runtime.rendezvous.credits import Sent
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.station import Station
from eagerflow.runtime.rendezvous.transport import StepEnd
from eagerflow.runtime.scheduled.detached import Result
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier, waits_nowhere
from eagerflow.runtime.threads.workers import shared

#: handle of an output that is sent, not kept at the task
_SENT: Final = 0


def _stays(node: Node) -> bool:
    """Whether a node belongs to this process: a function of Python, a queue, a file."""
    op = find_op(node.op)
    if op is None or op.moves:
        return False
    device = node.device
    if not isinstance(device, Device) or device.task is None:
        return not may_be_sent(op, (), node.attrs)
    return not may_be_sent(op, _backend(device).task.allows, node.attrs)


@final
class RemoteTier:
    """The tier of graphs on devices of tasks, and perhaps one device of this process.

    The graph is cut once. Each task gets its partitions with the first step, and a message with its
    feeds for each further step. Results stay at the tasks. Nodes that belong to this process, such
    as queues and functions of Python, run here.

    Args:
        graph: the graph. It must not change afterwards.
        number: the number of its executable, for events.

    Attributes:
        name: ``"remote"``.
        direct: None.

    Raises:
        PlacementError: the devices are of several clusters, or several are of this process.
    """

    name = "remote"
    direct = None

    def __init__(self, graph: Graph, number: int) -> None:
        self._number = number
        here = first_cpu()
        self._lanes = tuple(map(lane_of, graph.outputs))
        self._cut = cut(lower(pinned(graph, _stays, here), waits_nowhere), here)
        remote = [p for p in self._cut.partitions if p.device.task is not None]
        local = [p for p in self._cut.partitions if p.device.task is None]
        if len(local) > 1:
            raise PlacementError(
                "a graph that uses tasks has one device of this process",
                given=", ".join(str(p.device) for p in local),
            )
        places = fold(self._cut, local[0] if local else None)
        if local and not local[0].graph.nodes and not local[0].graph.outputs:
            local = []
        self._connections = _connections(graph)
        name = self._connections.name
        self._routes = {
            edge: Route(*[_qualified(node.device, name) for node in ends])
            for edge, ends in self._cut.pairs.items()
        }
        self._local = local[0] if local else None
        for node in () if self._local is None else self._local.graph.nodes:
            if node.op == "Send":  # a value is packed here before it is sent
                node.attrs = {**node.attrs, "to": here}
        self._tier = None if self._local is None else ScheduledTier(
            self._local.graph, number, routes=self._routes,
            transport=_Values(self._connections.station),
        )  # fmt: skip
        by_task: dict[str | None, list[Partition]] = {}
        for p in remote:
            by_task.setdefault(p.device.task, []).append(p)
        self._shares: Final = [_Share(partitions) for partitions in by_task.values()]
        whose = {p: share for share in self._shares for p in share.partitions}
        #: of each output the share of the task that gives it, None if it is computed here, and its
        #: index among the outputs of that share
        self._places: list[tuple[_Share | None, int]] = []
        for (partition, i), lane in zip(places, self._lanes, strict=True):
            share = whose.get(partition)
            number = i if share is None else share.first_output[partition] + i
            self._places.append((share, number))
            if share is not None and (lane is None or lane.device.task is None):
                share.kept[number] = False  # this process needs the value

    def __del__(self) -> None:
        for share in getattr(self, "_shares", ()):
            if share.registered is not None:
                task, number = share.registered
                task.connections.executables.pop(number, None)
                if task.lost is None:
                    task.connections.release(task.task, Release(0, number))

    @property
    def text(self) -> str:
        """The text of the partitions."""
        return "\n".join(str(partition.graph) for partition in self._cut.partitions)

    # --- steps ---

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step, and wait for its end in all processes.

        Raises:
            TaskLost: a task has ended meanwhile.
            EagerflowError: as eager code would raise.
        """
        if not self._shares:
            assert self._tier is not None
            return self._tier.run(self._given(inputs))
        tasks = {share: share.task for share in self._shares}
        parts = {share: self._part(share, task, inputs) for share, task in tasks.items()}
        step = _Running(self._connections)
        try:
            step.begin({tasks[share].task: part for share, part in parts.items()})
            mine = None if self._tier is None else self._run_here(step, inputs)
            results = step.results()
        except BaseException as error:
            for share, (*_, keep, _stream) in parts.items():
                for handle in filter(None, keep):  # a task that has not failed has kept its values
                    tasks[share].free(handle)
            if isinstance(error, EagerflowError):
                self._locate(error, step.head)
            raise
        made = []
        for (giver, i), lane in zip(self._places, self._lanes, strict=True):
            if giver is None:
                assert mine is not None
                made.append(mine[i])
                continue
            task = tasks[giver]
            value = results[task.task][i]
            handle = parts[giver][3][i]
            if handle:
                assert lane is not None
                value = RemoteArray(task, handle, lane.device, value.dtype, value.shape)
            made.append(value)
        return tuple(made)

    def _given(self, inputs: Sequence[Any]) -> list[Any]:
        """The feeds of this process's partition."""
        assert self._local is not None
        given = [inputs[i] for i in self._local.inputs]
        return [x.read() if type(x) is RemoteArray else x for x in given]

    def _run_here(self, step: _Running, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run the partition of this process."""
        assert self._tier is not None
        given = self._given(inputs)
        around, step_of.step = step_of.step, step.number
        try:
            running = self._tier.step()
            step.let_fail(running.cancel)
            return running.run(given)
        except BaseException as error:
            step.abort(error)
            raise
        finally:
            step_of.step = around

    def _part(self, share: _Share, task: RemoteTask, inputs: Sequence[Any]) -> StepPart:
        """The part of a task in a step."""
        task.check()
        known = share.registered
        if known is None or known[0] is not task:
            known = self._register(share, task)
        frames: list[Frame] = []
        feeds: list[Any] = []
        for i in share.inputs:
            x = inputs[i]
            if type(x) is RemoteArray:
                if x.is_at(task):
                    feeds.append(HandleHead(x.handle))
                    continue
                x = x.read()
            feeds.append(encode_value(x, frames))
        keep: Handles = ()
        if share.kept:
            keep = tuple([task.new_handle() if kept else _SENT for kept in share.kept])
        return known[1], tuple(feeds), frames, keep, streams.number

    def _register(self, share: _Share, task: RemoteTask) -> tuple[RemoteTask, int]:
        graphs = [partition.graph for partition in share.partitions]
        for state in (state for graph in graphs for state in resources_of(graph).values()):
            if isinstance(state, VariableState):
                state._data.task.check()
        number = next(self._connections.partitions)
        routes = {edge: (route.source, route.destination) for edge, route in self._routes.items()}
        nodes = [node for graph in graphs for node in graph.nodes]
        crossing = [n for n in nodes if lead_of(n.op) in ("send", "receive")]
        own = {node.attrs["edge"] for node in crossing}
        routes = {edge: route for edge, route in routes.items() if edge in own}
        message, frames = write_partition(graphs, 0, number, routes)
        self._connections.wait(self._connections.ask(task.task, message, frames))
        if share.registered is not None:
            self._connections.executables.pop(share.registered[1], None)
        self._connections.executables[number] = self._number
        known = share.registered = task, number
        return known

    def _locate(self, error: EagerflowError, head: ErrorHead | None) -> None:
        for share in self._shares:
            task = share.task
            if head is not None and head.task == task.task:
                task.locate(error, head)

    def detached(
        self, done: Callable[[Result], object], event: StepEvent | None, *, number: int,
        runner: str,
    ) -> _Detached:  # fmt: skip
        """A step whose caller does not wait (see `eagerflow.runtime.executable.Detach`)."""
        return _Detached(self, done, event)


@final
class _Share:
    """The share of one task in a step: the partitions of its devices, as one.

    Args:
        partitions: the partition of each device.

    Attributes:
        partitions: the same.
        inputs: for each of its inputs the index of that input in the whole graph.
        kept: for each of its outputs whether the value stays at the task.
        first_output: for each partition the index of its first output.
        registered: the process that has registered the share, and the number of the share there.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self.partitions = partitions
        self.inputs = [i for p in partitions for i in p.inputs]
        self.kept = [lane_of(v) is not None for p in partitions for v in p.graph.outputs]
        counts = [len(p.graph.outputs) for p in partitions]
        self.first_output = dict(zip(partitions, accumulate(counts, initial=0), strict=False))
        self.registered: tuple[RemoteTask, int] | None = None
        self._backend = _backend(partitions[0].device)

    @property
    def task(self) -> RemoteTask:
        """The current process of the task."""
        return self._backend.task


@final
class _Values:
    """A transport that reads values of tasks, from functions of Python, before it sends them."""

    __slots__ = ("_station", "abort", "begin", "end", "wanted")

    def __init__(self, station: Station) -> None:
        self._station = station
        self.begin, self.end = station.begin, station.end
        self.wanted, self.abort = station.wanted, station.abort

    def send(
        self, rendezvous: StepEnd, route: Route, key: Key, value: Any, dead: bool,
        sent: Sent | None, /,
    ) -> None:  # fmt: skip
        if type(value) is RemoteArray:
            value = value.read()
        self._station.send(rendezvous, route, key, value, dead, sent)


@final
class _Running:
    """The part of a step that runs at tasks.

    Attributes:
        number: the number of the step.
        head: the error of the step, once it has failed.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._cancel: Callable[[str], object] | None = None
        self._pending: Pending | None = None
        self.number = 0
        self.head: ErrorHead | None = None

    def begin(self, parts: dict[str, StepPart]) -> None:
        """Begin the step at the tasks."""
        self._pending, self.number = self._connections.run(parts, self._failed)

    def let_fail(self, cancel: Callable[[str], object]) -> None:
        """Set the function that cancels the local part when the step has failed at the tasks."""
        self._cancel = cancel
        if self.head is not None:
            cancel(self.head.wrong)

    def _failed(self, head: ErrorHead) -> None:
        """Cancel the local part after a failure; called by the thread that owns the sockets."""
        self.head = head
        if self._cancel is not None:
            self._cancel(head.wrong)

    def abort(self, error: BaseException) -> None:
        """Abort the step at the tasks: the local part has failed, or was interrupted.

        Raises:
            EagerflowError: a task has failed before.
        """
        assert self._pending is not None
        wrong = error if isinstance(error, EagerflowError) else CancelledError(repr(error))
        self._connections.abort(self._pending, wrong)
        with suppress(KeyboardInterrupt):
            self._pending.wait(ABORT_SECONDS)
        if isinstance(error, CancelledError) and self.head is not None:
            raise read_error(self.head) from None  # the reason of the cancellation

    def results(self) -> dict[str, list[Any]]:
        """Wait for the tasks, and give their results."""
        assert self._pending is not None
        return self._connections.wait(self._pending)


@final
class _Detached:
    """A step for which a thread of the pool waits.

    Attributes:
        thread: the thread that runs it: 0, since the tasks do.
    """

    thread = 0

    def __init__(
        self, tier: RemoteTier, done: Callable[[Result], object], event: StepEvent | None
    ) -> None:
        self._tier = tier
        self._done = done
        self._event = event

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin the step."""
        if self._event is not None:
            events.begin(self._event)
        shared.submit(partial(self._run, inputs))

    def cancel(self, reason: str) -> None:
        """Do nothing: the step ends by itself."""

    def _run(self, inputs: Sequence[Any]) -> None:
        try:
            made = self._tier.run(inputs)
            result: Result = partial(_given, made)
        except BaseException as error:
            result = partial(_raised, error)
        if self._event is not None:
            events.end(self._event)
        self._done(result)


def _given(made: tuple[Any, ...]) -> tuple[Any, ...]:
    return made


def _raised(error: BaseException) -> tuple[Any, ...]:
    raise error


def _backend(device: Device) -> RemoteBackend:
    backend = device.backend
    assert isinstance(backend, RemoteBackend)
    return backend


def _qualified(device: Any, name: str) -> str:
    """The name of a device by which all tasks know it."""
    assert isinstance(device, Device)
    return str(device) if device.task is not None else f"{name}/{device}"


def _on_tasks(graph: Graph) -> list[Device]:
    """The devices of tasks that a graph uses."""
    return [d for d in devices_in(graph.nodes) if isinstance(d, Device) and d.task is not None]


def _connections(graph: Graph) -> Connections:
    every = {id(c): c for c in (_backend(d).task.connections for d in _on_tasks(graph))}
    if len(every) != 1:
        raise PlacementError("the devices of a graph are of several clusters")
    return next(iter(every.values()))


run_tasks_by(RemoteTier)
