"""`Program`: a graph made ready to run, the interpreter tier."""

from __future__ import annotations

import threading
import weakref
from itertools import count
from time import perf_counter
from typing import Any, Final, final

from eagerflow import events
from eagerflow.graph.ir import Graph
from eagerflow.hardware import Lane
from eagerflow.runtime.codegen import Code, generate
from eagerflow.runtime.failures import failure
from eagerflow.runtime.instructions import flatten
from eagerflow.runtime.observe import Observer
from eagerflow.runtime.quiet import QUIET, error_state
from eagerflow_kernels import table

__all__ = ["Program"]

_serial: Final = count(1)
_lock: Final = threading.Lock()
_programs: Final[weakref.WeakSet[Program]] = weakref.WeakSet()


@final
class Program:
    """A graph made ready to run: kernels looked up once, one call of each in a generated function.

    Called with raw arrays (what tensors hold) for the inputs that are tensors, and Python numbers
    for the others, it gives a tuple of the same. A value is dropped after its last use. Calls from
    many threads do not disturb each other.

    Args:
        graph: the graph. It must not change afterwards.

    Attributes:
        graph: the graph.
        lanes: for each output its lane, or None for a number.
        number: tells the events of this program from those of others.

    Raises:
        GraphError: something in the graph cannot run.

    >>> from eagerflow.runtime import Program
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> (y,) = Program(graph)(ef.zeros(2).numpy())
    >>> y
    array([1., 1.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_code", "_instructions", "_observed", "_ops", "graph", "lanes",
                 "number")  # fmt: skip

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.number = next(_serial)
        self._instructions = flatten(graph)
        self.lanes: tuple[Lane | None, ...] = tuple(
            map(self._instructions.lane, self._instructions.outputs)
        )
        self._ops = {line.node.op for line in self._instructions.all if line.node is not None}
        self._code: Code | None = None
        self._observed: tuple[Code, Observer] | None = None
        self._compile()
        with _lock:
            _programs.add(self)

    def _compile(self) -> Code:
        code = self._code = generate(self.graph.name, self._instructions)
        return code

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it.

        Raises:
            EagerflowError: what eager code would raise, with the line of the node.
        """
        code, observer, start = self._code or self._compile(), None, 0.0
        if events.listening():
            code, observer = self._observed or self._observe()
            start = perf_counter()
        token = error_state.set(QUIET)
        try:
            return code.run(*inputs)
        except Exception as error:
            failed = failure(self._instructions, code, error)
        finally:
            error_state.reset(token)
            if observer is not None:
                observer.step(start)
        try:
            raise failed
        finally:
            del failed  # an exception whose frame holds it would keep the inputs alive

    def _observe(self) -> tuple[Code, Observer]:
        observer = Observer(self.number, self.graph.name, self._instructions)
        code = generate(self.graph.name, self._instructions, observer.note)
        self._observed = code, observer
        return self._observed

    @property
    def text(self) -> str:
        """The generated function."""
        return (self._code or self._compile()).text

    def __repr__(self) -> str:
        return f"<program of {self.graph!r}>"


def _kernels_changed(name: str) -> None:
    """Kernels that are registered anew count from the next call on, as they do eagerly."""
    with _lock:
        found = [p for p in _programs if name in p._ops]
    for program in found:
        program._code = program._observed = None


table.on_change(_kernels_changed)
