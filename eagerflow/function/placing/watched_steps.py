"""Observed times of ops and moves, and iterations of loops, in real steps, for the cost model.

A watched step reads the clock after each op, and waits there for the results of asynchronous
devices. So it takes longer than other steps, and is not compared.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final, final

from eagerflow import events
from eagerflow.errors import DeviceError
from eagerflow.events import AbstractEvent, TransferEvent
from eagerflow.graph.edit import all_nodes, devices_in
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.signatures import is_loop, kind_of
from eagerflow.hardware import Device, as_device, wait_for_data
from eagerflow.ops.creation.arrays import ones
from eagerflow.placement.automatic.cost_model import ObservedTimes
from eagerflow.placement.automatic.sites import OpSite, site_of
from eagerflow.profiling.node_statistics import median
from eagerflow.runtime.executable import Executable
from eagerflow.runtime.node_seconds import shares_of_call
from eagerflow.runtime.observed_step import NodeTimes, Observation

#: number of times of a node or a move kept for the median
_KEPT: Final = 9
#: number of steps of the graph by which the cost of reading the clock is measured
_LOOKS: Final = 9
_ROW: Final = 40  # ops of that graph


@final
class Seen:
    """Observations of the steps of one trace, for all its placements.

    Attributes:
        nodes: for each executable the seconds of a run, by site and kind of device.
        links: the seconds of moves, by kinds of devices and bytes.
        iterations: numbers of iterations of loops, by the site of the loop.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, defaultdict[tuple[OpSite, str], deque[float]]] = {}
        self.links: defaultdict[tuple[str, str, int], deque[float]] = defaultdict(_few)
        self.iterations: defaultdict[OpSite, deque[int]] = defaultdict(_few)

    def observed(self) -> ObservedTimes:
        """The medians of the observations.

        For a site in several executables, the least counts: in the others it shared the cores with
        nodes running at the same time, which the simulator accounts for itself.
        """
        nodes: dict[tuple[OpSite, str], float] = {}
        for times in self.nodes.values():
            for key, seconds in list(times.items()):
                nodes[key] = min(median(seconds), nodes.get(key, float("inf")))
        return ObservedTimes(
            nodes, {link: median(times) for link, times in self.links.items()},
            {loop: round(median(counts)) for loop, counts in self.iterations.items()},
        )  # fmt: skip

    def add(self, executable: Executable, observation: Observation) -> None:
        """Add the times of an observed step."""
        seconds: defaultdict[tuple[OpSite, str], float] = defaultdict(float)
        runs: Counter[tuple[OpSite, str]] = Counter()
        for times in observation.regions.values():
            for node, took, count in _ops(times):
                key = site_of(node), _kind(node)
                seconds[key] += took
                runs[key] += count
        known = self.nodes.setdefault(executable.number, defaultdict(_few))
        for key, count in runs.items():
            look = look_seconds(key[1], waits=observation.waits)
            known[key].append(max(seconds[key] / count - look, 0.0))
        total: Counter[OpSite] = Counter()
        for (site, _), count in runs.items():
            total[site] += count
        self._iterations(executable.graph, total)

    def _iterations(self, graph: Graph, runs: Counter[OpSite]) -> None:
        """Note the iterations of loops, derived from the number of runs of ops in their bodies."""
        every = Counter(site_of(node) for node in all_nodes(graph.nodes))

        def walk(nodes: list[Node], times: float) -> None:
            for node in nodes:
                inside = [(name, inner.nodes) for name, inner in node.subgraphs()]
                count = 1.0
                if is_loop(node.op):
                    body = [n for name, ns in inside if name == "body" for n in ns]
                    ran = [runs[site_of(n)] / every[site_of(n)] for n in body]
                    count = max(ran, default=0.0) / times if times else 0.0
                    if any(kind_of(n.op) == "op" for n in body):
                        self.iterations[site_of(node)].append(round(count))
                for _, inner in inside:
                    walk(inner, times * count)

        walk(graph.nodes, 1.0)


def _few() -> deque[Any]:
    return deque(maxlen=_KEPT)


def _kind(node: Node) -> str:
    device: Any = node.device
    if device is None:
        device = next((v.device for v in node.outputs if v.device is not None), None)
    return as_device(device).kind


def _ops(times: NodeTimes) -> Iterator[tuple[Node, float, int]]:
    """The ops of a region that ran, with the seconds of all runs, and the number of runs.

    The time of a chain is divided among its ops by their work.
    """
    for index, runs in enumerate(times.runs):
        members = [times.instructions[i].node for i in times.chains.get(index, (index,))]
        nodes = [n for n in members if n is not None and kind_of(n.op) == "op"]
        if not runs or not nodes:
            continue
        took = times.seconds[index] - times.waited[index]
        for node, share in zip(nodes, shares_of_call(nodes), strict=True):
            yield node, took * share, runs


@final
class StepWatcher:
    """Measures ops and moves of an executable within a ``with`` block of one step.

    Args:
        executable: the executable.
        seen: the observations to which the step is added at the end of the block.
    """

    kinds: Final = frozenset({TransferEvent})

    def __init__(self, executable: Executable, seen: Seen) -> None:
        self._executable = executable
        self._seen = seen
        self._lock = threading.Lock()
        self._observed: list[Observation] = []
        self._before: Observation | None = None

    def brief_step(self, step: object) -> None:
        """Do nothing; the method is needed, as only steps told in brief are observed."""

    def brief_region(self, region: object) -> None:
        """Do nothing; see `brief_step`."""

    def __enter__(self) -> StepWatcher:
        observation = _observation(self._executable, self._observed.append)
        events.add_instrument(self)
        self._before = self._executable.observe(observation)
        return self

    def __exit__(self, *raised: object) -> None:
        events.remove_instrument(self)
        self._executable.observe(self._before)  # as of a view, which observes the next step
        for observation in self._observed:
            if not any(raised):
                self._seen.add(self._executable, observation)

    def begin(self, event: AbstractEvent, /) -> None:
        """Do nothing: moves are noted at their end."""

    def end(self, event: AbstractEvent, /) -> None:
        """Note a move between kinds of devices.

        For an asynchronous device the event has only the time of issuing the move; and between
        virtual CPUs no data is moved.
        """
        assert isinstance(event, TransferEvent)
        if event.executable != self._executable.number or event.nbytes is None:
            return
        try:
            source, target = as_device(event.origin), as_device(event.device)
        except DeviceError:  # there are fewer than when the step began
            return
        if target.is_ready_at_once and source.backend is not target.backend:
            with self._lock:
                self._seen.links[source.kind, target.kind, event.nbytes].append(event.seconds)


def _observation(executable: Executable, done: Any) -> Observation:
    later = any(
        isinstance(d, Device) and not d.is_ready_at_once and d.holds_data
        for d in devices_in(executable.graph.nodes)
    )
    return Observation(executable.number, done, waits=later)


_looks: Final[dict[tuple[str, bool], float]] = {}


def look_seconds(kind: str, *, waits: bool) -> float:
    """Seconds that reading the clock adds to the time of an op, measured once per process.

    Args:
        kind: of the devices.
        waits: whether the host waits for the results first.
    """
    if (kind, waits) not in _looks:
        _looks[kind, waits] = _look_seconds(as_device(f"{kind}:0"), waits)
    return _looks[kind, waits]


@final
class _Listener:
    """An instrument that ignores steps told in brief, so that they can be observed."""

    kinds: Final = frozenset[type[AbstractEvent]]()

    def brief_step(self, step: object) -> None:
        """Ignore a step."""

    def brief_region(self, region: object) -> None:
        """Ignore a region."""

    def begin(self, event: AbstractEvent, /) -> None:
        """Never called, as ``kinds`` is empty."""

    def end(self, event: AbstractEvent, /) -> None:
        """Never called, as ``kinds`` is empty."""


def _look_seconds(device: Device, waits: bool) -> float:
    kind = f"f32[4]@{device}"
    lines = [f"%y{i + 1} = negative(%y{i}) : {kind}" for i in range(1, _ROW)]
    text = "\n".join([f"%y1 = negative(%x) : {kind}", *lines])
    graph = Graph.parse(f"graph row(%x: {kind}) {{ {text} return %y{_ROW} }}")
    executable = Executable(graph, "off")
    value = ones(4, device=device)._data
    plain, observed = list[float](), list[Observation]()
    listener = _Listener()
    for _ in range(_LOOKS):
        start = perf_counter()
        (result,) = executable(value)
        wait_for_data(result, device)
        plain.append(perf_counter() - start)
        events.add_instrument(listener)
        try:
            executable.observe(Observation(executable.number, observed.append, waits=waits))
            executable(value)
        finally:
            events.remove_instrument(listener)
    looked = [sum(sum(r.seconds) for r in one.regions.values()) for one in observed]
    return max(median(looked) - median(plain), 0.0) / _ROW
