"""Strands: the partitions of a cut as generators, which one thread runs, one at a time.

Where no part of a device is worth a thread beside another one, there is nothing to schedule:
partitions only have to wait for each other, and for values of asynchronous devices. So each is a
generator that runs its nodes in order, branches and loops as Python's own, until it needs a value
that was not sent yet (``docs/decisions/0034-strands.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, final

from eagerflow.error_messages import iteration_note, note_place
from eagerflow.errors import EagerflowError, SchedulerError, relocate
from eagerflow.events import AbstractEvent
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import lead_of
from eagerflow.graph.text.printer import node_note
from eagerflow.hardware import NullArray
from eagerflow.placement.cut import Cut
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.late_values import is_sent_late
from eagerflow.runtime.rendezvous.keys import Route
from eagerflow.runtime.sent_values import SentValues
from eagerflow.runtime.strands.common_order import OrderedCut
from eagerflow.runtime.strands.edges import EdgeQueue, RouteCount
from eagerflow.runtime.strands.run import AtOnce, Begin, RunsGraph, StrandRun
from eagerflow.runtime.strands.text import StrandCode
from eagerflow.runtime.strands.translation import TranslatedPartition
from eagerflow.types import TensorType


class CutGraph(RunsGraph, Protocol):
    """A tier that runs a graph that was cut.

    Attributes:
        cut: the partitions of the graph.
    """

    @property
    def cut(self) -> Cut | None: ...


@final
class Strands:
    """The partitions of a cut, each as a strand.

    Args:
        tier: the tier with the cut.
        routes: the route of each edge.
        sent: moves the values that are sent.
        begins: for each op that may have to wait the function that begins it.
        at_once: gives for a node of such an op the function that runs it while it need not wait.
        is_heavy: whether nodes are worth a thread of their own.

    Attributes:
        has_loops: whether there is a loop over several partitions.

    Raises:
        GraphError: branches or loops do not have the form that lowering gives them.
    """

    __slots__ = ("_at_once", "_begins", "_edges", "_for_host", "_outputs", "_routes", "_sent",
                 "_tier", "_translated", "_versions", "has_loops")  # fmt: skip

    def __init__(
        self, tier: CutGraph, routes: Mapping[str, Route], sent: SentValues,
        begins: Mapping[str, Begin], at_once: AtOnce, is_heavy: Callable[[Sequence[Node]], bool],
    ) -> None:  # fmt: skip
        cut = tier.cut
        assert cut is not None
        order = OrderedCut(cut)
        self._tier = tier
        self._for_host = order.for_host
        self.has_loops = order.has_common_loops
        self._sent = sent
        self._begins = begins
        self._at_once = at_once
        self._translated: list[TranslatedPartition] = []
        for partition in cut.partitions:
            first = sum(len(translated.regions) for translated in self._translated)
            self._translated.append(
                TranslatedPartition(partition, order, tier.number, first, begins, is_heavy)
            )
        numbers = {route: i for i, route in enumerate(dict.fromkeys(routes.values()))}
        self._edges = {edge: i for i, edge in enumerate(routes)}
        self._routes = {edge: numbers[route] for edge, route in routes.items()}
        places = {translated.partition: i for i, translated in enumerate(self._translated)}
        seen = dict.fromkeys(cut.partitions, 0)
        self._outputs: list[tuple[int, int]] = []  # of each its partition, and its number there
        for partition, _ in cut.outputs:
            self._outputs.append((places[partition], seen[partition]))
            seen[partition] += 1
        self._versions: dict[bool, list[StrandCode]] = {}

    @property
    def text(self) -> str:
        """The generators, and the functions of their regions."""
        lines = [code.text for code in self._codes(told=False)]
        for translated in self._translated:
            for one in translated.regions:
                lines += [f"# r{one.region}", one.code.plain().text]
        return "\n".join(lines)

    @property
    def regions(self) -> list[RegionCode]:
        """The generated functions of their regions."""
        return [one.code for translated in self._translated for one in translated.regions]

    def _codes(self, *, told: bool) -> list[StrandCode]:
        known = self._versions.get(told)
        if known is None:
            known = self._versions[told] = [
                StrandCode(
                    translated,
                    self._edges,
                    self._routes,
                    told=told,
                    send=self._send,
                    begins=self._begins,
                    at_once=self._at_once,
                )
                for translated in self._translated
            ]
        return known

    def _send(self, node: Node) -> Callable[[Any], Any] | None:
        """The function that gives the form in which a Send sends a value; None if unchanged."""
        if not node.inputs:
            return None
        if "shape" in node.attrs:
            return lambda data: NullArray(data.dtype, data.shape)
        if not isinstance(node.inputs[0].type, TensorType):
            return None
        if node.inputs[0] in self._for_host:
            return self._sent.teller(node)
        return (self._sent.later if is_sent_late(node) else self._sent.mover)(node)

    def run(
        self, inputs: Sequence[Sequence[Any]], written: Written, helpers: int = 0
    ) -> tuple[Any, ...]:
        """Run a step in this thread.

        Args:
            inputs: the inputs of each partition.
            written: records what the step has written.
            helpers: number of pool threads that may help.

        Raises:
            EagerflowError: the error that eager code would raise, with the line of the node.
            CancelledError: the thread is to stop.
        """
        run = StrandRun(self._tier, helpers, written)
        routes = [RouteCount(run.ready) for _ in {*self._routes.values()}]
        edges = [EdgeQueue(routes[route]) for route in self._routes.values()]
        codes = self._codes(told=bool(AbstractEvent.listeners))
        strands = [
            code.start(edges, routes, run, given) for code, given in zip(codes, inputs, strict=True)
        ]
        try:
            results = run.run(strands)
        except Exception as error:
            _explain(error, codes, self._begins)
            raise
        except KeyboardInterrupt:
            written.may_include(run.writing)
            raise
        finally:
            run.end()
        if any(edge.values for edge in edges):
            raise SchedulerError("a value was sent that no partition received")
        return tuple([results[place][number] for place, number in self._outputs])


def _explain(
    error: Exception, codes: Sequence[StrandCode], waiting: Container[str]
) -> None:  # fmt: skip
    """Note in an error the node and the iterations in which it was raised."""
    by_file = {code.file: code for code in codes}
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename not in by_file:
        trace = trace.tb_next
    if trace is None:
        return
    node, loops = by_file[trace.tb_frame.f_code.co_filename].lines[trace.tb_lineno]
    if node is not None and (lead_of(node.op) in ("send", "branch") or node.op in waiting):
        if isinstance(error, EagerflowError):
            relocate(error, node.source)
        note_place(error, node_note(node))
    variables = trace.tb_frame.f_locals
    for loop in loops[::-1]:
        number = variables.get(loop.number)
        if number is not None:
            if loop.length:
                number = variables[loop.length] - 1 - number
            op = loop.node.attrs.get("loop", (loop.node.attrs["frame"],))[0]
            note_place(error, iteration_note(op, number, loop.node.source))
