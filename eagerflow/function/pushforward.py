"""The derivative of a trace in forward mode: graphs that compute tangents beside the values.

A traced function that is called within `jvp` runs such a graph, where nothing else has to see its
ops. The graph is made by tracing forward mode itself, once for each set of inputs with tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from eagerflow.autodiff.forward_mode import Broken, Forward
from eagerflow.control.derivatives.forward_mode import PushedGraph
from eagerflow.control.structured import names_of
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import Tensor, handle_of
from eagerflow.errors import EagerflowError
from eagerflow.function.derivative import is_smooth, without_reads
from eagerflow.graph.ir import Graph
from eagerflow.graph.passes import optimise
from eagerflow.runtime.background_compilation import Mode
from eagerflow.runtime.executable import Executable

_Pushed = tuple[PushedGraph, Executable]


@final
class Pushforward:
    """The graphs of a trace with tangents.

    Args:
        graph: of the trace.
        compile: when the graphs are compiled.
    """

    def __init__(self, graph: Graph, compile: Mode) -> None:
        self._compile: Mode = compile
        self._graph, self._reads = without_reads(graph)
        #: by which inputs have tangents; None where forward mode has to see each op
        self._pushed: dict[tuple[bool, ...], _Pushed | None] = {}

    @staticmethod
    def of(graph: Graph, compile: Mode = "off") -> Pushforward | None:
        """The derivative; None where forward mode has to see each op."""
        return Pushforward(graph, compile) if is_smooth(graph) else None

    @property
    def executables(self) -> list[Executable]:
        """The executables of the graphs made so far."""
        return [pushed[1] for pushed in list(self._pushed.values()) if pushed is not None]

    def call(self, forward: Forward, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs for these inputs, with tangents; None where each op has to be seen.

        Args:
            forward: the interpreter, alone in its thread.
            inputs: tensors and numbers.
        """
        tangents = [forward.tangent_of(x) if type(x) is Tensor else None for x in inputs]
        if forward.is_within_rule or any(isinstance(t, Broken) for t in tangents):
            return None
        key = tuple([t is not None for t in tangents])
        if key not in self._pushed:
            self._pushed[key] = self._make(key)
        pushed = self._pushed[key]
        if pushed is None:
            return None
        graph, executable = pushed
        reads = [bind(get_op(node.op), **node.attrs) for node in self._reads]
        given = [*inputs, *reads, *[t for t in tangents if t is not None]]
        outputs, along = graph.apart(executable.apply(given))
        results = [handle_of(y) if type(y) is Tensor else y for y in outputs]
        for y, tangent in zip(results, along, strict=True):
            if type(y) is Tensor:
                forward.enter(y, tangent)
        return results

    def _make(self, moving: Sequence[bool]) -> _Pushed | None:
        along = [m or None for m in moving] + [None] * len(self._reads)
        names = frozenset([name for _, name, _ in names_of(self._graph)])
        try:
            made = PushedGraph(self._graph, along, names)
        except EagerflowError:  # forward mode raises it with its own text, or does not need the op
            return None
        return made, Executable(optimise(made.graph)[0], self._compile)
