"""Steps of graphs that use tasks: each partition runs on its device, that of this process too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, final

from eagerflow.cluster.processes.client.connections import Connections
from eagerflow.cluster.protocol.message_heads import ErrorHead, HandleHead, Handles
from eagerflow.cluster.protocol.messages import Release
from eagerflow.cluster.protocol.op_permissions import may_be_sent
from eagerflow.cluster.protocol.partitions import resources_of, write_partition
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.cluster.remote.arrays import RemoteArray
from eagerflow.cluster.remote.backend import RemoteBackend
from eagerflow.cluster.remote.message_folding import fold
from eagerflow.cluster.remote.running_steps import DetachedRemoteStep, RunningStep
from eagerflow.cluster.remote.tasks import RemoteTask, streams
from eagerflow.cluster.state_machines.client import StepPart
from eagerflow.core.op import find_op
from eagerflow.errors import EagerflowError, PlacementError
from eagerflow.events import StepEvent, step_of
from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering import lower
from eagerflow.graph.signatures import lead_of
from eagerflow.hardware import Device
from eagerflow.hardware.registry import first_cpu
from eagerflow.placement.cut import Partition, cut
from eagerflow.placement.placed_graph import pinned
from eagerflow.resources.resources_at_tasks import ResourceAtTask
from eagerflow.resources.variable import VariableGroup, VariableState
from eagerflow.runtime.executable import run_tasks_by
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.generated.instructions import lane_of
from eagerflow.runtime.rendezvous.credits import Sent
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.rendezvous.station import Station
from eagerflow.runtime.rendezvous.transport import StepEnd
from eagerflow.runtime.scheduled.detached import Result
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier, waits_nowhere

#: handle of an output that is sent, not kept at the task
_SENT: Final = 0


def _stays(node: Node) -> bool:
    """Whether a node belongs to this process: a function of Python, its own queue, a file."""
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
    as functions of Python and ops on its own queues, run here.

    Args:
        graph: the graph. It must not change afterwards.
        number: the number of its executable, for events.

    Attributes:
        name: ``"remote"``.
        direct: None.
        connections: the connections of this client.
        here: the tier of the part of this process; None if there is none.
        shares: the shares of the tasks.

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
                "a graph that uses tasks may use only one device of this process",
                given=", ".join(str(p.device) for p in local),
            )
        places = fold(self._cut, local[0] if local else None)
        if local and not local[0].graph.nodes and not local[0].graph.outputs:
            local = []
        self.connections = _connections(graph)
        name = self.connections.name
        self._routes = {
            edge: Route(*[_qualified(node.device, name) for node in ends])
            for edge, ends in self._cut.pairs.items()
        }
        self._local = local[0] if local else None
        for node in () if self._local is None else self._local.graph.nodes:
            if node.op == "Send":  # a value is packed here before it is sent
                node.attrs = {**node.attrs, "to": here}
            group = node.attrs.get("resource")
            if type(group) is VariableGroup:  # its results are sent on from here
                group.copies_here = True
        self.here = None if self._local is None else ScheduledTier(
            self._local.graph, number, routes=self._routes,
            transport=_Values(self.connections.station),
        )  # fmt: skip
        by_task: dict[str | None, list[Partition]] = {}
        for p in remote:
            by_task.setdefault(p.device.task, []).append(p)
        shares = [TaskShare(partitions) for partitions in by_task.values()]
        # whoever receives most begins first: a value for a step that has begun takes fewer calls
        self.shares: Final = sorted(shares, key=lambda share: -share.receives)
        whose = {p: share for share in self.shares for p in share.partitions}
        #: of each output the share of the task that gives it, None if it is computed here, and its
        #: index among the outputs of that share
        self._places: list[tuple[TaskShare | None, int]] = []
        for (partition, i), lane in zip(places, self._lanes, strict=True):
            share = whose.get(partition)
            number = i if share is None else share.first_output[partition] + i
            self._places.append((share, number))
            if share is not None and (lane is None or lane.device.task is None):
                share.kept[number] = False  # this process needs the value

    def __del__(self) -> None:
        for share in getattr(self, "shares", ()):
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
        if not self.shares:
            assert self.here is not None
            return self.here.run(self.given(inputs))
        step = RunningStep(self.connections)
        try:
            self.begin(step, inputs)
            return self.results(step, self._run_here(step, inputs))
        except BaseException as error:
            self.failed(step, error)
            raise

    def begin(self, step: RunningStep, inputs: Sequence[Any]) -> None:
        """Begin a step at its tasks."""
        step.tasks = {share: share.task for share in self.shares}
        parts = {share: self._part(share, task, inputs) for share, task in step.tasks.items()}
        step.keep = {share: part[3] for share, part in parts.items()}
        step.begin({step.tasks[share].task: part for share, part in parts.items()})

    def results(self, step: RunningStep, mine: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of a step, from those of its tasks and those of this process."""
        results = step.results()
        made = []
        for (giver, i), lane in zip(self._places, self._lanes, strict=True):
            if giver is None:
                made.append(mine[i])
                continue
            task = step.tasks[giver]
            value = results[task.task][i]
            handle = step.keep[giver][i]
            if handle:
                assert lane is not None
                value = RemoteArray(task, handle, lane.device, value.dtype, value.shape)
            made.append(value)
        return tuple(made)

    def failed(self, step: RunningStep, error: BaseException) -> None:
        """Free what tasks have kept that have not failed, and find the line of the error."""
        if not isinstance(error, Exception):  # Ctrl-C may have come before the wait, or after it
            step.give_back(error)
        for share, keep in step.keep.items():
            for handle in filter(None, keep):
                step.tasks[share].free(handle)
        if isinstance(error, EagerflowError):
            self._locate(error, step.head)

    def given(self, inputs: Sequence[Any]) -> list[Any]:
        """The feeds of this process's partition."""
        assert self._local is not None
        given = [inputs[i] for i in self._local.inputs]
        return [x.read() if type(x) is RemoteArray else x for x in given]

    def _run_here(self, step: RunningStep, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run the partition of this process, if there is one."""
        if self.here is None:
            return ()
        given = self.given(inputs)
        around, step_of.step = step_of.step, step.number
        try:
            running = self.here.step()
            step.let_fail(running.cancel)
            return running.run(given)
        except BaseException as error:
            step.abort(error)
            raise
        finally:
            step_of.step = around

    def _part(self, share: TaskShare, task: RemoteTask, inputs: Sequence[Any]) -> StepPart:
        """The part of a task in a step."""
        if task.lost is not None:
            task.check()
        known = share.registered
        if known is None or known[0] is not task:
            known = self._register(share, task)
        frames: list[Frame] = []
        if not share.inputs and not share.kept:
            return known[1], (), frames, (), streams.number
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

    def _register(self, share: TaskShare, task: RemoteTask) -> tuple[RemoteTask, int]:
        graphs = [partition.graph for partition in share.partitions]
        for state in (state for graph in graphs for state in resources_of(graph).values()):
            if isinstance(state, VariableState):
                state._data.task.check()
            elif type(state) is ResourceAtTask:
                state.check()
        number = next(self.connections.partitions)
        routes = {edge: (route.source, route.destination) for edge, route in self._routes.items()}
        nodes = [node for graph in graphs for node in graph.nodes]
        crossing = [n for n in nodes if lead_of(n.op) in ("send", "receive")]
        own = {node.attrs["edge"] for node in crossing}
        routes = {edge: route for edge, route in routes.items() if edge in own}
        message, frames = write_partition(graphs, 0, number, routes)
        self.connections.wait(self.connections.ask(task.task, message, frames))
        if share.registered is not None:
            self.connections.executables.pop(share.registered[1], None)
        self.connections.executables[number] = self._number
        known = share.registered = task, number
        return known

    def _locate(self, error: EagerflowError, head: ErrorHead | None) -> None:
        for share in self.shares:
            task = share.task
            if head is not None and head.task == task.task:
                task.locate(error, head)

    @property
    def regions(self) -> Sequence[RegionCode]:
        """None: other processes run it."""
        return ()

    def detached(
        self, done: Callable[[Result], object], event: StepEvent | None, *, number: int,
        runner: str,
    ) -> DetachedRemoteStep:  # fmt: skip
        """A step whose caller does not wait (see `eagerflow.runtime.tiers.Detach`)."""
        return DetachedRemoteStep(self, done, event, runner)


@final
class TaskShare:
    """The share of one task in a step: the partitions of its devices, as one.

    Args:
        partitions: the partition of each device.

    Attributes:
        partitions: the same.
        inputs: for each of its inputs the index of that input in the whole graph.
        kept: for each of its outputs whether the value stays at the task.
        first_output: for each partition the index of its first output.
        receives: number of nodes that receive values.
        registered: the process that has registered the share, and the number of the share there.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self.partitions = partitions
        self.inputs = [i for p in partitions for i in p.inputs]
        self.kept = [lane_of(v) is not None for p in partitions for v in p.graph.outputs]
        counts = [len(p.graph.outputs) for p in partitions]
        self.first_output = dict(zip(partitions, accumulate(counts, initial=0), strict=False))
        nodes = [node for p in partitions for node in p.graph.nodes]
        self.receives = sum(lead_of(node.op) == "receive" for node in nodes)
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
