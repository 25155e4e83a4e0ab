"""Events of the nodes of a program, made only while somebody listens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any, final

from eagerflow import events
from eagerflow.graph.ir import Node
from eagerflow.resources.attempts import slept
from eagerflow.runtime.instructions import Instructions
from eagerflow.runtime.on_behalf import step_of
from eagerflow.source import Source
from eagerflow.types import TensorSpec, TensorType

__all__ = ["Observer", "tell_node"]


def tell_node(
    node: Node, start: float, stop: float, specs: Sequence[TensorSpec], *, device: str,
    graph: str, program: int, waited: float, thread: int, caller: int, runner: str,
) -> None:  # fmt: skip
    """Make the event of a node that has run.

    Args:
        node: the node.
        start: when it began, in seconds of ``time.perf_counter``.
        stop: when it ended.
        specs: of its results.
        device: where it ran.
        graph: the name of its graph.
        program: the number of its program.
        waited: how many seconds of it were spent waiting.
        thread: that it ran in; 0 if it waited and held none.
        caller: the thread that asked for it, 0 where that is the same one.
        runner: the name of the runner that it ran for, if there is one.
    """
    events.emit(
        events.Event(
            kind="node",
            name=node.op,
            device=device,
            start=start,
            stop=stop,
            thread=thread,
            nbytes=sum(s.nbytes for s in specs),
            detail=", ".join(map(str, specs)),
            source=node.source if isinstance(node.source, Source) else None,
            node=node.name,
            scope=node.scope,
            graph=graph,
            program=program,
            caller=caller,
            waited=waited,
            runner=runner,
        )
    )


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
        devices = dict.fromkeys(str(d) for d in self.program.devices if d is not None)
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
                runner=step_of.runner,
            )
        )

    def note(self, index: int, start: float, *outputs: Any) -> float:
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
        tell_node(
            node, start, stop, specs, device=device, graph=self.graph, program=self.number,
            waited=waited, thread=threading.get_ident(), caller=step_of.caller,
            runner=step_of.runner,
        )  # fmt: skip
        return perf_counter()
