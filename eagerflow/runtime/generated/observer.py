"""What instruments are told of a step that generated code and the scheduler run."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from types import FrameType
from typing import Any, final

from eagerflow import events
from eagerflow.events import NodeEvent, RegionEvent, step_of
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_loop
from eagerflow.graph_position import GraphPosition
from eagerflow.resources.attempts import slept
from eagerflow.runtime.generated.codegen import Code
from eagerflow.runtime.generated.instructions import Instructions
from eagerflow.source import Source, variables_of
from eagerflow.types import TensorSpec, TensorType

__all__ = [
    "Observer",
    "node_event",
    "position_in",
]


def node_event(node: Node, specs: Sequence[TensorSpec], **more: Any) -> NodeEvent:
    """The event of a node whose results are of these specs."""
    return NodeEvent(
        name=node.op, node=node.name, scope=node.scope, nbytes=sum(s.nbytes for s in specs),
        detail=", ".join(map(str, specs)),
        source=node.source if isinstance(node.source, Source) else None, **more,
    )  # fmt: skip


@final
class Observer:
    """Tells of a region and of each node in it.

    Args:
        executable: the number of what it belongs to.
        graph: the name of that one's graph.
        region: its number there.
        program: its instructions.
    """

    def __init__(self, executable: int, graph: str, region: int, program: Instructions) -> None:
        self.executable = executable
        self.graph = graph
        self.region = region
        self.program = program
        nodes = [line.node for line in program.lines if line.node is not None]
        names = [node.name for node in (*nodes[:1], *nodes[1:][-1:])]
        self.name = " … ".join(names) or graph
        devices = [str(device) for device in program.devices if device is not None]
        self.device = ", ".join(dict.fromkeys(devices))

    def region_event(self) -> RegionEvent:
        """The event of a run of the region."""
        return RegionEvent(
            name=self.name, device=self.device, executable=self.executable, graph=self.graph,
            region=self.region,
        )  # fmt: skip

    def note(self, index: int, start: float, iterations: Sequence[int], *outputs: Any) -> float:
        """Tell of the instruction at ``index``, unless it is -1; gives the time now."""
        stop = perf_counter()
        waited, slept.told = slept.seconds - slept.told, slept.seconds
        if index < 0:
            return stop
        line = self.program.all[index]
        node = line.node
        assert node is not None
        specs = []
        device = str(node.device or "")
        for register, data in zip(line.outputs, outputs, strict=True):
            kind = self.program.kinds[register]
            assert isinstance(kind, TensorType)
            specs.append(kind.like(shape=tuple(data.shape)).on(self.program.devices[register]))
            device = str(specs[-1].device)
        if not specs and line.inputs:
            lane = self.program.lane(line.inputs[0])
            device = device if lane is None else lane.device.name
        event = node_event(
            node, specs, device=device, start=start, stop=stop, executable=self.executable,
            graph=self.graph, waited=waited,
        )  # fmt: skip
        if iterations:
            event.frames = (*step_of.frames, *zip(self._loops(index), iterations, strict=True))
        events.end(event)
        return perf_counter()

    def _loops(self, index: int) -> list[str]:
        """The names of the loops that an instruction stands in, the outermost first."""
        around = [line.node for line, _ in self.program.around[index]]
        return [node.name for node in around if node is not None and is_loop(node.op)]


def position_in(
    code: Code, frames: Sequence[FrameType], executable: int, graph: str
) -> GraphPosition | None:
    """The position of a thread; None if it is between two nodes.

    Args:
        code: that runs.
        frames: those of the thread in this code, the innermost first.
        executable: the number of what runs it.
        graph: the name of its graph.
    """
    program = code.program
    index = code.lines[frames[0].f_lineno]
    node = program.all[index].node if index >= 0 else None
    if node is None:
        return None
    loops = [line for line, _ in program.around[index] if line.node and is_loop(line.node.op)]
    known = [variables_of(frame) for frame in frames] if loops else []
    return GraphPosition(
        source=node.source if isinstance(node.source, Source) else None,
        executable=executable,
        graph=graph,
        node=node.name,
        frames=tuple([
            (loop.node.name, iteration)
            for loop in loops
            if loop.node is not None and (iteration := _local(known, f"k{loop.index}")) is not None
        ]),
    )  # fmt: skip


def _local(known: Sequence[dict[str, Any]], name: str) -> Any:
    """A variable of the innermost function that has it."""
    return next((variables[name] for variables in known if name in variables), None)
