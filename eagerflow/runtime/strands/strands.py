"""Strands: the partitions of a cut as generators, which one thread runs, one at a time.

Where no part of a graph is worth a thread of its own, and every value is there as soon as its op
has returned, there is nothing to schedule: partitions only have to wait for each other. So each is
a generator that runs its nodes in order, branches and loops as Python's own, until it needs what
was not sent yet (``docs/decisions/0034-strands.md``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, final

from eagerflow.errors import CancelledError, EagerflowError, SchedulerError, relocate
from eagerflow.events import AbstractEvent, step_of
from eagerflow.graph.ir import Node
from eagerflow.graph.text.printer import node_note
from eagerflow.hardware import NullArray
from eagerflow.loop_errors import iteration_note
from eagerflow.placement.cut import Cut
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.rendezvous.keys import Route
from eagerflow.runtime.strands.edges import EdgeQueue, RouteCount, Strand
from eagerflow.runtime.strands.order import OrderedCut
from eagerflow.runtime.strands.script import Script
from eagerflow.runtime.strands.text import StrandCode
from eagerflow.types import TensorType

#: gives for a Send of a value what makes of it that of the other device, and tells of that
Mover = Callable[[Node], Callable[[Any], Any]]


@final
class Strands:
    """The partitions of a cut, each as a strand.

    Args:
        cut: the partitions, of devices whose values are ready at once. No op of theirs waits.
        routes: for each edge from which device to which it goes.
        number: of the executable, for events.
        mover: for Sends.

    Raises:
        GraphError: it is not made of branches and loops as lowering makes them.
    """

    __slots__ = ("_edges", "_mover", "_outputs", "_routes", "_scripts", "_versions")

    def __init__(
        self, cut: Cut, routes: Mapping[str, Route], number: int, mover: Mover
    ) -> None:  # fmt: skip
        order = OrderedCut(cut)
        self._mover = mover
        self._scripts: list[Script] = []
        for partition in cut.partitions:
            first = sum(len(script.regions) for script in self._scripts)
            self._scripts.append(Script(partition, order, number, first))
        numbers = {route: i for i, route in enumerate(dict.fromkeys(routes.values()))}
        self._edges = {edge: i for i, edge in enumerate(routes)}
        self._routes = {edge: numbers[route] for edge, route in routes.items()}
        places = {script.partition: i for i, script in enumerate(self._scripts)}
        seen = dict.fromkeys(cut.partitions, 0)
        self._outputs: list[tuple[int, int]] = []  # the partition of each, and the number there
        for partition, _ in cut.outputs:
            self._outputs.append((places[partition], seen[partition]))
            seen[partition] += 1
        self._versions: dict[bool, list[StrandCode]] = {}

    @property
    def text(self) -> str:
        """The generators, and the functions of their regions."""
        lines = [code.text for code in self._codes(told=False)]
        for script in self._scripts:
            for one in script.regions:
                lines += [f"# r{one.region}", one.code.plain().text]
        return "\n".join(lines)

    def _codes(self, *, told: bool) -> list[StrandCode]:
        known = self._versions.get(told)
        if known is None:
            send = partial(self._send, told)
            known = self._versions[told] = [
                StrandCode(script, self._edges, self._routes, told=told, send=send)
                for script in self._scripts
            ]
        return known

    def _send(self, told: bool, node: Node) -> Callable[[Any], Any] | None:
        """What makes of a value that which a Send sends."""
        if not node.inputs:
            return None
        if "shape" in node.attrs:
            return lambda data: NullArray(data.dtype, data.shape)
        if not isinstance(node.inputs[0].type, TensorType):
            return None
        return self._mover(node)

    def run(self, inputs: Sequence[Sequence[Any]], written: Written) -> tuple[Any, ...]:
        """Run a step in this thread.

        Args:
            inputs: for each partition what is fed to it.
            written: is told what the step has written.

        Raises:
            EagerflowError: what eager code would raise, with the line of the node.
            CancelledError: the thread is to stop.
        """
        ready: deque[Strand] = deque()
        routes = [RouteCount(ready) for _ in {*self._routes.values()}]
        edges = [EdgeQueue(routes[route]) for route in self._routes.values()]
        codes = self._codes(told=bool(AbstractEvent.listeners))
        strands = [
            code.start(edges, routes, written.add, given)
            for code, given in zip(codes, inputs, strict=True)
        ]
        ready += strands
        ended: dict[Strand, tuple[Any, ...]] = {}
        while ready:
            strand = ready.popleft()
            if step_of.stopped is not None and step_of.stopped():
                raise CancelledError("the step was cancelled")
            try:
                next(strand).waiting = strand
            except StopIteration as end:
                ended[strand] = end.value
            except Exception as error:
                _explain(error, codes)
                raise
        if len(ended) < len(strands) or any(edge.values for edge in edges):
            raise SchedulerError("partitions wait for each other, or for what is not sent")
        results = [ended[strand] for strand in strands]
        return tuple([results[place][number] for place, number in self._outputs])


def _explain(error: Exception, codes: Sequence[StrandCode]) -> None:
    """Let an error say in which iterations it was raised, and at which node."""
    by_file = {code.file: code for code in codes}
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename not in by_file:
        trace = trace.tb_next
    if trace is None:
        return
    node, loops = by_file[trace.tb_frame.f_code.co_filename].lines[trace.tb_lineno]
    if node is not None and node.op in ("Send", "Switch"):
        if isinstance(error, EagerflowError):
            relocate(error, node.source)
        error.add_note(node_note(node))
    variables = trace.tb_frame.f_locals
    for loop in loops[::-1]:
        number = variables.get(loop.number)
        if number is not None:
            if loop.length:
                number = variables[loop.length] - 1 - number
            op = loop.node.attrs.get("loop", (loop.node.attrs["frame"],))[0]
            error.add_note(iteration_note(op, number, loop.node.source))
