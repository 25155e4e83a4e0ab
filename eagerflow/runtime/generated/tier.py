"""The generated tier: a graph as one Python function."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, final

from eagerflow.core.op import find_op
from eagerflow.errors import CancelledError, DeadlineError
from eagerflow.events import step_of
from eagerflow.graph.ir import Graph
from eagerflow.hardware import Lane
from eagerflow.resources.mutex import this_thread
from eagerflow.runtime.generated.codegen import Code
from eagerflow.runtime.generated.float_warnings import QUIET, error_state
from eagerflow.runtime.generated.region_code import RegionCode
from eagerflow.runtime.threads import deadline

__all__ = ["GeneratedTier"]


@final
class GeneratedTier:
    """Runs all of a graph in the thread that asks for it, as one generated function.

    Kernels are looked up once; a value is dropped after its last use.

    Args:
        graph: the graph. It must not change afterwards.
        number: of its executable, for events.

    Attributes:
        name: ``"generated"``.
        lanes: for each output its lane, or None for a number.

    Raises:
        GraphError: something in the graph cannot run.

    >>> from eagerflow.runtime.generated.tier import GeneratedTier
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> GeneratedTier(graph).run([ef.zeros(2).numpy()])
    (array([1., 1.], dtype=float32),)
    """

    __slots__ = ("_mutexes", "_region", "lanes")

    name = "generated"

    def __init__(self, graph: Graph, number: int = 0) -> None:
        self._region = RegionCode(graph, number, graph.name)
        self._region.plain()  # what cannot run is refused now
        self._mutexes = _mutexes_of(graph)
        self.lanes: tuple[Lane | None, ...] = self._region.lanes

    @property
    def direct(self) -> Code | None:
        """The function, unless there is more to do than to call it."""
        return None if self._mutexes else self._region.plain()

    @property
    def text(self) -> str:
        """Its source."""
        return self._region.plain().text

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step.

        Raises:
            EagerflowError: what eager code would raise, with the line of the node.
            DeadlineError: it took longer than its `ef.deadline` allowed.
        """
        end = deadline.moment() if deadline.active() else None
        around = step_of.stopped
        held = [(mutex, mutex.holds) for mutex in self._mutexes]

        def stopped() -> bool:
            late = end is not None and monotonic() >= end
            return late or (around is not None and around())

        if end is not None:
            if stopped():
                raise deadline.too_late()
            step_of.stopped = stopped
        token = error_state.set(QUIET)
        try:
            return self._region.run([*reversed(inputs)])
        except DeadlineError:
            raise
        except CancelledError as error:
            if end is None or monotonic() < end:
                raise
            failed = deadline.too_late()
            for note in getattr(error, "__notes__", ()):
                failed.add_note(note)
        finally:
            error_state.reset(token)
            step_of.stopped = around
            for mutex, before in held:  # if it has failed in between
                mutex.drop_held_by(this_thread(), before)
            del inputs
        raise failed


def _mutexes_of(graph: Graph) -> tuple[Any, ...]:
    """The mutexes that a graph acquires."""
    mutexes = list[Any]()
    for node in graph.nodes:
        op = find_op(node.op)
        if op is not None and op.holds:
            mutexes.append(node.attrs["resource"])
        for _, inner in node.subgraphs():
            mutexes += _mutexes_of(inner)
    return tuple(dict.fromkeys(mutexes))
