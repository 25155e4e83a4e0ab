"""Events of regions and nodes for instruments, in steps of generated code and the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from types import FrameType
from typing import Any, Final, TypeAlias, final

import numpy as np

from eagerflow import events
from eagerflow.events import NodeEvent, RegionEvent, step_of
from eagerflow.events.event_kinds import where
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_loop
from eagerflow.resources.waiting_operations import slept
from eagerflow.running_node import RunningNode
from eagerflow.runtime.generated.instructions import Instructions, line_of
from eagerflow.runtime.generated.program_code import Code, FusedCall
from eagerflow.runtime.node_seconds import shares_of_call
from eagerflow.source import variables_of
from eagerflow.types import TensorSpec, TensorType

#: number of instructions with shapes that an observer remembers
_MOST_KNOWN: Final = 1024


#: registers of results, each with its shape
_Results: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]


def described(node: Node, specs: Sequence[TensorSpec]) -> dict[str, Any]:
    """Fields of every event of a node with results of these specs."""
    return {
        "name": node.op, "node": node.name, "scope": node.scope,
        "nbytes": sum(s.nbytes for s in specs), "detail": ", ".join(map(str, specs)),
        "source": line_of(node),
    }  # fmt: skip


@final
class Observer:
    """Emits the events of a region and of each node in it.

    Args:
        executable: the number of the executable.
        graph: the name of its graph.
        region: the number of the region there.
        program: the instructions of the region.
    """

    def __init__(self, executable: int, graph: str, region: int, program: Instructions) -> None:
        self.executable = executable
        self.graph = graph
        self.region = region
        self.program = program
        self._known: dict[Any, dict[str, Any]] = {}  # by instruction and the shapes of its results
        self._shares: dict[FusedCall, Sequence[tuple[int, float]]] = {}
        nodes = [line.node for line in program.lines if line.node is not None]
        names = [node.name for node in (*nodes[:1], *nodes[1:][-1:])]
        self.name = " … ".join(names) or graph
        devices = [str(device) for device in program.devices if device is not None]
        self._where = where(tuple(dict.fromkeys(devices)))

    def region_event(self) -> RegionEvent:
        """The event of a run of the region."""
        return RegionEvent(
            name=self.name, **self._where, executable=self.executable, graph=self.graph,
            region=self.region,
        )  # fmt: skip

    def note(self, index: int, start: float, iterations: Sequence[int], *outputs: Any) -> float:
        """Emit the event of the instruction at ``index``, unless it is -1; returns the time now."""
        stop = perf_counter()
        waited, slept.told = slept.seconds - slept.told, slept.seconds
        if index < 0:
            return stop
        registers = self.program.all[index].outputs
        shapes = zip(registers, [data.shape for data in outputs], strict=True)
        known = self._description(index, tuple(shapes))
        event = NodeEvent(start=start, stop=stop, waited=waited, **known)
        if iterations:
            event.frames = (*step_of.frames, *zip(self._loops(index), iterations, strict=True))
        events.end(event)
        return perf_counter()

    def note_call(
        self, call: FusedCall, start: float, iterations: Sequence[int], *outputs: Any
    ) -> float:  # fmt: skip
        """Emit the events of the nodes of a call, one after the other; returns the time now.

        Each has a share of the time, by its work; one whose result stays within has no bytes.
        """
        seconds = perf_counter() - start
        waited, slept.told = slept.seconds - slept.told, slept.seconds
        shapes = dict(zip(call.outputs, [x.shape for x in outputs], strict=True))
        for index, share in self._members(call):
            made = [(r, shapes[r]) for r in self.program.all[index].outputs if r in shapes]
            known = self._description(index, tuple(made))
            stop = start + share * seconds
            event = NodeEvent(
                start=start, stop=stop, waited=share * waited, kernel=call.kernel, **known
            )
            if iterations:
                loops = zip(self._loops(index), iterations, strict=True)
                event.frames = (*step_of.frames, *loops)
            events.end(event)
            start = stop
        return perf_counter()

    def _members(self, call: FusedCall) -> Sequence[tuple[int, float]]:
        """The instructions of a call that run nodes, each with its share of the time."""
        known = self._shares.get(call)
        if known is None:
            pairs = [(i, self.program.all[i].node) for i in call.members]
            nodes = [(i, node) for i, node in pairs if node is not None]
            shares = shares_of_call([node for _, node in nodes])
            known = self._shares[call] = [
                (i, share) for (i, _), share in zip(nodes, shares, strict=True)
            ]
        return known

    def _description(self, index: int, made: _Results) -> dict[str, Any]:
        """As `_describe`, and remembered."""
        known = self._known.get((index, made))
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[index, made] = self._describe(index, made)
        return known

    def _describe(self, index: int, made: _Results) -> dict[str, Any]:
        """Fields of every event of an instruction with these results; others stay in a kernel."""
        line, program = self.program.all[index], self.program
        node = line.node
        assert node is not None
        specs = []
        for register, shape in made:
            kind = program.kinds[register]
            assert isinstance(kind, TensorType)
            specs.append(kind.like(shape=tuple(shape)).on(program.devices[register]))
        device = str(specs[-1].device if specs else node.device or "")
        if not specs and line.inputs:
            lane = program.lane(line.inputs[0])
            device = device if lane is None else lane.device.name
        known = described(node, specs)
        return {**known, "device": device, "executable": self.executable, "graph": self.graph}

    def _loops(self, index: int) -> list[str]:
        """The names of the loops around an instruction, the outermost first."""
        around = [line.node for line, _ in self.program.around[index]]
        return [node.name for node in around if node is not None and is_loop(node.op)]


def running_node_in(
    code: Code, frames: Sequence[FrameType], executable: int, graph: str
) -> RunningNode | None:
    """The node at which a thread is; None if it is between two nodes.

    Args:
        code: the code that runs.
        frames: the frames of the thread in this code, the innermost first.
        executable: the number of the executable.
        graph: the name of its graph.
    """
    index = code.lines[frames[0].f_lineno]
    node = code.program.all[index].node if index >= 0 else None
    if node is None:
        return None
    loops = [(loop.name, iteration) for _, loop, iteration in code.loops(index, frames)]
    return RunningNode(
        line_of(node), executable, graph, node.name, tuple(loops[::-1]),
        _progress(code, frames[0]),
    )  # fmt: skip


def _progress(code: Code, frame: FrameType) -> float:
    """The fraction of a kernel that has run, for a thread within one; else 0.

    Args:
        code: the code that runs.
        frame: the innermost frame of the thread.
    """
    region = code.kernels.get(frame.f_code.co_name)
    if region is None or region.control is None:
        return 0.0
    sizes = [x.size for x in variables_of(frame).values() if isinstance(x, np.ndarray)]
    whole = region.weight * max(sizes, default=0)
    return min(1.0, region.control.done / whole) if whole else 0.0
