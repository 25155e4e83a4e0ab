"""Events of the nodes of a program, made only while somebody listens."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Any, final

from eagerflow import events
from eagerflow.runtime.instructions import Instructions
from eagerflow.runtime.on_behalf import step_of
from eagerflow.source import Source
from eagerflow.types import TensorType

__all__ = ["Observer"]


@final
class Observer:
    """Makes an event of each node that a program ran.

    Args:
        number: of the program.
        graph: the name of its graph.
        program: its instructions.
    """

    def __init__(self, number: int, graph: str, program: Instructions) -> None:
        self.number = number
        self.graph = graph
        self.program = program

    def step(self, start: float) -> None:
        """Tell that the program ran from ``start`` until now."""
        devices = dict.fromkeys(str(k.device) for k in self.program.kinds if type(k) is TensorType)
        events.emit(
            events.Event(
                kind="step",
                name=self.graph or "graph",
                device=", ".join(devices),
                start=start,
                stop=perf_counter(),
                thread=threading.get_ident(),
                graph=self.graph,
                program=self.number,
            )
        )

    def note(self, index: int, start: float, *outputs: Any) -> float:
        """Tell of the instruction at ``index``, unless it is -1; gives the time now."""
        stop = perf_counter()
        if index < 0:
            return stop
        line = self.program.all[index]
        node = line.node
        assert node is not None
        types = []
        device = node.device or ""
        for register, data in zip(line.outputs, outputs, strict=True):
            kind = self.program.kinds[register]
            assert isinstance(kind, TensorType)
            device = str(kind.device)
            types.append(kind.like(shape=tuple(data.shape)))
        if not types and line.inputs:
            lane = self.program.lane(line.inputs[0])
            device = device if lane is None else lane.device.name
        events.emit(
            events.Event(
                kind="node",
                name=node.op,
                device=device,
                start=start,
                stop=stop,
                thread=threading.get_ident(),
                nbytes=sum(t.nbytes for t in types),
                detail=", ".join(map(str, types)),
                source=node.source if isinstance(node.source, Source) else None,
                node=node.name,
                scope=node.scope,
                graph=self.graph,
                program=self.number,
                caller=step_of.caller,
            )
        )
        return perf_counter()
